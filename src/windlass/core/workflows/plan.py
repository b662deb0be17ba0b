"""A definition prepared for `decide`: steps by number, their parents and children, and the condition of each edge."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from windlass.core.workflows.step import ChildAction, Condition, HookAction, Join, SleepAction, Step


@dataclass(frozen=True, eq=False)
class Plan:
    """Built once for each version and cached. The steps are already validated: every parent exists, no cycles."""

    steps: Sequence[Step]

    @cached_property
    def number(self) -> dict[str, int]:
        return {step.name: n for n, step in enumerate(self.steps)}

    @cached_property
    def parents(self) -> tuple[tuple[tuple[int, Condition], ...], ...]:
        return tuple(tuple((self.number[edge.parent], edge.condition) for edge in step.edges) for step in self.steps)

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """Return, for each step, the steps with an edge from it. The final step is in none: it waits for all steps."""
        found: list[dict[int, None]] = [{} for _ in self.steps]
        for child, edges in enumerate(self.parents):
            for parent, _ in edges:
                found[parent][child] = None
        return tuple(tuple(children) for children in found)

    @cached_property
    def any_join(self) -> tuple[bool, ...]:
        return tuple(step.join is Join.ANY for step in self.steps)

    @cached_property
    def final(self) -> int | None:
        return next((n for n, step in enumerate(self.steps) if step.final), None)

    @cached_property
    def hooks(self) -> tuple[int, ...]:
        """Return the steps that wait for a callback."""
        return tuple(n for n, step in enumerate(self.steps) if isinstance(step.action, HookAction))

    @cached_property
    def quiet(self) -> tuple[int, ...]:
        """Return the steps with no job or with several: their starts and ends are in the run's event trail."""
        without = (SleepAction, HookAction, ChildAction)
        return tuple(n for n, s in enumerate(self.steps) if isinstance(s.action, without) or s.fan_out is not None)

    @cached_property
    def single_jobs(self) -> tuple[int, ...]:
        """Return the steps with exactly one job: their starts and successes are in that job's event trail."""
        return tuple(n for n in range(len(self.steps)) if n not in set(self.quiet))

    @cached_property
    def roots(self) -> tuple[int, ...]:
        return tuple(n for n, step in enumerate(self.steps) if not step.edges and not step.final)

    def before(self, step: int) -> set[int]:
        """Return the steps that must end before this one; for the final step, all others."""
        if step == self.final:
            return set(range(len(self.steps))) - {step}
        return {parent for parent, _ in self.parents[step]}

    def ancestors(self, step: int) -> set[int]:
        """Return all direct and indirect predecessors of a step."""
        seen = set(self.before(step))
        waiting = list(seen)
        while waiting:
            for parent, _ in self.parents[waiting.pop()]:
                if parent not in seen:
                    seen.add(parent)
                    waiting.append(parent)
        return seen

    def descendants(self, of: Iterable[int]) -> set[int]:
        """Return all steps reachable from these; the final step, if there is one, is always included."""
        seen: set[int] = set()
        waiting = list(of)
        while waiting:
            for child in self.children[waiting.pop()]:
                if child not in seen:
                    seen.add(child)
                    waiting.append(child)
        return seen if self.final is None else seen | {self.final}
