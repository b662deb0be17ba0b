"""Collects the rows that a batch of runs creates and writes each kind with one statement."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from windlass.engine.database import Database, new_ids
from windlass.engine.runs.step_templates import StepTemplate
from windlass.store import steps, timers
from windlass.store.ojs import compositions
from windlass.store.ojs.compositions import NewPart
from windlass.store.postgres.pool import Connection
from windlass.store.runs import LockedRun
from windlass.store.steps import NewJobs, Shape
from windlass.store.timers import StepRef


@dataclass(slots=True)
class Wakeups:
    """The topics to poke after the commit."""

    queues: set[str] = field(default_factory=set)
    made: dict[UUID, str] = field(default_factory=dict)  # single jobs and their queues: they may be claimed at once
    ended: bool = False  # a run ended: clients may be waiting for it
    strays: bool = False  # a run has a notice to apply, or waits to begin
    asleep: bool = False  # a timer was set
    stopped: bool = False  # running jobs are asked to stop

    def poke(self, db: Database, *, claimed: Iterable[UUID] = ()) -> None:
        """Poke the topics, except for jobs that were `claimed` in the same transaction."""
        for id_ in claimed:
            self.made.pop(id_, None)
        for queue in self.queues.union(self.made.values()):
            db.poke(queue)
        for topic, wakeups in (
            ("run", self.ended),
            ("settle", self.strays),
            ("timer", self.asleep),
            ("cancel", self.stopped),
        ):
            if wakeups:
                db.poke(topic)


MANY = 1000  # from this many new jobs on, the worker that created them cannot claim them all itself


class RunWrites:
    def __init__(self, conn: Connection, wakeups: Wakeups, *, actor: str) -> None:
        self._conn, self._stirred, self._actor = conn, wakeups, actor
        self._shapes: dict[tuple[int, int], int] = {}  # the position of each in the list below, from 1
        self._list: list[Shape] = []
        self._jobs: list[NewJobs] = []
        self._parts: list[NewPart] = []
        self._timers: dict[StepRef, datetime] = {}

    @property
    def size(self) -> int:
        """Return how many rows are not written yet."""
        return len(self._jobs) + len(self._parts)

    def jobs(
        self,
        run: LockedRun,
        recipe: StepTemplate,
        *,
        first: int,
        count: int,
        items: int | None,
        payload: str | None = None,
    ) -> None:
        """Add instances `first` to `first + count - 1` of a step, all with this payload, or with the step's own."""
        shape = self._shapes.get((recipe.version_id, recipe.number))
        if shape is None:
            self._list.append(recipe.shape)
            shape = self._shapes[recipe.version_id, recipe.number] = len(self._list)
        self._jobs.append(NewJobs(run.id, run.org, shape, run.round, first, count, items, payload))

    def parts(self, run: LockedRun, recipe: StepTemplate, *, first: int, count: int, items: int | None) -> None:
        """Add instances of a step of a composition; their columns come from the run's input."""
        shape = recipe.shape
        place = run.id, run.org, recipe.version_id, recipe.number, run.round
        self._parts.append(NewPart(*place, first, count, shape.type, shape.queue, items))

    def timer(self, run: UUID, step: int, at: datetime) -> None:
        self._timers[run, step] = at

    async def write(self) -> None:
        if self._jobs:
            await self._write_jobs()
        if self._parts:
            await self._write_parts()
        if self._timers:
            await timers.insert(self._conn, [(run, step, at) for (run, step), at in self._timers.items()])
            self._timers, self._stirred.asleep = {}, True

    async def _write_jobs(self) -> None:
        ids = new_ids(len(self._jobs))
        await steps.enqueue(self._conn, self._list, self._jobs, ids, actor=self._actor)
        few = len(ids) + len(self._stirred.made) < MANY
        for job, id_ in zip(self._jobs, ids, strict=True):
            queue = self._list[job.shape - 1].queue
            if few and job.many == 1:
                self._stirred.made[id_] = queue
            else:
                self._stirred.queues.add(queue)
        self._shapes, self._list, self._jobs = {}, [], []

    async def _write_parts(self) -> None:
        await compositions.enqueue(self._conn, self._parts, new_ids(len(self._parts)), actor=self._actor)
        self._stirred.queues.update(part.queue for part in self._parts)
        self._parts = []
