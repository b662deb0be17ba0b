"""Applies events that did not come through a worker's report: completions written by plain SQL, notices of other runs,
expired timers, runs that expire, pending runs that may begin."""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from uuid import UUID

from windlass.core.compositions import MAX_LEVELS
from windlass.core.runs.event import (
    Begun,
    CancelRequested,
    Ended,
    Event,
    Expired,
    PauseRequested,
    ResumeRequested,
    UndoRequested,
    ended_child,
    ended_jobs,
    ended_letter,
    fired_timer,
)
from windlass.core.runs.run import LIVE, Letter, Reason, RunState
from windlass.core.workflows.step import ApprovalAction, EventAction
from windlass.engine import quarantine
from windlass.engine.database import Database
from windlass.engine.quarantine import Kind, each_alone, split_batch
from windlass.engine.runs import approvals
from windlass.engine.runs.settle import Wakeups, settle
from windlass.errors import Unavailable
from windlass.store import claims, compositions, runs, steps, workers
from windlass.store.messages import waiters
from windlass.store.postgres.pool import Connection
from windlass.store.runs import LockedRun
from windlass.store.steps import EndedJob, TimersDue
from windlass.store.workers import PendingRunWork

__all__ = ["PendingRunWork", "TimersDue"]
ACTOR = "engine"
MOST_GENERATIONS = 4 * MAX_LEVELS  # up, down and back again; the rest is left to the loops
Load = Callable[[Connection, list[LockedRun]], Awaitable[dict[UUID, list[Event]]]]


async def pending_work(db: Database, *, kinds: Sequence[Kind]) -> PendingRunWork:
    """Return which work is pending: for runs, for messages, and for quarantine entries of these kinds."""
    async with db.once() as conn:
        return await workers.pending_run_work(conn, kinds=kinds)


async def sweep_runs(db: Database, *, batch: int = 500) -> int:
    """Apply ends of jobs that plain SQL recorded, notices and received messages; return the number of runs."""
    async with db.once() as conn:
        ids = await runs.find_unsettled(conn, batch)

    async def load(conn: Connection, locked: list[LockedRun]) -> dict[UUID, list[Event]]:
        return await _with_messages(conn, db, locked, await pending_events(conn, locked, batch=batch))

    return await _apply(db, ids, load)


async def pending_events(conn: Connection, locked: Sequence[LockedRun], *, batch: int = 500) -> dict[UUID, list[Event]]:
    """Take the events that are not yet applied to these locked runs: ends of jobs recorded elsewhere, and notices."""
    ended = await steps.take_ended(conn, [run.id for run in locked], batch=batch * 10)
    return await with_notices(conn, locked, ended_jobs(map(_end, ended)))


async def with_notices(
    conn: Connection, locked: Sequence[LockedRun], known: Mapping[UUID, Sequence[Event]]
) -> dict[UUID, list[Event]]:
    """Return `known` with the events from notices that other runs left for these locked runs; take the notices."""
    rows = {run.id: run for run in locked}
    events: dict[UUID, list[Event]] = defaultdict(list, {id_: [*some] for id_, some in known.items()})
    for notice in await runs.take_notices(conn, list(rows)):
        run = rows[notice.run_id]
        if notice.word in ("cancel", "compensate") and run.state in LIVE:
            reason = Reason("cancelled", notice.reason or "the parent run was cancelled")
            events[run.id].append(CancelRequested(reason, compensate=notice.word == "compensate"))
        elif notice.word in ("pause", "resume"):
            request = PauseRequested if notice.word == "pause" else ResumeRequested
            events[run.id].append(request(Reason(f"{notice.word}d", f"the parent run: {notice.reason}")))
        elif notice.word == "undo" and notice.step is not None:
            reason = Reason("undone", f"the parent run is undone: {notice.reason}")
            events[run.id].append(UndoRequested(reason, reply=notice.step))
        elif notice.word == "ended" and notice.step is not None:
            letter = Letter(notice.letter or Letter.FAILED)
            earlier = notice.round is not None and notice.round < run.round
            events[run.id].append(ended_child(notice.step, notice.item or 0, letter, notice.reason, earlier=earlier))
    return events


async def _with_messages(
    conn: Connection, db: Database, locked: Sequence[LockedRun], known: Mapping[UUID, Sequence[Event]]
) -> dict[UUID, list[Event]]:
    """Return `known` with the ends of waits in steps that have received their messages; take the messages."""
    events: dict[UUID, list[Event]] = defaultdict(list, {id_: [*some] for id_, some in known.items()})
    workflows = await db.definitions.of(conn, {run.version_id for run in locked})
    waiting = [run.id for run in locked if workflows[run.version_id].plan.waits_for_messages]
    served = await waiters.take_steps(conn, waiting) if waiting else []
    if served:
        await steps.delete_timers(conn, served)
    for id_, step in served:
        events[id_].append(Ended(step, Letter.SUCCEEDED))
    return events


class PendingRuns:
    """Starts pending runs of workflows that are below their concurrency limit.

    Each call checks the next `batch` workflows with pending runs, in a cycle by id: so workflows at their limit cannot
    starve the others, however many there are.
    """

    def __init__(self, db: Database, *, batch: int = 500) -> None:
        self._db = db
        self._batch = batch
        self._last = UUID(int=0)

    async def start(self) -> int:
        """Start the runs that the limits allow; return the number of their workflows."""
        async with self._db.once() as conn:
            workflows = await runs.find_pending(conn, self._batch, after=self._last)
        if workflows:
            self._last = workflows[-1]
        return await each_alone(
            self._db, Kind.WORKFLOW, workflows, partial(start_pending_of, self._db, batch=self._batch)
        )


async def wake(db: Database, *, batch: int = 1000) -> int:
    """Apply timers that are due: end sleeps and waits, remind, escalate. Return the number of runs with ended steps."""
    async with db.once() as conn:
        ids = await steps.find_due_timers(conn, batch)
    return await _apply(db, ids, partial(_due_timers, db))


async def expire(db: Database, *, batch: int = 500) -> int:
    """Expire runs whose `expires_at` has passed; return their number."""
    async with db.once() as conn:
        ids = await runs.find_expired(conn, batch)
    return await _apply(db, ids, _expired)


async def retry(db: Database, id_: UUID) -> bool:
    """Apply all pending events of a run in quarantine; return False if another session holds its lock.

    Expiry is applied first and alone: a run whose other events cannot be applied must still be able to end.
    """
    async with db.begin() as conn:
        locked = await runs.lock(conn, [id_], wait=False)
        if not locked:
            return not await runs.states(conn, [id_])  # pruned meanwhile: nothing is left to do
        pending = locked[0].state == RunState.PENDING
        events = await _expired(conn, locked)
        if not events:
            events = defaultdict(list, await _due_timers(db, conn, locked))
            known = await pending_events(conn, locked)
            for run, more in (await _with_messages(conn, db, locked, known)).items():
                events[run] += more
        wakeups = await settle(conn, db, locked, events, actor=ACTOR) if events else Wakeups()
    wakeups.poke(db)
    if pending and not events:  # it waits to begin
        return await _begin(db, locked[0].workflow_id, only=[id_]) > 0
    return True


async def _due_timers(db: Database, conn: Connection, locked: list[LockedRun]) -> dict[UUID, list[Event]]:
    events: dict[UUID, list[Event]] = defaultdict(list)
    known = await db.definitions.of(conn, {run.version_id for run in locked})
    plans = {run.id: known[run.version_id].plan for run in locked}
    due = await steps.take_due_timers(conn, [run.id for run in locked])
    actions = {(id_, step): plans[id_].steps[step].action for id_, step in due}
    waits = [place for place, action in actions.items() if isinstance(action, EventAction)]
    requests = {place: action for place, action in actions.items() if isinstance(action, ApprovalAction)}
    received = await waiters.close_steps(conn, waits) if waits else set()
    for (id_, _), end in (await approvals.fire(conn, requests, {run.id: run.now for run in locked})).items():
        events[id_].append(end)
    for id_, step in due:
        if (id_, step) in requests:
            continue
        in_time = (id_, step) in received
        events[id_].append(Ended(step, Letter.SUCCEEDED) if in_time else fired_timer(plans[id_], step))
    return events


async def _expired(_: Connection, locked: list[LockedRun]) -> dict[UUID, list[Event]]:
    return {run.id: [Expired()] for run in locked if run.state in LIVE and run.expires_at <= run.now}


async def next_due(db: Database) -> TimersDue:
    """Return how long until a job becomes due, a sleep ends and a run expires."""
    async with db.once() as conn:
        return await steps.next_due(conn)


async def _apply(db: Database, ids: Sequence[UUID], load: Load) -> int:
    """Apply the events of these runs; put runs that fail into quarantine. Return the number of runs with events."""

    return sum(
        await split_batch(ids, partial(_apply_together, db, load=load), partial(quarantine.set_aside, db, Kind.RUN))
    )


async def _apply_together(db: Database, ids: Sequence[UUID], *, load: Load) -> int:
    """Lock those of the runs that no other session holds, load their events and settle them."""
    async with db.begin() as conn:
        locked = await runs.lock(conn, ids, wait=False)
        events = await load(conn, locked) if locked else {}
        if not events:
            return 0
        wakeups = await settle(conn, db, locked, events, actor=ACTOR)
    wakeups.poke(db)
    return len(events)


async def start_pending_of(db: Database, workflow: UUID, *, batch: int = 500) -> bool:
    """Begin pending runs of one workflow; return whether any began. Runs that fail to begin go into quarantine."""
    try:
        return await _begin(db, workflow, batch=batch) > 0
    except Unavailable:
        raise
    except Exception:  # reported below, about the run that causes it
        async with db.once() as conn:
            pending = await runs.first_pending(conn, workflow, batch)
        if not pending:
            raise

    async def begin(some: Sequence[UUID]) -> int:
        return await _begin(db, workflow, only=some)

    return sum(await split_batch(pending, begin, partial(quarantine.set_aside, db, Kind.RUN))) > 0


async def _begin(db: Database, workflow: UUID, *, only: Sequence[UUID] | None = None, batch: int = 500) -> int:
    """Begin as many of the oldest pending runs, or of those in `only`, as the workflow's limit allows."""
    async with db.begin() as conn:
        version = await runs.lock_workflow(conn, workflow, wait=False)
        if version is None:
            return 0  # another session holds the workflow's row: the next sweep tries again
        limit = (await db.definitions.one(conn, version)).concurrency
        room = batch if limit is None else min(batch, limit - await runs.running(conn, workflow))
        if room <= 0:
            return 0
        first = await runs.first_pending(conn, workflow, room) if only is None else only[:room]
        rows = await runs.lock(conn, first, wait=False) if first else []
        locked = [run for run in rows if run.state == RunState.PENDING]
        if not locked:
            return 0
        wakeups = await settle(conn, db, locked, {run.id: [Begun()] for run in locked}, actor=ACTOR)
    wakeups.poke(db)
    return len(locked)


def _end(job: EndedJob) -> tuple[UUID, int, Letter, Reason | None]:
    """Return the end of a job whose end was not reported by a worker."""
    reason = None
    if job.deleted:
        reason = Reason("deleted", "its job was deleted")
    elif job.status != "succeeded":
        reason = Reason(job.status, job.error or f"its job was {job.status}")
    return job.run_id, job.step, ended_letter(job.status, job.error_type), reason


# Nested compositions: advanced immediately, so that a worker's next fetch gets due jobs without waiting for a loop


async def follow(db: Database, changed: Sequence[UUID]) -> None:
    """Begin pending runs nested in these, apply notices to enclosing and nested runs, and repeat for the changed ones.

    Nested compositions communicate through notices. The loops would apply them a moment later; this applies them
    immediately, one generation per transaction.
    """
    for _ in range(MOST_GENERATIONS):
        if not changed:
            return
        changed = await _follow_once(db, changed)


async def settle_jobs(db: Database, jobs: Sequence[UUID]) -> None:
    """Apply the ends of jobs that ended without a worker's report to their runs."""
    async with db.begin() as conn:
        changed = await claims.runs_of(conn, list(jobs), org=None)
        locked = await runs.lock(conn, changed) if changed else []
        events = await pending_events(conn, locked) if locked else {}
        if not events:
            return
        wakeups = await settle(conn, db, locked, events, actor=ACTOR)
    wakeups.poke(db)
    await follow(db, list(events))


async def _follow_once(db: Database, changed: Sequence[UUID]) -> list[UUID]:
    async with db.begin() as conn:
        ids = await compositions.neighbors(conn, changed)
        if not ids:
            return []
        locked = await runs.lock(conn, ids)
        begun: dict[UUID, list[Event]] = {run.id: [Begun()] for run in locked if run.state == RunState.PENDING}
        events = await with_notices(conn, locked, begun)
        if not events:
            return []
        wakeups = await settle(conn, db, locked, events, actor=ACTOR)
    wakeups.poke(db)
    return list(events)
