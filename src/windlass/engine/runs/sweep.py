"""Applies events that did not come through a worker's report: completions written by plain SQL, notices of other runs,
expired timers, runs that expire, pending runs that may begin."""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from uuid import UUID

from windlass.core.runs.event import (
    Begun,
    CancelAsked,
    Event,
    Expired,
    ended_child,
    ended_jobs,
    ended_letter,
    fired_timer,
)
from windlass.core.runs.reason import Reason
from windlass.core.runs.run import LIVE, Letter, RunState
from windlass.engine import quarantine
from windlass.engine.database import Database
from windlass.engine.quarantine import Kind, each_alone, split_batch
from windlass.engine.runs.settle import Wakeups, settle
from windlass.errors import Unavailable
from windlass.store import runs, steps, timers
from windlass.store.postgres.pool import Connection
from windlass.store.runs import LockedRun
from windlass.store.steps import EndedJob

ACTOR = "engine"
EXPIRED = "the run's time was over"
Listen = Callable[[Connection, list[LockedRun]], Awaitable[dict[UUID, list[Event]]]]


async def sweep_runs(db: Database, *, batch: int = 500) -> int:
    """Apply ends of jobs that plain SQL recorded, and notices; return the number of runs."""
    async with db.once() as conn:
        found = await runs.find_unsettled(conn, batch)

    async def listen(conn: Connection, held: list[LockedRun]) -> dict[UUID, list[Event]]:
        return await untold(conn, held, batch=batch)

    return await _tell(db, found, listen)


async def untold(conn: Connection, held: Sequence[LockedRun], *, batch: int = 500) -> dict[UUID, list[Event]]:
    """Return the events not applied yet to these locked runs: ends of jobs recorded elsewhere, and notices."""
    ended = await steps.take_ended(conn, [run.id for run in held], batch=batch * 10)
    return await heard(conn, held, ended_jobs(map(_end, ended)))


async def heard(
    conn: Connection, held: Sequence[LockedRun], events: Mapping[UUID, Sequence[Event]]
) -> dict[UUID, list[Event]]:
    """Return these events and those in the notices that other runs left for these locked runs."""
    known = {run.id: run for run in held}
    found: dict[UUID, list[Event]] = defaultdict(list, {id_: [*some] for id_, some in events.items()})
    for notice in await runs.take_notices(conn, list(known)):
        run = known[notice.run_id]
        if notice.word == "cancel" and run.state in LIVE:
            reason = Reason("cancelled", notice.reason or "the run above was cancelled")
            found[run.id].append(CancelAsked(reason))
        elif notice.word == "ended" and notice.step is not None:
            letter = Letter(notice.letter or Letter.FAILED)
            earlier = notice.round is not None and notice.round < run.round
            found[run.id].append(ended_child(notice.step, notice.item or 0, letter, notice.reason, earlier=earlier))
    return found


class HeldRuns:
    """Starts pending runs whose workflow has room.

    Each call looks at the next `batch` workflows with pending runs, in the order of their ids and around: workflows at
    their concurrency limit cannot hide the others, however many there are.
    """

    def __init__(self, db: Database, *, batch: int = 500) -> None:
        self._db = db
        self._batch = batch
        self._last = UUID(int=0)

    async def start(self) -> int:
        """Start the runs that fit; return the number of workflows they belong to."""
        async with self._db.once() as conn:
            workflows = await runs.find_held(conn, self._batch, after=self._last)
        if workflows:
            self._last = workflows[-1]
        return await each_alone(self._db, Kind.WORKFLOW, workflows, partial(start_held_of, self._db, batch=self._batch))


async def wake(db: Database, *, batch: int = 1000) -> int:
    """End the sleeps and the waits whose time has come; return the number of runs."""
    async with db.once() as conn:
        found = await timers.find_due(conn, batch)
    return await _tell(db, found, partial(_due_timers, db))


async def expire(db: Database, *, batch: int = 500) -> int:
    """End runs whose time is over; return their number."""
    async with db.once() as conn:
        found = await runs.find_expired(conn, batch)
    return await _tell(db, found, _expired, reason=EXPIRED)


async def retry(db: Database, id_: UUID) -> bool:
    """Apply everything that waits for one run that was set aside; False if another session holds its lock.

    Expiry comes first and by itself: a run whose other events cannot be applied must still be able to end.
    """
    async with db.begin() as conn:
        held = await runs.lock(conn, [id_], wait=False)
        if not held:
            return not await runs.states(conn, [id_])  # pruned meanwhile: nothing is left to do
        pending = held[0].state == RunState.PENDING
        if news := await _expired(conn, held):
            wakeups = await settle(conn, db, held, news, actor=ACTOR, reason=EXPIRED)
        else:
            news = defaultdict(list, await _due_timers(db, conn, held))
            for run, events in (await untold(conn, held)).items():
                news[run] += events
            wakeups = await settle(conn, db, held, news, actor=ACTOR) if news else Wakeups()
    wakeups.poke(db)
    if pending and not news:  # it waits to begin
        return await _begin(db, held[0].workflow_id, only=[id_]) > 0
    return True


async def _due_timers(db: Database, conn: Connection, held: list[LockedRun]) -> dict[UUID, list[Event]]:
    news: dict[UUID, list[Event]] = defaultdict(list)
    known = await db.definitions.of(conn, {run.version_id for run in held})
    plans = {run.id: known[run.version_id].plan for run in held}
    for id_, step in await timers.take_due(conn, [run.id for run in held]):
        news[id_].append(fired_timer(plans[id_], step))
    return news


async def _expired(_: Connection, held: list[LockedRun]) -> dict[UUID, list[Event]]:
    return {run.id: [Expired()] for run in held if run.state in LIVE and run.expires_at <= run.now}


async def next_due(db: Database) -> tuple[timedelta | None, timedelta | None, timedelta | None]:
    """Return how long until a job becomes due, a sleep ends and a run expires; None: never."""
    async with db.once() as conn:
        return await timers.next_due(conn)


async def _tell(db: Database, found: Sequence[UUID], listen: Listen, *, reason: str = "the run was cancelled") -> int:
    """Apply the events of these runs; set aside a run that cannot be settled. Return the number of runs with events."""

    async def set_aside(id_: UUID, error: Exception) -> None:
        await quarantine.set_aside(db, Kind.RUN, id_, error)

    return sum(await split_batch(found, partial(_tell_together, db, listen=listen, reason=reason), set_aside))


async def _tell_together(db: Database, found: Sequence[UUID], *, listen: Listen, reason: str) -> int:
    """Lock those of the runs that no other session holds, load their events, settle."""
    async with db.begin() as conn:
        held = await runs.lock(conn, found, wait=False)
        news = await listen(conn, held) if held else {}
        if not news:
            return 0
        wakeups = await settle(conn, db, held, news, actor=ACTOR, reason=reason)
    wakeups.poke(db)
    return len(news)


async def start_held_of(db: Database, workflow: UUID, *, batch: int = 500) -> bool:
    """Begin pending runs of one workflow; return whether any began. A run that cannot begin is set aside."""
    try:
        return await _begin(db, workflow, batch=batch) > 0
    except Unavailable:
        raise
    except Exception:  # reported below, about the run that causes it
        async with db.once() as conn:
            pending = await runs.first_held(conn, workflow, batch)
        if not pending:
            raise

    async def begin(some: Sequence[UUID]) -> int:
        return await _begin(db, workflow, only=some)

    async def set_aside(id_: UUID, error: Exception) -> None:
        await quarantine.set_aside(db, Kind.RUN, id_, error)

    return sum(await split_batch(pending, begin, set_aside)) > 0


async def _begin(db: Database, workflow: UUID, *, only: Sequence[UUID] | None = None, batch: int = 500) -> int:
    """Begin as many of the oldest pending runs as the workflow's limit has room for, or of those in `only`."""
    async with db.begin() as conn:
        version = await runs.hold_workflow(conn, workflow, wait=False)
        if version is None:
            return 0  # another session holds the workflow's row: the next sweep tries again
        limit = (await db.definitions.of(conn, [version]))[version].concurrency
        room = batch if limit is None else min(batch, limit - await runs.running(conn, workflow))
        if room <= 0:
            return 0
        first = await runs.first_held(conn, workflow, room) if only is None else only[:room]
        locked = await runs.lock(conn, first, wait=False) if first else []
        held = [run for run in locked if run.state == RunState.PENDING]
        if not held:
            return 0
        wakeups = await settle(conn, db, held, {run.id: [Begun()] for run in held}, actor=ACTOR)
    wakeups.poke(db)
    return len(held)


def _end(job: EndedJob) -> tuple[UUID, int, Letter, Reason | None]:
    """Return the end of a job that no worker of ours reported."""
    reason = None
    if job.deleted:
        reason = Reason("deleted", "its job was deleted")
    elif job.status != "succeeded":
        reason = Reason(job.status, job.error or f"its job was {job.status}")
    return job.run_id, job.step, ended_letter(job.status, job.error_type), reason
