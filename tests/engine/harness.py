"""Runs on the real stage: the test plays the worker, the settler and, by moving the clock, the time."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from tests.unit.reference import node
from windlass.core.jobs.job import Cancelled, Claimed, Failed, Outcome, Report, Succeeded, after
from windlass.core.json_value import encode
from windlass.core.workflows.step import Step
from windlass.core.workflows.workflow import Workflow
from windlass.engine import upkeep, workflows
from windlass.engine.database import Database
from windlass.engine.runs import control as runs
from windlass.engine.runs import start, sweep
from windlass.engine.runs.start import RunSpec
from windlass.engine.workers import turn
from windlass.engine.workers.turn import Turn

LEASE = timedelta(seconds=30)
QUEUES = ("default", "sql")

__all__ = [
    "LEASE",
    "QUEUES",
    "Fails",
    "Player",
    "begin",
    "events_of",
    "letters",
    "node",
    "publish",
    "reasons",
    "report",
    "state",
    "tick",
    "words",
]


@dataclass(frozen=True)
class Fails:
    """How a handler ends badly."""

    message: str = "boom"
    for_good: bool = False  # trying again would not help
    type: str = "ValueError"


# What a step's handler gives: a result, a failure, or what to make of the job.
Ending = Any | Fails | Outcome | Callable[[Claimed], Any]


class Player:
    """A worker in slow motion. It is registered, so the engine takes it for one of ours."""

    def __init__(self, db: Database, name: str = "w1") -> None:
        self.db, self.name = db, name
        self.seen: list[str] = []  # names of the steps whose jobs it claimed, in that order

    @classmethod
    async def hello(cls, db: Database, name: str = "w1") -> "Player":
        player = cls(db, name)
        await player.register()
        return player

    async def register(self, types: Sequence[str] = ()) -> None:
        """Tell the engine which types this worker serves."""
        await turn.register(self.db, id_=self.name, host="h", pid=1, queues=QUEUES, types=list(types), concurrency=100)

    async def take(self, count: int = 1000) -> list[Claimed]:
        lanes = [(replace(lane, seq=0), count) for lane in await turn.look(self.db, QUEUES)]
        if not lanes:
            return []
        wish = Turn(worker=self.name, lease=LEASE, lanes=lanes, count=count)
        claimed = (await turn.turn(self.db, wish))[0]
        self.seen += [self.step(job) for job in claimed]
        return claimed

    async def take_one(self, step: str) -> Claimed:
        """The job of this step; it must be the only one there is."""
        [job] = await self.take()
        assert self.step(job) == step
        return job

    async def tell(self, *reports: Report) -> set[UUID]:
        """The ids of the jobs whose reports were recorded."""
        return (await turn.turn(self.db, Turn(worker=self.name, lease=LEASE, reports=reports)))[1]

    async def end(self, job: Claimed, ending: Ending = None) -> bool:
        return job.id in await self.tell(report(job, ending))

    async def play(self, endings: Mapping[str, Ending] | None = None) -> None:
        """Work and settle until there is nothing to do. A step gives its own name unless told otherwise."""
        known = endings or {}
        for _ in range(10_000):
            claimed = await self.take()
            told = [report(job, known.get(self.step(job), self.step(job))) for job in claimed]
            if told:
                await self.tell(*told)
            if not await tick(self.db) and not claimed:
                return
        raise AssertionError("it never comes to rest")

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
        told = {"type": ending.type, "message": ending.message}
        return Failed(told, retryable=not ending.for_good, retry_after=timedelta())
    return Succeeded(encode(ending, field="result"))


async def tick(db: Database) -> int:
    """What the loops do in a moment: tell runs what they have not heard, begin what waits, end sleeps and runs."""
    moved = await sweep.sweep_runs(db)
    moved += await sweep.PendingRuns(db).start()
    moved += await upkeep.become_due(db)
    moved += await sweep.wake(db)
    return moved + await sweep.expire(db)


async def publish(db: Database, *steps: Step, name: str = "w", **options: Any) -> None:
    await workflows.publish(db, Workflow(name, steps, **options))


async def begin(db: Database, *steps: Step, name: str = "w", input: Any = None, **spec: Any) -> UUID:  # noqa: A002
    """Start a run; of these steps, if there are any."""
    if steps:
        await publish(db, *steps, name=name)
    given = RunSpec(input={} if input is None else input, **spec)
    return (await start.start(db, name, [given]))[0]


async def state(db: Database, run: UUID) -> str:
    return (await runs.get(db, run)).state.value


async def letters(db: Database, run: UUID) -> str:
    return (await runs.get(db, run)).letters


async def words(db: Database, run: UUID) -> dict[str, str]:
    """What became of each step."""
    return (await runs.view(db, run)).states


async def reasons(db: Database, run: UUID, step: str | None = None) -> list[str]:
    """Why a step (or the run) became what it is, oldest first; without the errors of single attempts."""
    view = await runs.view(db, run)
    number = None if step is None else view.workflow.plan.number[step]
    return [event.reason for event in view.events if event.step == number and event.reason and not event.of_job]


async def events_of(db: Database, run: UUID) -> list[str]:
    """The words about the run itself, oldest first."""
    return [event.word for event in (await runs.view(db, run)).events if event.step is None]
