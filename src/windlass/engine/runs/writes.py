"""Collects the rows that a batch of runs creates or changes, and writes each kind with one statement."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from windlass.core.orgs import stored
from windlass.core.runs.command import Note, Reply
from windlass.core.runs.run import WORDS, Letter, Reason, Run, RunState
from windlass.engine.database import Database, new_ids
from windlass.engine.definitions import StepTemplate
from windlass.engine.faults import point
from windlass.store import compositions, runs, steps
from windlass.store.compositions import NewPart
from windlass.store.postgres.pool import Connection
from windlass.store.runs import InsertedRun, LockedRun, NewRun, RunNote, SavedRun
from windlass.store.steps import JobRows, NewJobs, Shape, StepRef

MESSAGES = "message"  # the topic of the router
MANY = 1000  # from this many new jobs on, the worker that created them cannot claim them all itself


class KeyTaken(Exception):
    """A new run was not inserted: another session inserted one with its id or idempotency key."""


class Outdated(Exception):
    """New runs were not inserted: their version is no longer the live one, or the workflow is disabled or deleted."""


@dataclass(slots=True)
class Wakeups:
    """The topics to poke after the commit."""

    queues: set[str] = field(default_factory=set)  # stored names
    made: dict[UUID, str] = field(default_factory=dict)  # queues of single jobs, which may be claimed at once
    ended: bool = False  # a run ended: clients may be waiting for it
    unsettled: bool = False  # a run has a notice to apply, or waits to begin
    asleep: bool = False  # a timer was set
    stopped: bool = False  # running jobs were requested to stop
    listening: bool = False  # a step or a handler waits for a message, which may have arrived

    def poke(self, db: Database, *, claimed: Iterable[UUID] = ()) -> None:
        """Poke the topics, except for jobs that were `claimed` in the same transaction."""
        for id_ in claimed:
            self.made.pop(id_, None)
        for queue in self.queues.union(self.made.values()):
            db.poke(queue)
        for topic, is_due in (
            ("run", self.ended),
            ("settle", self.unsettled),
            ("timer", self.asleep),
            ("cancel", self.stopped),
            (MESSAGES, self.listening),
        ):
            if is_due:
                db.poke(topic)


class NewRuns(NamedTuple):
    """Runs of one workflow to insert, by their max_duration, in the states that their first decision gives them."""

    org: str
    workflow_id: UUID
    version_id: int
    rows: Mapping[timedelta, Sequence[NewRun]]
    inserted: list[InsertedRun]  # filled by `RunWrites.insert`
    live: int | None = None  # the number of their version, if the insert must verify that it is live


class RunWrites:
    """Collects new jobs, parts of compositions, timers, events for the trail, and the wakeups for after the commit.

    Only the coroutines write.
    """

    def __init__(self, conn: Connection, *, actor: str) -> None:
        self._conn, self.actor = conn, actor
        self.wakeups = Wakeups()
        self._shapes: dict[tuple[int, int], int] = {}  # the position of each in the list below, from 1
        self._list: list[Shape] = []
        self._jobs: list[NewJobs] = []
        self._parts: list[NewPart] = []
        self._timers: dict[StepRef, datetime] = {}
        self._notes: list[RunNote] = []
        self._replies: list[tuple[UUID, int, str, str | None]] = []

    @property
    def size(self) -> int:
        """Return the number of collected jobs and parts that are not written yet."""
        return len(self._jobs) + len(self._parts)

    @property
    def codes(self) -> dict[StepRef, str]:
        """Return the code of the latest reason of each step in the notes."""
        return {(run, step): code for run, step, _, code, _ in self._notes if step is not None and code is not None}

    def jobs(
        self,
        run: LockedRun,
        template: StepTemplate,
        *,
        first: int,
        count: int,
        items: int | None,
        payload: str | None = None,
    ) -> None:
        """Add instances `first` to `first + count - 1` of a step, all with this payload, or with that of the step.

        The columns of a part of a composition come from the run's input.
        """
        if template.plan.composition:
            shape = template.shape
            place = run.id, run.org, template.version_id, template.number, run.round
            self._parts.append(NewPart(*place, first, count, shape.type, shape.queue, items))
            return
        position = self._shapes.get((template.version_id, template.number))
        if position is None:
            self._list.append(template.shape)
            position = self._shapes[template.version_id, template.number] = len(self._list)
        self._jobs.append(NewJobs(run.id, run.org, position, run.round, first, count, items, payload))

    def timer(self, run: UUID, step: int, at: datetime) -> None:
        self._timers[run, step] = at

    def note(self, run: UUID, note: Note) -> None:
        code, text = (None, None) if note.reason is None else (note.reason.code, note.reason.text)
        self._notes.append(RunNote(run, note.step, WORDS[note.letter], code, text))

    def note_run(self, run: UUID, word: str, reason: Reason) -> None:
        self._notes.append(RunNote(run, None, word, reason.code, reason.text))

    def reply(self, run: UUID, reply: Reply) -> None:
        letter, text = (Letter.SUCCEEDED, None) if reply.reason is None else (Letter.FAILED, reply.reason.text)
        self._replies.append((run, reply.step, letter.value, text))

    async def insert(self, new: NewRuns, decided: Mapping[UUID, Run]) -> None:
        """Insert new runs in the states decided for them, with the collected jobs. Raises `KeyTaken` or `Outdated`."""
        for max_duration, rows in new.rows.items():
            states = [
                row._replace(state=run.state.value, steps=run.letters, fans=run.counters)
                for row in rows
                for run in [decided[row.id]]
            ]
            inserted = await runs.insert(
                self._conn,
                states,
                self._take_jobs(),
                org=new.org,
                workflow_id=new.workflow_id,
                version_id=new.version_id,
                max_duration=max_duration,
                actor=self.actor,
                live=new.live,
            )
            if new.live is not None and not inserted:
                raise Outdated
            if len(inserted) < len(rows):
                raise KeyTaken
            new.inserted.extend(inserted)
        point("start.inserted")

    async def save(self, saved: Sequence[SavedRun]) -> None:
        """Write the runs and everything collected.

        In the event trail, notes about steps must follow the start of their run and precede its end. `runs.save`
        records both, so the notes of runs that start (or restart) here are written after it, all others before it.
        """
        started = {run.id for run in saved if run.word == RunState.RUNNING} if self._notes else set()
        before = [note for note in self._notes if note.run_id not in started]
        after = [note for note in self._notes if note.run_id in started]
        if before:
            await runs.log(self._conn, before, actor=self.actor)
        if saved:
            self.wakeups.unsettled |= await runs.save(self._conn, saved, actor=self.actor)
        point("settle.saved")
        if after:
            await runs.log(self._conn, after, actor=self.actor)
        if self._replies:
            await runs.reply(self._conn, self._replies)
            self.wakeups.unsettled = True
        await self.flush()
        point("settle.enqueued")

    async def flush(self) -> None:
        """Write the new jobs, parts and timers collected so far."""
        if self._jobs:
            await steps.enqueue(self._conn, self._take_jobs(), actor=self.actor)
        if self._parts:
            await compositions.enqueue(self._conn, self._parts, new_ids(len(self._parts)), actor=self.actor)
            self.wakeups.queues.update(stored(part.org, part.queue) for part in self._parts)
            self._parts = []
        if self._timers:
            await steps.insert_timers(self._conn, [(run, step, at) for (run, step), at in self._timers.items()])
            self._timers, self.wakeups.asleep = {}, True

    def _take_jobs(self) -> JobRows:
        """Return the collected jobs for the caller to write, clear the collection, and add the wakeups for the jobs."""
        jobs = JobRows(self._list, self._jobs, new_ids(len(self._jobs)))
        few = len(jobs.ids) + len(self.wakeups.made) < MANY
        for job, id_ in zip(jobs.rows, jobs.ids, strict=True):
            queue = stored(job.org, jobs.shapes[job.shape - 1].queue)
            if few and job.many == 1:
                self.wakeups.made[id_] = queue
            else:
                self.wakeups.queues.add(queue)
        self._shapes, self._list, self._jobs = {}, [], []
        return jobs
