"""Recovers expired leases, ends overdue jobs, and removes old rows and events.

Lease recovery has its own loop: the other duties (removing many rows may take seconds) and their errors must not delay
it, and it records when the database answered (see `core.jobs.job.Continuity`).
"""

import asyncio
import contextlib
import time
from dataclasses import dataclass
from datetime import timedelta

from windlass.core.jobs.job import Continuity
from windlass.engine import messages, quarantine, upkeep
from windlass.engine.database import Database
from windlass.engine.jobs import queues
from windlass.engine.orgs import usage
from windlass.engine.orgs.usage import Metered
from windlass.engine.upkeep import PendingJobWork, PendingWork, UpkeepResult
from windlass.engine.workers import remote_reports
from windlass.errors import Unavailable
from windlass.runtime.loops.loop import SELDOM, Duties, LeaderTerm, run_periodically

SOON = timedelta(milliseconds=20)  # the wait after a full batch
REST, LONGEST_REST = 10, 30.0
DUTY = "recovery"  # the name of the leader term; older versions, which cannot release worker leases, use `upkeep`
ALL_JOB_WORK = PendingJobWork(rate_limited=True, expired=True, overdue=True, unlogged=True)  # if the query fails


@dataclass(frozen=True, kw_only=True)
class UpkeepOptions:
    every: timedelta = SELDOM
    meter_every: timedelta = timedelta(seconds=1)
    prune_every: timedelta = timedelta(seconds=30)
    tend_every: timedelta = timedelta(minutes=10)
    term: timedelta = timedelta(seconds=10)  # recovery pauses this long if its process dies; at most a lease
    archive_every: timedelta = timedelta(seconds=30)
    archive_after: timedelta | None = timedelta(days=1)  # when finished jobs and runs are archived; None: never
    keep: timedelta | None = timedelta(days=30)  # how long finished jobs and their events are kept; None: forever
    keep_messages: timedelta | None = timedelta(days=7)  # how long messages are kept; None: forever
    keep_audit: timedelta | None = timedelta(days=400)  # how long entries of the audit log are kept; None: forever
    batch: int = 500


class LeaseRecovery:
    """Renews the leader term of recovery and upkeep, and releases expired leases."""

    def __init__(self, db: Database, holder: str, options: UpkeepOptions | None = None) -> None:
        self.options = options or UpkeepOptions()
        self.leading = False  # whether this process holds the term
        self._db = db
        self._holder = holder
        self._term = LeaderTerm(db, DUTY, holder, length=self.options.term)
        self._duties = Duties(db, "upkeep")
        self._continuity = Continuity()
        self._release_at = float("-inf")
        self._leased = True  # there may be leased jobs
        self._wake = asyncio.Event()

    async def tick(self) -> UpkeepResult:
        """Renew the term and release expired leases; nothing is released if another process holds the term."""
        answer = await self._term.renew()
        self.leading = answer.held
        self._continuity.answered(answer.now, before=answer.renewed_before)
        is_needed = answer.held and self._leased
        return await self._duties.run("leases", self._release, UpkeepResult()) if is_needed else UpkeepResult()

    async def run(self, stop: asyncio.Event) -> None:
        async def tick() -> timedelta | None:
            swept = await self.tick()
            return SOON if swept.released + swept.failed == self.options.batch else None

        await run_periodically(tick, every=self.options.every, stop=stop, wake=self._wake)
        with contextlib.suppress(Unavailable):
            await self._term.resign()

    def notice(self, work: PendingWork, within: timedelta) -> bool:
        """Wake the loop while there are leases to check, and to renew the term before half of it has passed."""
        now, leader, renewed_at, self._leased, *_ = work.process
        if self._continuity.answered_at is None:  # before the first tick, which compares with the last renewal
            return False
        self._continuity.answered(now)
        if leader is not None:  # a free term may just have been taken by this process
            self.leading = leader == self._holder
        is_old = renewed_at is None or now + within - renewed_at >= self.options.term / 2
        if leader is None or (self.leading and (is_old or self._leased)):
            self._wake.set()
        return False  # neither is a reason to poll more often

    def wake(self) -> None:
        self._leased = True  # the caller does not know whether there are leases: search for expired ones
        self._wake.set()

    async def _release(self) -> UpkeepResult:
        """Release expired leases.

        While an old snapshot keeps dead index entries alive, this query can be slow. After a query that found nothing
        the next one waits for ten times its duration (at most LONGEST_REST), to take at most a tenth of the time.
        """
        now = time.monotonic()
        if now < self._release_at:
            return UpkeepResult()
        swept = await upkeep.release_expired(self._db, batch=self.options.batch, continuity=self._continuity)
        took = time.monotonic() - now
        self._release_at = now + (min(LONGEST_REST, REST * took) if swept == UpkeepResult() else 0.0)
        return swept


class Upkeep:
    """Runs the other duties of upkeep while `recovery` holds the leader term."""

    def __init__(self, db: Database, recovery: LeaseRecovery) -> None:
        self.options = recovery.options
        self._db = db
        self._recovery = recovery
        self._duties = Duties(db, "upkeep")
        self._meter_at = self._archive_at = self._prune_at = self._tend_at = float("-inf")
        self._lagging = False  # there are more jobs to count
        self._archiving = False  # a round of the archive is in progress
        self._archived_in = 0.0  # seconds that the round has taken so far
        self._wake = asyncio.Event()

    async def tick(self) -> UpkeepResult:
        """Run the duties that are due. A failing duty does not prevent the others."""
        if not self._recovery.leading:
            return UpkeepResult()
        db, batch, run = self._db, self.options.batch, self._duties.run
        has = await run("look", lambda: upkeep.pending_job_work(db), ALL_JOB_WORK)
        await run("rates", lambda: queues.wake_rate_limited(db), 0, is_needed=has.rate_limited)
        late = await run("expired", lambda: upkeep.expire(db, batch=batch), 0, is_needed=has.expired)
        overdue = await run("overdue", lambda: remote_reports.end_overdue(db, batch=batch), 0, is_needed=has.overdue)
        logged = await run("created events", lambda: upkeep.log_created(db, batch=batch), 0, is_needed=has.unlogged)
        self._lagging = (await run("usage", self._meter, Metered())).more
        pruned = await run("prune", self._prune, 0)
        self._archiving = await run("archive", self._archive, False)
        await run("tend", self._tend, None)
        return UpkeepResult(failed=late + overdue, logged=logged, pruned=pruned)

    async def run(self, stop: asyncio.Event) -> None:
        async def tick() -> timedelta | None:
            swept = await self.tick()
            full = max(swept.failed, swept.logged, swept.pruned) >= self.options.batch
            return SOON if full or self._lagging or self._archiving else None

        await run_periodically(tick, every=self.options.every, stop=stop, wake=self._wake, waits_first=True)

    def notice(self, work: PendingWork, within: timedelta) -> bool:
        has_work = self._recovery.leading and (any(work.jobs) or work.process.uncounted)
        next_at = min(self._archive_at, self._prune_at, self._tend_at)
        if has_work or (self._recovery.leading and time.monotonic() >= next_at):
            self.wake()
        return has_work

    def wake(self) -> None:
        self._wake.set()

    async def _meter(self) -> Metered:
        now = time.monotonic()
        if now < self._meter_at and not self._lagging:
            return Metered()
        self._meter_at = now + self.options.meter_every.total_seconds()
        return await usage.count(self._db)

    async def _prune(self) -> int:
        now, keep, pruned = time.monotonic(), self.options.keep, 0
        if now < self._prune_at:
            return 0
        await upkeep.date_open_leases(self._db)
        await quarantine.forget(self._db)
        if keep is not None:
            pruned = await upkeep.prune(self._db, age=keep, batch=self.options.batch)
        if self.options.keep_messages is not None:
            age, batch = self.options.keep_messages, self.options.batch
            pruned = max(pruned, await messages.prune(self._db, age=age, batch=batch))
        if pruned < self.options.batch:
            self._prune_at = now + self.options.prune_every.total_seconds()
        return pruned

    async def _archive(self) -> bool:
        """Archive jobs and runs that ended a while ago, and drop archives that are too old; return whether there may be
        more.

        A round reads all jobs that are old enough, even those that are still live. If that takes long, the next round
        waits for twenty times as long, but for no more than a tenth of the time after which jobs are archived.
        """
        now, after, keep = time.monotonic(), self.options.archive_after, self.options.keep
        if now < self._archive_at:
            return False
        more = after is not None and await upkeep.archive(self._db, age=after)
        more = (keep is not None and await upkeep.drop_archives(self._db, age=keep)) or more
        self._archived_in += time.monotonic() - now
        if not more:
            most = timedelta(days=1) if after is None else after / 10
            rest = min(20 * self._archived_in, most.total_seconds())
            self._archive_at = now + max(self.options.archive_every.total_seconds(), rest)
            self._archived_in = 0.0
        return more

    async def _tend(self) -> None:
        now, keep = time.monotonic(), self.options.keep
        if now >= self._tend_at:
            # Set before the work: a call that fails takes heavy locks, too.
            self._tend_at = now + self.options.tend_every.total_seconds()
            await upkeep.tend(self._db, age=keep if keep is not None else timedelta(days=36500))
            await upkeep.tend_audit(self._db, age=self.options.keep_audit)
