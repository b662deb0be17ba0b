"""Reads compositions for their clients: one with all nested ones, and the list of the outermost ones.

A nested composition has no run until it is due. If it never becomes due (the chain around it failed, the composition
around it was cancelled), it has ended as `cancelled`: this is derived from the enclosing runs and not stored.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from uuid import UUID

from windlass.core.compositions import callbacks_of
from windlass.core.json_value import encode
from windlass.core.runs.run import BAD, LIVE, OPEN, Letter, RunState
from windlass.core.workflows.workflow import Workflow
from windlass.engine.compositions.control import Node, find, letters_of
from windlass.engine.database import Tenant
from windlass.store import compositions as store
from windlass.store.compositions import Listed, PartJob

__all__ = ["Listed", "PartJob"]
STOPPED = frozenset({RunState.CANCELLED, RunState.TIMEOUT})
MOST_JOBS_INSIDE = 1_000  # jobs of compositions inside the requested one
MOST_RESULTS_INSIDE = 4 * 1_048_576  # total bytes of their results


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers of jobs, including those of nested compositions; callbacks are not counted."""

    jobs: int
    completed: int
    failed: int


@dataclass(frozen=True)
class View:
    """The current state of a composition. `jobs` and `inside` are keyed by the step's number."""

    node: Node
    workflow: Workflow
    letters: str
    jobs: Mapping[int, PartJob]  # of a step with many jobs the first
    failed: Sequence[PartJob]
    inside: Mapping[int, "View"]
    around: Node | None

    @cached_property
    def counts(self) -> Counts:
        jobs, completed, failed = self.node.jobs, 0, 0
        for n, letter in enumerate(self.letters):
            if n in callbacks_of(self.workflow).values() or n in self.inside:
                continue
            if (fan := self.node.fans.get(str(n))) is not None:
                count, _, succeeded, bad, cancelled, _ = fan
                jobs, completed, failed = jobs + count - 1, completed + succeeded, failed + bad + cancelled
            elif letter == Letter.SUCCEEDED:
                completed += 1
            elif letter in BAD and not (letter == Letter.CANCELLED and self.is_stopped):
                failed += 1
        below = [view.counts for view in self.inside.values()]
        extra = sum(counts.jobs - view.node.jobs for counts, view in zip(below, self.inside.values(), strict=True))
        return Counts(
            jobs + extra,
            completed + sum(counts.completed for counts in below),
            failed + sum(counts.failed for counts in below),
        )

    @property
    def is_stopped(self) -> bool:
        """Return whether the composition was cancelled or timed out: jobs cancelled with it do not count as failed."""
        return self.node.state in STOPPED

    @property
    def bad(self) -> list[PartJob]:
        """Return the failed jobs of the composition and of all nested ones, in the order of steps."""
        own = [job for job in self.failed if not (job.status == "cancelled" and self.is_stopped)]
        by_step = [(job.step, job.item, [job]) for job in own] + [(n, 0, view.bad) for n, view in self.inside.items()]
        return [job for _, _, jobs in sorted(by_step, key=lambda one: one[:2]) for job in jobs]


async def view(db: Tenant, id_: str) -> View:
    """Return a composition with all nested ones."""
    async with db.begin() as conn:
        run, root = await find(conn, db, id_)
        tree = await store.tree(conn, root)
        known = await db.definitions.of(conn, {node.version_id for node in tree.values()})
        below = _by_parent(tree)
        inside = [node.run_id for node in _subtree(below, run)]
        jobs = await store.jobs(conn, run, inside, most=MOST_JOBS_INSIDE, bytes_=MOST_RESULTS_INSIDE)
    return _Reading(known, below, jobs).views(tree[root])[run]


async def list_(db: Tenant, *, name: str | None, limit: int, offset: int) -> tuple[list[Listed], int]:
    """Return the outermost compositions, latest first, and their number (counted up to 10,000)."""
    encode(name, field="name")  # Postgres cannot compare with a string that it cannot store
    async with db.once() as conn:
        return await store.list_(conn, org=db.org, name=name, limit=limit, offset=offset)


class _Reading:
    """Builds views from the outermost composition inwards: whether one has ended depends on the enclosing ones."""

    def __init__(
        self, known: Mapping[int, Workflow], below: Mapping[UUID, Sequence[Node]], jobs: Sequence[PartJob]
    ) -> None:
        self._known, self._below = known, below
        self._jobs: dict[UUID, list[PartJob]] = {}
        for job in jobs:
            self._jobs.setdefault(job.run_id, []).append(job)

    def views(self, node: Node, around: Node | None = None) -> dict[UUID, View]:
        """Return the views of a composition and of all nested ones."""
        workflow = self._known[node.version_id]
        letters = letters_of(node, workflow)
        if node.state == RunState.CANCELLED and node.letters is None:
            letters = letters.replace(Letter.WAITING, Letter.CANCELLED)
        views: dict[UUID, View] = {}
        inside: dict[int, View] = {}
        for inner in self._below.get(node.run_id, ()):
            assert inner.parent_step is not None
            views |= self.views(_resolved(inner, node, letters), node)
            inside[inner.parent_step] = views[inner.run_id]
        jobs = self._jobs.get(node.run_id, [])
        first = {job.step: job for job in jobs if job.item == 0}
        failed = [job for job in jobs if job.status in ("failed", "cancelled")]
        views[node.run_id] = View(node, workflow, letters, first, failed, inside, around)
        return views


def _resolved(inner: Node, around: Node, letters: str) -> Node:
    """Return a composition in its current state: one without a run that can no longer begin is cancelled."""
    assert inner.parent_step is not None
    if inner.state is not None or (around.state in LIVE and letters[inner.parent_step] in OPEN):
        return inner
    if around.state is None:  # it may still begin, and this one with it
        return inner
    return inner._replace(state=RunState.CANCELLED, finished_at=around.finished_at)


def _by_parent(tree: Mapping[UUID, Node]) -> dict[UUID, list[Node]]:
    children: dict[UUID, list[Node]] = {}
    for node in tree.values():
        if node.parent_id is not None:
            children.setdefault(node.parent_id, []).append(node)
    return children


def _subtree(below: Mapping[UUID, Sequence[Node]], run: UUID) -> Iterator[Node]:
    for node in below.get(run, ()):
        yield node
        yield from _subtree(below, node.run_id)
