"""A definition made ready for deciding: steps by number, who follows whom, what each edge asks."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from windlass.core.workflows.step import ChildAction, Condition, HookAction, Join, SleepAction, Step


@dataclass(frozen=True, eq=False)
class Plan:
    """Made once for each version and kept. The steps are known to be sound: every parent exists, no cycles."""

    steps: Sequence[Step]

    @cached_property
    def number(self) -> dict[str, int]:
        return {step.name: n for n, step in enumerate(self.steps)}

    @cached_property
    def parents(self) -> tuple[tuple[tuple[int, Condition], ...], ...]:
        return tuple(tuple((self.number[edge.parent], edge.condition) for edge in step.edges) for step in self.steps)

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """Who must be looked at when a step ended; the final step is not among them, it waits for everybody."""
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
        """Steps that wait for a callback."""
        return tuple(n for n, step in enumerate(self.steps) if isinstance(step.action, HookAction))

    @cached_property
    def quiet(self) -> tuple[int, ...]:
        """Steps whose starts and ends are in no job's trail, or in those of many: the run's trail has them."""
        without = (SleepAction, HookAction, ChildAction)
        return tuple(n for n, s in enumerate(self.steps) if isinstance(s.action, without) or s.fan_out is not None)

    @cached_property
    def single_jobs(self) -> tuple[int, ...]:
        """Steps with one job, whose trail has their starts and successes."""
        return tuple(n for n in range(len(self.steps)) if n not in set(self.quiet))

    @cached_property
    def roots(self) -> tuple[int, ...]:
        return tuple(n for n, step in enumerate(self.steps) if not step.edges and not step.final)

    def before(self, step: int) -> set[int]:
        """Whose ends a step waits for; a final step waits for everybody."""
        if step == self.final:
            return set(range(len(self.steps))) - {step}
        return {parent for parent, _ in self.parents[step]}

    def ancestors(self, step: int) -> set[int]:
        """Everybody who comes before a step, near or far."""
        seen = set(self.before(step))
        waiting = list(seen)
        while waiting:
            for parent, _ in self.parents[waiting.pop()]:
                if parent not in seen:
                    seen.add(parent)
                    waiting.append(parent)
        return seen

    def descendants(self, of: Iterable[int]) -> set[int]:
        """Everything reached from these steps, themselves not included; a final step follows everybody."""
        seen: set[int] = set()
        waiting = list(of)
        while waiting:
            for child in self.children[waiting.pop()]:
                if child not in seen:
                    seen.add(child)
                    waiting.append(child)
        return seen if self.final is None else seen | {self.final}
