"""Edges between entries, the results that meet their conditions, and the plan of an execution.

`core.runs.decide` defines what an edge means; this module stores edges, rejects cycles and selects the edges of a root.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property

from windlass.core.runs.edges import MEETS
from windlass.core.runs.run import Letter, first_letters
from windlass.core.workflows.graph import Plan
from windlass.core.workflows.step import Condition, Edge, JobAction, Step
from windlass.cron.context import EntryId
from windlass.cron.errors import CycleDetected, InvalidCondition

Label = Callable[[EntryId], str]


class JobResult(StrEnum):
    PENDING = "pending"  # not decided yet, or running
    SUCCESS = "success"
    FAILURE = "failure"
    SKIPPED = "skipped"

    @property
    def terminal(self) -> bool:
        return self is not JobResult.PENDING


LETTERS = {
    JobResult.PENDING: Letter.WAITING,
    JobResult.SUCCESS: Letter.SUCCEEDED,
    JobResult.FAILURE: Letter.FAILED,
    JobResult.SKIPPED: Letter.SKIPPED,
}
RESULTS = {
    Letter.WAITING: JobResult.PENDING,
    Letter.ACTIVE: JobResult.PENDING,
    Letter.SUCCEEDED: JobResult.SUCCESS,
    Letter.FAILED: JobResult.FAILURE,
    Letter.TIMED_OUT: JobResult.FAILURE,
    Letter.SKIPPED: JobResult.SKIPPED,
    Letter.CANCELLED: JobResult.FAILURE,
}


def matches(condition: Condition, result: JobResult) -> bool:
    """Return whether a parent with this result meets the condition of an edge."""
    return LETTERS[result] in MEETS[condition]


def read_condition(condition: Condition | str) -> Condition:
    try:
        return Condition(condition)
    except ValueError:
        raise InvalidCondition(condition) from None


@dataclass(frozen=True, slots=True)
class Dependency:
    parent: EntryId
    condition: Condition


@dataclass(frozen=True)
class Reach:
    """All entries reachable from a root, with a copy of their edges. Parents outside the set count as skipped."""

    root: EntryId
    members: tuple[EntryId, ...]  # the root first, the compensations last
    outside: tuple[EntryId, ...]
    plan: Plan

    @property
    def letters(self) -> str:
        return first_letters(self.plan)[: len(self.members)] + Letter.SKIPPED * len(self.outside)

    @cached_property
    def number(self) -> dict[EntryId, int]:
        return {entry: n for n, entry in enumerate(self.members)}

    def has_edge(self, child: EntryId, parent: EntryId) -> bool:
        if child not in self.number or parent not in self._numbers:
            return False
        parents = self.plan.parents[self.number[child]]
        return any(self._numbers[parent] == number for number, _ in parents)

    @cached_property
    def _numbers(self) -> dict[EntryId, int]:
        return {entry: n for n, entry in enumerate(self.members + self.outside)}


class Dependencies:
    def __init__(self, label: Label) -> None:
        self._label = label
        self._edges: dict[EntryId, list[Dependency]] = {}
        self._children: dict[EntryId, dict[EntryId, None]] = {}
        self._compensations: dict[EntryId, EntryId] = {}
        self._reaches: dict[EntryId, Reach] = {}  # a cache, cleared when an edge changes

    def of(self, child: EntryId) -> list[Dependency]:
        return list(self._edges.get(child, ()))

    def has_children(self, entry: EntryId) -> bool:
        return entry in self._children

    def add(self, child: EntryId, parent: EntryId, condition: Condition) -> None:
        if path := self._path_up(parent, child):
            raise CycleDetected([self._label(entry) for entry in path])
        edge = Dependency(parent, condition)
        edges = self._edges.setdefault(child, [])
        if edge not in edges:
            edges.append(edge)
            self._children.setdefault(parent, {})[child] = None
            self._reaches.clear()

    def compensate(self, entry: EntryId, compensation: EntryId) -> None:
        """Register an entry as the compensation of another."""
        self._compensations[entry] = compensation
        self._reaches.clear()

    def remove(self, child: EntryId, parent: EntryId) -> None:
        """Remove all edges between two entries."""
        left = [edge for edge in self._edges.get(child, ()) if edge.parent != parent]
        self._edges.pop(child, None)
        if left:
            self._edges[child] = left
        self._children.get(parent, {}).pop(child, None)
        if not self._children.get(parent, True):
            del self._children[parent]
        self._reaches.clear()

    def replace(self, child: EntryId, edges: list[Dependency]) -> None:
        """Replace the edges of an entry. If one would close a cycle, restore the old edges and raise."""
        before = self.of(child)
        self._drop(child)
        try:
            for edge in edges:
                self.add(child, edge.parent, edge.condition)
        except CycleDetected:
            self._drop(child)
            for edge in before:
                self.add(child, edge.parent, edge.condition)
            raise

    def _drop(self, child: EntryId) -> None:
        for parent in {edge.parent for edge in self.of(child)}:
            self.remove(child, parent)

    def forget(self, entry: EntryId) -> None:
        """Remove all edges to and from an entry."""
        self._drop(entry)
        for child in list(self._children.get(entry, ())):
            self.remove(child, entry)
        self._compensations.pop(entry, None)
        self._reaches.pop(entry, None)

    def reach(self, root: EntryId) -> Reach:
        if root not in self._reaches:
            self._reaches[root] = self._cut_out(root)
        return self._reaches[root]

    def _cut_out(self, root: EntryId) -> Reach:
        members = {root: None}
        waiting = [root]
        while waiting:
            for child in self._children.get(waiting.pop(), ()):
                if child not in members:
                    members[child] = None
                    waiting.append(child)
        edges = {entry: self._edges.get(entry, []) if entry != root else [] for entry in members}
        outside = dict.fromkeys(edge.parent for kept in edges.values() for edge in kept if edge.parent not in members)
        undo = {by: entry for entry in members if (by := self._compensations.get(entry)) is not None}
        steps = [
            *(self._step(entry, edges[entry]) for entry in members),
            *(replace(self._step(by, []), compensates=self._label(entry)) for by, entry in undo.items()),
            *(self._step(entry, []) for entry in outside),
        ]
        return Reach(root, (*members, *undo), tuple(outside), Plan(steps))

    def _step(self, entry: EntryId, edges: list[Dependency]) -> Step:
        name = self._label(entry)
        parents = tuple(Edge(self._label(edge.parent), edge.condition) for edge in edges)
        return Step(name=name, action=JobAction(type=name), edges=parents)

    def _path_up(self, start: EntryId, goal: EntryId) -> list[EntryId]:
        """Return a path from `start` through parents to `goal`, listed from the goal; empty if there is none."""
        came_from: dict[EntryId, EntryId | None] = {start: None}
        waiting = [start]
        while waiting:
            entry = waiting.pop()
            if entry == goal:
                return _traced(entry, came_from)
            for edge in self._edges.get(entry, ()):
                if edge.parent not in came_from:
                    came_from[edge.parent] = entry
                    waiting.append(edge.parent)
        return []


def _traced(entry: EntryId, came_from: dict[EntryId, EntryId | None]) -> list[EntryId]:
    path = [entry]
    while (before := came_from[path[-1]]) is not None:
        path.append(before)
    return path
