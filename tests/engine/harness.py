"""Runs in a real database: the test acts as the worker and the loops, and moves the clock."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.unit.reference import node
from windlass.core.jobs.job import Cancelled, Claimed, Failed, Outcome, Report, Succeeded, after
from windlass.core.json_value import encode
from windlass.core.workflows.step import Step
from windlass.core.workflows.workflow import Workflow
from windlass.engine import messages, upkeep, workflows
from windlass.engine.database import Tenant
from windlass.engine.runs import control as runs
from windlass.engine.runs import requests, start, sweep
from windlass.engine.runs.start import RunSpec
from windlass.engine.workers import turn
from windlass.engine.workers.turn import Turn

LEASE = timedelta(seconds=30)
QUEUES = ("default", "sql")
# `make soak` also runs the tests of the engine with everything archived as soon as it ends.
ARCHIVES_AT_ONCE = os.environ.get("WINDLASS_TEST_ARCHIVE") == "on"
not_yet_archived = pytest.mark.skipif(ARCHIVES_AT_ONCE, reason="the test moves or deletes rows of the inbox itself")

__all__ = [
    "LEASE",
    "QUEUES",
    "Fails",
    "ManualWorker",
    "begin",
    "events_of",
    "letters",
    "node",
    "not_yet_archived",
    "publish",
    "reasons",
    "report",
    "state",
    "tick",
    "words",
]


@dataclass(frozen=True)
class Fails:
    """The failure of a handler."""

    message: str = "boom"
    for_good: bool = False  # not retryable
    type: str = "ValueError"


# The end of a step's handler: a result, a failure, or a function of the job.
Ending = Any | Fails | Outcome | Callable[[Claimed], Any]


class ManualWorker:
    """A worker that a test controls. It is registered like any other worker."""

    def __init__(self, db: Tenant, name: str = "w1") -> None:
        self.db, self.name = db, name
        self.seen: list[str] = []  # names of the steps whose jobs it claimed, in that order

    @classmethod
    async def registered(cls, db: Tenant, name: str = "w1") -> "ManualWorker":
        worker = cls(db, name)
        await worker.register()
        return worker

    async def register(self, types: Sequence[str] = ()) -> None:
        """Register this worker with the types that it serves."""
        await turn.register(self.db, id_=self.name, host="h", pid=1, queues=QUEUES, types=list(types), concurrency=100)

    async def take(self, count: int = 1000) -> list[Claimed]:
        queues = [self.db.stored(queue) for queue in QUEUES]
        lanes = [(replace(lane, seq=0), count) for lane in await turn.look(self.db, queues)]
        if not lanes:
            return []
        request = Turn(worker=self.name, lease=LEASE, lanes=lanes, count=count)
        claimed = (await turn.turn(self.db, request))[0]
        self.seen += [self.step(job) for job in claimed]
        return claimed

    async def take_one(self, step: str) -> Claimed:
        """Claim the job of this step, which must be the only due one."""
        [job] = await self.take()
        assert self.step(job) == step
        return job

    async def send(self, *reports: Report) -> set[UUID]:
        """Send reports; return the ids of the jobs whose reports were recorded."""
        return (await turn.turn(self.db, Turn(worker=self.name, lease=LEASE, reports=reports)))[1]

    async def end(self, job: Claimed, ending: Ending = None) -> bool:
        return job.id in await self.send(report(job, ending))

    async def play(self, endings: Mapping[str, Ending] | None = None) -> None:
        """Run jobs and loops until nothing is left to do. A step returns its name unless `endings` has another end."""
        known = endings or {}
        for _ in range(10_000):
            claimed = await self.take()
            reports = [report(job, known.get(self.step(job), self.step(job))) for job in claimed]
            if reports:
                await self.send(*reports)
            if not await tick(self.db) and not claimed:
                return
        raise AssertionError("the run does not come to an end")

    def step(self, job: Claimed) -> str:
        if job.version_id is None or job.step is None:
            return job.type
        workflow = self.db.definitions.get(job.version_id)
        assert workflow is not None
        return workflow.steps[job.step].name


def report(job: Claimed, ending: Ending) -> Report:
    if callable(ending) and not isinstance(ending, type):
        ending = ending(job)
    return after(job, _outcome(ending), None, 0.0)


def _outcome(ending: Any) -> Outcome:
    if isinstance(ending, Succeeded | Failed | Cancelled):
        return ending
    if isinstance(ending, Fails):
        error = {"type": ending.type, "message": ending.message}
        return Failed(error, retryable=not ending.for_good, retry_after=timedelta())
    return Succeeded(encode(ending, field="result"))


async def tick(db: Tenant) -> int:
    """Run each loop once: route messages, sweep runs, start held runs, make jobs due, end sleeps, expire runs."""
    await messages.route(db)
    moved = await messages.wake_handlers(db)
    moved += await requests.serve(db)
    moved += await sweep.sweep_runs(db)
    moved += await sweep.PendingRuns(db).start()
    moved += await upkeep.become_due(db)
    moved += await sweep.wake(db)
    if ARCHIVES_AT_ONCE:
        await upkeep.archive(db, age=timedelta(microseconds=-1))
    return moved + await sweep.expire(db)


async def publish(db: Tenant, *steps: Step, name: str = "w", **options: Any) -> None:
    await workflows.publish(db, Workflow(name, steps, **options))


async def begin(db: Tenant, *steps: Step, name: str = "w", input: Any = None, **spec: Any) -> UUID:  # noqa: A002
    """Start a run of workflow `name`; publish it with these steps first, if there are any."""
    if steps:
        await publish(db, *steps, name=name)
    run_spec = RunSpec(input={} if input is None else input, **spec)
    return (await start.start(db, name, [run_spec]))[0]


async def state(db: Tenant, run: UUID) -> str:
    return (await runs.get(db, run)).state.value


async def letters(db: Tenant, run: UUID) -> str:
    return (await runs.get(db, run)).letters


async def words(db: Tenant, run: UUID) -> dict[str, str]:
    """Return the state of each step."""
    return (await runs.view(db, run)).states


async def reasons(db: Tenant, run: UUID, step: str | None = None) -> list[str]:
    """Return the reasons in the trail of a step (or of the run), oldest first; without errors of single attempts."""
    view = await runs.view(db, run)
    number = None if step is None else view.workflow.plan.number[step]
    return [event.reason for event in view.events if event.step == number and event.reason and not event.of_job]


async def events_of(db: Tenant, run: UUID) -> list[str]:
    """Return the events of the run itself, oldest first."""
    return [event.word for event in (await runs.view(db, run)).events if event.step is None]
