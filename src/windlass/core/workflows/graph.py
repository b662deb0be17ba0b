"""The graph of steps: algorithms on names for validation, and the `Plan`, by step number, for decisions.

No function recurses or compares all pairs of steps: a chain of thousands of steps must work as well as a wide graph.
Parents that are not in a graph of names (`name -> parents`) are ignored; the caller must report them.
"""

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from windlass.core.workflows.step import (
    ApprovalAction,
    ChildAction,
    Condition,
    EventAction,
    HookAction,
    Join,
    SleepAction,
    Step,
    UndoAction,
)

Parents = Mapping[str, Collection[str]]
CALLBACKS = ("on_complete", "on_success", "on_failure")  # names of the steps that are callbacks of a composition


def order(parents: Parents) -> list[str]:
    """Return the names in topological order. Names on a cycle, or after one, are left out."""
    followers = children(parents)
    missing = dict.fromkeys(parents, 0)
    for names in followers.values():
        for name in names:
            missing[name] += 1
    ready = deque(name for name, count in missing.items() if not count)
    ordered = []
    while ready:
        ordered.append(ready.popleft())
        for name in followers[ordered[-1]]:
            missing[name] -= 1
            if not missing[name]:
                ready.append(name)
    return ordered


def cycles(parents: Parents) -> list[tuple[str, ...]]:
    """Return cycles that share no name, each in edge direction and starting at its first name in definition order.

    The result is empty only if the graph has no cycle. Breaking these cycles may reveal others.
    """
    rank = {name: n for n, name in enumerate(parents)}
    followers = children(parents)
    done: set[str] = set()
    return [_rotated(cycle, rank) for name in parents for cycle in _cycles_from(name, followers, done)]


def children(parents: Parents) -> dict[str, list[str]]:
    """Return the reversed graph: the children of each name, without duplicates."""
    followers: dict[str, list[str]] = {name: [] for name in parents}
    for name, before in parents.items():
        for parent in dict.fromkeys(before):
            if parent in followers:
                followers[parent].append(name)
    return followers


class Lineage:
    """Ancestor relation of a graph. Each name has a bit mask of its ancestors, so that a lookup is cheap."""

    def __init__(self, parents: Parents) -> None:
        self._bit = {name: 1 << n for n, name in enumerate(parents)}
        self._before: dict[str, int] = {}
        for name in order(parents):
            bits = 0
            for parent in parents[name]:
                bits |= self._bit.get(parent, 0) | self._before.get(parent, 0)
            self._before[name] = bits

    def has(self, name: str, ancestor: str) -> bool:
        return bool(self._before.get(name, 0) & self._bit.get(ancestor, 0))


def _cycles_from(start: str, followers: Mapping[str, list[str]], done: set[str]) -> Iterator[tuple[str, ...]]:
    """Yield the cycles found depth first. A name that is already on the path closes a cycle, whose names are done."""
    path: list[str] = []
    waiting: list[Iterator[str]] = [iter([start])]
    on_path: set[str] = set()
    while waiting:
        name = next(waiting[-1], None)
        if name is None:
            waiting.pop()
            _leave(path, on_path, done, len(waiting) - 1)
        elif name in on_path:
            depth = path.index(name)
            del waiting[depth + 1 :]
            yield _leave(path, on_path, done, depth)
        elif name not in done:
            path.append(name)
            on_path.add(name)
            waiting.append(iter(followers[name]))


def _leave(path: list[str], on_path: set[str], done: set[str], depth: int) -> tuple[str, ...]:
    """Cut the path at this depth, mark the removed names as done and return them."""
    left = tuple(path[max(depth, 0) :])
    del path[max(depth, 0) :]
    on_path.difference_update(left)
    done.update(left)
    return left


def _rotated(cycle: tuple[str, ...], rank: Mapping[str, int]) -> tuple[str, ...]:
    first = min(range(len(cycle)), key=lambda n: rank[cycle[n]])
    return cycle[first:] + cycle[:first]


@dataclass(frozen=True, eq=False)
class Plan:
    """A definition prepared for `decide`: parents and children of each step and the condition of each edge.

    Built once for each version and cached. The steps are already validated: every parent exists, no cycles.
    """

    steps: Sequence[Step]
    composition: bool = False  # of jobs: its event trail records other starts and ends

    @cached_property
    def number(self) -> dict[str, int]:
        return {step.name: n for n, step in enumerate(self.steps)}

    @cached_property
    def parents(self) -> tuple[tuple[tuple[int, Condition], ...], ...]:
        return tuple(tuple((self.number[edge.parent], edge.condition) for edge in step.edges) for step in self.steps)

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """Return, for each step, the steps with an edge from it. The final step has none: it waits for all steps."""
        followers: list[dict[int, None]] = [{} for _ in self.steps]
        for child, edges in enumerate(self.parents):
            for parent, _ in edges:
                followers[parent][child] = None
        return tuple(tuple(children) for children in followers)

    @cached_property
    def any_join(self) -> tuple[bool, ...]:
        return tuple(step.join is Join.ANY for step in self.steps)

    @cached_property
    def final(self) -> int | None:
        return next((n for n, step in enumerate(self.steps) if step.final), None)

    @cached_property
    def waits_for_messages(self) -> bool:
        return any(isinstance(step.action, EventAction) for step in self.steps)

    @cached_property
    def hooks(self) -> tuple[int, ...]:
        """Return the steps that wait for a callback."""
        return tuple(n for n, step in enumerate(self.steps) if isinstance(step.action, HookAction))

    @cached_property
    def single_jobs(self) -> tuple[int, ...]:
        """Return the steps with exactly one job: their starts and successes are in that job's event trail."""
        without = (SleepAction, HookAction, EventAction, ApprovalAction, ChildAction, UndoAction)
        return tuple(n for n, s in enumerate(self.steps) if s.fan_out is None and not isinstance(s.action, without))

    @cached_property
    def noted_starts(self) -> frozenset[int]:
        """Return the steps whose starts are recorded in the run's event trail even without a reason."""
        if self.composition:
            return frozenset(self.number[name] for name in CALLBACKS if name in self.number)
        return frozenset(range(len(self.steps))).difference(self.single_jobs)

    @cached_property
    def noted_ends(self) -> frozenset[int]:
        """Return the steps whose ends are recorded in the run's event trail even without a reason."""
        return frozenset(range(len(self.steps))) if self.composition else self.noted_starts

    @cached_property
    def roots(self) -> tuple[int, ...]:
        others = {self.final, *self.undo.values()}
        return tuple(n for n, step in enumerate(self.steps) if not step.edges and n not in others)

    @cached_property
    def undo(self) -> Mapping[int, int]:
        """Return the compensation of each step that has one."""
        return {self.number[step.compensates]: n for n, step in enumerate(self.steps) if step.compensates is not None}

    @cached_property
    def compensations(self) -> frozenset[int]:
        return frozenset(self.undo.values())

    def before(self, step: int) -> set[int]:
        """Return the steps that must end before this one.

        They are its parents; for the final step all other steps; for a compensation the step that it undoes.
        """
        if step == self.final:
            return set(range(len(self.steps))) - self.compensations - {step}
        undone = self.steps[step].compensates
        return {parent for parent, _ in self.parents[step]} if undone is None else {self.number[undone]}

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
