"""Background maintenance: makes jobs due, releases expired leases, removes old rows, manages partitions."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TypeVar
from uuid import UUID

from windlass.core.jobs.job import Continuity
from windlass.engine import quarantine
from windlass.engine.database import Database
from windlass.engine.quarantine import Kind, split_batch
from windlass.errors import Unavailable
from windlass.store import archive as archive_store
from windlass.store import claims, crons, events, job_schemas, jobs, runs, workers
from windlass.store import queues as queue_store
from windlass.store.orgs import audit, sessions
from windlass.store.postgres.pool import Connection, limit_lock_wait
from windlass.store.workers import PendingJobWork, PendingWork, TermAnswer

__all__ = ["PendingJobWork", "PendingWork", "TermAnswer"]
WEEKS_AHEAD = 2
MONTHS_AHEAD = 2
MOST_SCHEMAS_OF_TYPE, MOST_SCHEMAS = 50, 10_000  # schemas of handlers that are kept: per type, per org
LOCK_MILLISECONDS = 50  # how long writers of the event trail may queue behind maintenance that waits for a lock
OPEN_LEASE = timedelta(hours=1)  # for plain SQL clients that claim without `lease_until`
ARCHIVE_BATCH = 5_000
UNKNOWN_LEASE = timedelta(seconds=30)  # for jobs whose worker lease does not exist; workers extend every 10 s or sooner
KEEP_LEASE = timedelta(hours=1)  # how long the expired lease of a worker without jobs is kept
Row = TypeVar("Row")
_log = logging.getLogger("windlass.upkeep")


@dataclass(frozen=True, slots=True)
class UpkeepResult:
    released: int = 0
    failed: int = 0
    pruned: int = 0
    logged: int = 0  # `created` events written for jobs of plain SQL


async def become_due(db: Database, *, batch: int = 1000) -> int:
    """Make jobs claimable whose `run_at` has passed, and wake their queues; return their number."""
    queues = await isolate_rows(db, partial(jobs.find_ripe, limit=batch), partial(jobs.become_due, batch=batch))
    db.poke(*set(queues))
    return len(queues)


async def expire(db: Database, *, batch: int = 500) -> int:
    """Fail jobs that were not started before they expired; return their number."""
    ended = await isolate_rows(
        db, partial(claims.find_expired, limit=batch), partial(claims.expire, batch=batch, actor="upkeep")
    )
    if ended:
        db.poke("settle")
    return len(ended)


async def log_created(db: Database, *, batch: int = 1000) -> int:
    """Write the `created` events of jobs that plain SQL inserted in bulk; return the number of jobs examined."""
    logged = await isolate_rows(db, partial(jobs.find_unlogged, limit=batch), partial(jobs.log_created, batch=batch))
    return len(logged)


async def isolate_rows(
    db: Database,
    find: Callable[[Connection], Awaitable[list[UUID]]],
    act: Callable[..., Awaitable[list[Row]]],
) -> list[Row]:
    """Change a batch of jobs with one statement. If a job makes it fail, split the batch and quarantine that job.

    `find` and `act` skip jobs in quarantine until their next retry is due.
    """
    try:
        async with db.once() as conn:
            return await act(conn)
    except Unavailable:
        raise
    except Exception as error:
        _log.warning("a batch of jobs failed and is split: %s", error)

    async def some(ids: Sequence[UUID]) -> list[Row]:
        async with db.once() as conn:
            return await act(conn, only=ids)

    async with db.once() as conn:
        suspects = await find(conn)
    return [
        row for rows in await split_batch(suspects, some, partial(quarantine.set_aside, db, Kind.JOB)) for row in rows
    ]


async def pending_work(db: Database, *, duty: str, kinds: Sequence[Kind], looks_for_leases: bool = True) -> PendingWork:
    """Return the pending work of all loops, including quarantine entries of these kinds, and the leader of a duty."""
    async with db.once() as conn:
        return await workers.pending_work(conn, duty=duty, kinds=kinds, looks_for_leases=looks_for_leases)


async def pending_job_work(db: Database) -> PendingJobWork:
    """Return the pending maintenance of jobs."""
    async with db.once() as conn:
        return await workers.pending_job_work(conn)


async def take_term(db: Database, *, duty: str, holder: str, term: timedelta) -> TermAnswer:
    async with db.once() as conn:
        return await workers.take_term(conn, duty=duty, holder=holder, term=term)


async def resign_term(db: Database, *, duty: str, holder: str) -> None:
    async with db.once() as conn:
        await workers.resign_term(conn, duty=duty, holder=holder)


async def release_expired(db: Database, *, batch: int = 500, continuity: Continuity | None = None) -> UpkeepResult:
    """Release jobs with expired leases, except those whose heartbeats could not arrive during a gap of `continuity`."""
    gaps = continuity.gaps if continuity is not None else ()
    answered_at = continuity.answered_at if continuity is not None else None
    release = partial(jobs.release_expired, batch=batch, actor="upkeep", gaps=gaps, answered_at=answered_at)
    freed = await isolate_rows(db, partial(jobs.find_expired, limit=batch), release)
    if freed:
        db.poke("", "settle")
    ended = sum(status != "pending" for _, status in freed)
    return UpkeepResult(released=len(freed) - ended, failed=ended)


async def prune(db: Database, *, age: timedelta, batch: int = 500) -> int:
    """Delete jobs and runs that ended, and ticks that were skipped, longer than `age` ago: a batch of each.

    Return the number of jobs or of runs, whichever is larger.
    """
    async with db.once() as conn:
        old_jobs = await jobs.prune(conn, age=age, batch=batch)
    async with db.once() as conn:
        old_runs = await runs.prune(conn, age=age, batch=batch)
    async with db.once() as conn:
        await crons.prune_skipped(conn, age=age, batch=batch)
    return max(old_jobs, old_runs)


async def archive(db: Database, *, age: timedelta, batch: int = ARCHIVE_BATCH) -> bool:
    """Archive jobs and runs that ended longer than `age` ago, a batch of each; return whether there may be more.

    If the archive of a week does not exist yet and creating it would have to wait for a lock, its rows are left for the
    next call.
    """
    async with db.once() as conn:
        old_jobs = await archive_store.find_jobs(conn, age=age, batch=batch)
        if old_jobs.more and not old_jobs.ids:  # the ids are scanned in two ranges, and the first one is often empty
            old_jobs = await archive_store.find_jobs(conn, age=age, batch=batch)
    await _move(db, old_jobs.ids, archive_store.move_jobs)
    async with db.once() as conn:
        old_runs = await archive_store.find_runs(conn, age=age, batch=batch)
    await _move(db, old_runs.ids, archive_store.move_runs)
    return old_jobs.more or old_runs.more


async def _move(
    db: Database, ids: Sequence[UUID], move: Callable[[Connection, Sequence[UUID]], Awaitable[None]]
) -> None:
    """Archive a batch. A row that cannot be archived stays where it is and is retried later."""

    async def attempt(some: Sequence[UUID]) -> None:
        async with _short_lock(db) as conn:
            await move(conn, some)

    async def isolate(id_: UUID, error: Exception) -> None:
        await quarantine.set_aside(db, Kind.DUTY, f"archive/{id_}", error)

    await split_batch(ids, attempt, isolate)


async def drop_archives(db: Database, *, age: timedelta, batches: int = 20) -> bool:
    """Drop the archives of weeks that ended longer than `age` ago, after the rows of other tables that belong to them.

    Return whether there is more to do: each call removes a limited number of batches.
    """
    async with db.once() as conn:
        weeks = await archive_store.old(conn, age=age)
    for week in weeks:
        has_more = True
        while has_more and batches > 0:
            async with db.once() as conn:
                has_more = await archive_store.clear(conn, week, batch=ARCHIVE_BATCH)
            batches -= 1
        if has_more:
            return True
        async with _short_lock(db) as conn:
            await archive_store.drop(conn, week)
    return False


async def date_open_leases(db: Database) -> None:
    """Set an end on leases that plain SQL took without one, and on those of jobs whose worker lease does not exist."""
    async with db.once() as conn:
        await workers.date_open_leases(conn, OPEN_LEASE, of_unknown_worker=UNKNOWN_LEASE)


async def tend(db: Database, *, age: timedelta) -> None:
    """Create upcoming partitions of the event trail and of the archive, and drop old ones of the trail; delete silent
    workers, expired leases without jobs, the oldest schemas of handlers, and unused rate limits.

    A session that waits for a lock on the event trail's table blocks every writer behind it, so the wait is short: if a
    reader (a dump, an open psql) holds the lock, the change is left for the next call.
    """
    for week in range(WEEKS_AHEAD + 1):
        async with _short_lock(db) as conn:
            await events.make_partition(conn, week=week)
        async with _short_lock(db) as conn:
            await archive_store.make(conn, week=week)
    async with db.once() as conn:
        old = await events.old_partitions(conn, age=age)
    for name in old:
        async with _short_lock(db) as conn:
            await events.drop_partition(conn, name=name)
    async with db.once() as conn:
        await job_schemas.tend(conn, most_of_type=MOST_SCHEMAS_OF_TYPE, most_of_org=MOST_SCHEMAS)
    async with db.once() as conn:
        await workers.forget(conn, silent_for=timedelta(days=1))
    async with db.once() as conn:
        await workers.forget_leases(conn, expired_for=KEEP_LEASE)
    async with db.once() as conn:
        await queue_store.forget_rate_limited(conn)
    async with db.once() as conn:
        await queue_store.prune_rate_limits(conn, age=age)


async def tend_audit(db: Database, *, age: timedelta | None) -> None:
    """Create upcoming partitions of the audit log and drop those whose entries are older than `age` (None: keep all);
    remove sessions that have ended."""
    for month in range(MONTHS_AHEAD + 1):
        async with _short_lock(db) as conn:
            await audit.make_partition(conn, month=month)
    if age is not None:
        async with db.once() as conn:
            old = await audit.old_partitions(conn, age=age)
        for name in old:
            async with _short_lock(db) as conn:
                await audit.drop_partition(conn, name=name)
    async with db.once() as conn:
        await sessions.prune(conn)


@asynccontextmanager
async def _short_lock(db: Database) -> AsyncIterator[Connection]:
    """Begin a transaction that changes partitions. If it cannot get a lock soon, roll it back and log that."""
    try:
        async with db.begin() as conn:
            await limit_lock_wait(conn, LOCK_MILLISECONDS)
            yield conn
    except Unavailable as error:
        if error.recovered is not None:  # an outage, not a lock
            raise
        _log.info("a partition is locked: it will be created or dropped the next time")
