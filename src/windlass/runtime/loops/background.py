"""The loops that every process runs: timers, schedules and the sweep of runs, and the function that starts all loops.

They are woken by notifications and by the poll of the process (look.py), and wait at most until the next due time. They
also wait before their first tick: if each of them queried at the start, connecting and planning would delay the
worker's first jobs.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from uuid import UUID

from windlass.engine import messages, quarantine, upkeep
from windlass.engine.database import Database
from windlass.engine.quarantine import Kind, Retry
from windlass.engine.runs import requests, sweep
from windlass.engine.runs.sweep import PendingRunWork, TimersDue
from windlass.engine.runs.writes import MESSAGES
from windlass.engine.schedules import ojs as ojs_schedules
from windlass.engine.schedules import sql as sql_schedules
from windlass.engine.schedules import workflow as workflow_schedules
from windlass.engine.schedules.workflow import NextDue
from windlass.engine.upkeep import PendingWork
from windlass.runtime.loops.deliveries import Deliveries
from windlass.runtime.loops.look import Look, LookOptions
from windlass.runtime.loops.loop import SELDOM, Duties, run_periodically, until
from windlass.runtime.loops.objects import ObjectRemoval
from windlass.runtime.loops.upkeep import DUTY, LeaseRecovery, Upkeep, UpkeepOptions
from windlass.runtime.pools.pool import Pool
from windlass.runtime.worker.worker import Worker

NOW = timedelta()
WORKER_FIRST = timedelta(milliseconds=250)  # the most that the loops wait for the worker's first turn
# If the query for due times fails, everything counts as due.
ALL_TIMERS_DUE = TimersDue(NOW, NOW, NOW)
ALL_SCHEDULES_DUE = NextDue(job=NOW, run=NOW, waits=False, ready=True, cron=NOW, cron_ready=True)
ALL_RUN_WORK = PendingRunWork(starts=True, messages=True, events=True, retries=True)


async def run_loops(
    db: Database,
    stop: asyncio.Event,
    *,
    holder: str,
    options: UpkeepOptions,
    worker: Worker | None = None,
    pools: Sequence[Pool] = (),
    at_once: asyncio.Event | None = None,
) -> None:
    """Run the background loops, and the worker if there is one, until `stop`; `at_once` ends its grace period early.

    They run in one task group: they start and stop together, and a loop that raises cancels the others.
    """
    # If the process dies, its leader terms must not outlast the leases of its worker.
    term = min(worker.options.lease, UpkeepOptions.term) if worker is not None else UpkeepOptions.term
    recovery = LeaseRecovery(db, holder, replace(options, term=term))
    woken = (Timers(db), Sweeper(db), Scheduler(db), recovery, Upkeep(db, recovery), Deliveries(db, holder))
    # Poll often enough to renew the term in time.
    pace = LookOptions(idle=min(LookOptions.idle, term / 2))
    look = Look(db, woken, duty=DUTY, kinds=list(retries(db)), options=pace)
    loops = (*woken, look, ObjectRemoval(db, recovery))
    async with asyncio.TaskGroup() as group:
        if worker is not None:
            group.create_task(worker.run(stop, at_once=at_once), name="windlass-worker")
            # Their first queries, on new connections, would delay the first claim by 10 to 20 ms.
            await until(stop, WORKER_FIRST, wake=worker.first_turn)
        for loop in loops:
            group.create_task(loop.run(stop), name=f"windlass-{type(loop).__name__.lower()}")
        for pool in pools:
            group.create_task(pool.run(stop, holder=holder, term=term), name=f"windlass-pool-{pool.options.name}")


@dataclass(frozen=True, kw_only=True)
class LoopOptions:
    every: timedelta = SELDOM
    again: timedelta = timedelta(milliseconds=50)  # if another session has locked the due rows
    batch: int = 100


class Timers:
    """Makes scheduled jobs due, ends sleeps and expires runs."""

    def __init__(self, db: Database, options: LoopOptions | None = None) -> None:
        self.options = options or LoopOptions(batch=1000)
        self._db = db
        self._duties = Duties(db, "timers")
        self._wake = asyncio.Event()

    async def tick(self) -> timedelta:
        """Handle the timers that are due; return the wait until the next. One query if nothing is due."""
        due = await self._duties.run("look", lambda: sweep.next_due(self._db), ALL_TIMERS_DUE)
        job, sleep, expiry = due
        if not _is_due(wait := _first(due)):
            return self.options.every if wait is None else wait
        moved, batch = 0, self.options.batch
        if _is_due(job) or _is_due(sleep):
            # A message that was sent before the end of a wait counts, even if it is not routed yet.
            await self._duties.run("route", lambda: messages.route(self._db), 0)
        if _is_due(job):
            moved += await self._duties.run("due", lambda: upkeep.become_due(self._db, batch=batch), 0)
        if _is_due(sleep):
            moved += await self._duties.run("sleeps", lambda: sweep.wake(self._db, batch=batch), 0)
        if _is_due(expiry):
            moved += await self._duties.run("expiry", lambda: sweep.expire(self._db, batch=batch), 0)
        return NOW if moved else self.options.again

    async def run(self, stop: asyncio.Event) -> None:
        with self._db.subscribe(self._woken):
            await run_periodically(self.tick, every=self.options.every, stop=stop, wake=self._wake, waits_first=True)

    def notice(self, work: PendingWork, within: timedelta) -> bool:
        if has_work := _is_due(_first(work.timers), within):
            self.wake()
        return has_work

    def wake(self) -> None:
        self._wake.set()

    def _woken(self, topic: str) -> None:
        if topic == "timer":
            self.wake()


class Scheduler:
    """Fires the three kinds of schedules (workflow, OJS cron, plain SQL) when they are due."""

    def __init__(self, db: Database, options: LoopOptions | None = None) -> None:
        self.options = options or LoopOptions()
        self._db = db
        self._duties = Duties(db, "scheduler")
        self._wake = asyncio.Event()
        self._waits = False  # a schedule's tick waits for a run to end

    async def tick(self) -> timedelta:
        """Fire the schedules that are due; return the wait until the next. One query if nothing is due."""
        due = await self._duties.run("look", lambda: workflow_schedules.next_due(self._db), ALL_SCHEDULES_DUE)
        self._waits, wait = due.waits, _first((due.job, due.run, due.cron))
        if not (due.ready or due.cron_ready or _is_due(wait)):
            return self.options.every if wait is None else wait
        served, batch = 0, self.options.batch
        if due.cron_ready or _is_due(due.cron):
            served += await self._duties.run("crons", lambda: ojs_schedules.tick(self._db, batch=batch), 0)
        if _is_due(due.job):
            served += await self._duties.run("schedules", lambda: sql_schedules.tick(self._db, batch=batch), 0)
        if due.ready or _is_due(due.run):
            served += await self._duties.run("triggers", lambda: workflow_schedules.tick(self._db, batch=batch), 0)
        return NOW if served else self.options.again

    async def run(self, stop: asyncio.Event) -> None:
        with self._db.subscribe(self._woken):
            await run_periodically(self.tick, every=self.options.every, stop=stop, wake=self._wake, waits_first=True)

    def notice(self, work: PendingWork, within: timedelta) -> bool:
        due = work.schedules
        self._waits = due.waits
        if has_work := due.ready or due.cron_ready or _is_due(_first((due.job, due.run, due.cron)), within):
            self.wake()
        return has_work

    def wake(self) -> None:
        self._wake.set()

    def _woken(self, topic: str) -> None:
        if topic == "run" and self._waits:
            self.wake()


class Sweeper:
    """Applies events that did not come through a worker's report: job completions written by plain SQL, and notices
    of other runs. Also delivers messages to runs and handlers, starts runs that were requested or that wait for their
    workflow's concurrency limit, and retries quarantined items.
    """

    def __init__(self, db: Database, options: LoopOptions | None = None) -> None:
        self.options = options or LoopOptions(batch=500)
        self._db = db
        self._duties = Duties(db, "sweeper")
        self._held = sweep.PendingRuns(db, batch=self.options.batch)
        self._retries = retries(db)
        self._wake = asyncio.Event()

    async def tick(self) -> int:
        """Run one sweep; return the number of items (message addresses, handlers, runs, ...) that were processed. One
        query if there is nothing to do."""
        db, batch, run, done = self._db, self.options.batch, self._duties.run, 0
        starts, delivers, has_events, retries = await run(
            "look", lambda: sweep.pending_work(db, kinds=list(self._retries)), ALL_RUN_WORK
        )
        done += await run("begin", self._held.start, 0, is_needed=starts)
        done += await run("route", lambda: messages.route(db), 0, is_needed=delivers)
        done += await run("wake", lambda: messages.wake_handlers(db), 0, is_needed=delivers)
        done += await run("start", lambda: requests.serve(db, batch=batch), 0, is_needed=delivers)
        settles = has_events or delivers  # messages that were just delivered are events of runs
        done += await run("settle", lambda: sweep.sweep_runs(db, batch=batch), 0, is_needed=settles)
        return done + await run("retry", lambda: quarantine.retry_due(db, self._retries), 0, is_needed=retries)

    async def run(self, stop: asyncio.Event) -> None:
        async def round_() -> timedelta | None:
            return NOW if await self.tick() else None

        with self._db.subscribe(self._woken):
            await run_periodically(round_, every=self.options.every, stop=stop, wake=self._wake, waits_first=True)

    def notice(self, work: PendingWork, within: timedelta) -> bool:
        if has_work := any(work.runs):
            self.wake()
        return has_work

    def wake(self) -> None:
        self._wake.set()

    def _woken(self, topic: str) -> None:
        if topic in ("settle", MESSAGES, ""):
            self.wake()


def retries(db: Database) -> dict[Kind, Retry]:
    """Return the retry function of each kind of quarantined object."""

    async def schedule(id_: UUID) -> bool:
        await sql_schedules.fire(db, [id_])
        return True

    return {
        Kind.RUN: _by_id(partial(sweep.retry, db)),
        Kind.START: _by_id(partial(requests.retry, db)),
        Kind.WORKFLOW: _by_id(partial(sweep.start_pending_of, db)),
        Kind.TRIGGER: _by_id(partial(workflow_schedules.serve, db)),
        Kind.CRON: _by_id(partial(ojs_schedules.serve, db)),
        Kind.SCHEDULE: _by_id(schedule),
    }


def _by_id(process: Callable[[UUID], Awaitable[bool]]) -> Retry:
    async def retry(key: str) -> bool:
        return await process(UUID(key))

    return retry


def _first(waits: Iterable[timedelta | None]) -> timedelta | None:
    return min((wait for wait in waits if wait is not None), default=None)


def _is_due(wait: timedelta | None, within: timedelta = NOW) -> bool:
    return wait is not None and wait <= within
