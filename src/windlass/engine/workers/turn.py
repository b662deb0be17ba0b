"""A worker's turn: records its reports and claims the next jobs, in one transaction."""

import logging
from collections.abc import Iterable, Sequence
from datetime import timedelta
from uuid import UUID

from windlass.core.jobs.job import Claimed, Fence
from windlass.core.json_value import plain
from windlass.engine import quarantine
from windlass.engine.database import Database
from windlass.engine.faults import point
from windlass.engine.quarantine import Kind
from windlass.engine.workers import first_claims
from windlass.engine.workers.recording import Turn, lock_and_record, record, record_apart
from windlass.errors import Locked, Unavailable
from windlass.store import jobs, workers
from windlass.store.events import Line
from windlass.store.jobs import HeldLease, Lane, Served
from windlass.store.workers import Registered

__all__ = [
    "HeldLease",
    "Lane",
    "Line",
    "Served",
    "Turn",
    "heartbeat",
    "held",
    "look",
    "record",
    "register",
    "registry",
    "seen",
    "turn",
]

DEFER = timedelta(minutes=1)  # how long a job that cannot be claimed is postponed
_log = logging.getLogger("windlass.work")


async def turn(db: Database, wish: Turn) -> tuple[list[Claimed], set[UUID]]:
    """Record reports, advance their runs and claim, all or nothing; return the jobs claimed and the ids recorded.

    If that fails, and not because the database is unavailable, the parts are done separately: a failure caused by one
    report, log line or row must not hold up the others, in this turn or a later one.
    """
    try:
        return await _turn_together(db, wish)
    except Exception as error:
        if wish.count and wish.claim_failed is not None:
            wish.claim_failed()  # the claim may have been committed: see engine/workers/orphans.py
        if isinstance(error, Unavailable) and not isinstance(error, Locked):
            raise
        _log.warning("a turn failed, its parts are done one by one: %s", plain(str(error)).partition("\n")[0])
    recorded = await record_apart(db, wish) if wish.reports or wish.lines else set()
    return await _claim_apart(db, wish) if wish.count else [], recorded


async def _turn_together(db: Database, wish: Turn, *, atomic: bool = False) -> tuple[list[Claimed], set[UUID]]:
    single = wish.is_single and not wish.runs and not atomic
    async with db.once() if single else db.begin() as conn:
        recorded, wakeups = await lock_and_record(conn, db, wish)
        claimed = await jobs.claim(conn, wish.lanes, count=wish.count, worker=wish.worker, lease=wish.lease)
        known = await db.definitions.readable(conn, {job.version_id for job in claimed if job.version_id is not None})
        if known:
            await first_claims.tell(conn, claimed, known, actor=wish.worker)
        point("turn.claimed")
    point("turn.committed")
    wakeups.poke(db, claimed=[job.id for job in claimed])
    return claimed, recorded


async def _claim_apart(db: Database, wish: Turn) -> list[Claimed]:
    """Claim lane by lane, in one transaction each. The first job of a lane that cannot be claimed is set aside."""
    claimed: list[Claimed] = []
    for lane, room in wish.lanes:
        count = min(room, wish.count - len(claimed))
        while count > 0:
            part = Turn(worker=wish.worker, lease=wish.lease, lanes=[(lane, count)], count=count)
            try:
                claimed += (await _turn_together(db, part, atomic=True))[0]
                break
            except Unavailable:
                raise
            except Exception as error:
                if count == 1:
                    await _defer_first(db, lane, error)
                count //= 2
    return claimed


async def _defer_first(db: Database, lane: Lane, error: Exception) -> None:
    """Postpone the first job of a lane, so that those behind it can be claimed."""
    async with db.once() as conn:
        id_ = await jobs.defer_first(conn, lane, pause=DEFER)
    if id_ is not None:
        await quarantine.set_aside(db, Kind.JOB, id_, error)


async def look(db: Database, queues: Sequence[str], served: Served | None = None) -> list[Lane]:
    """Return the lanes with due work of the served types (None: all), the most urgent first."""
    async with db.once() as conn:
        return await jobs.find_lanes(conn, queues, served)


async def heartbeat(db: Database, claims: Iterable[Fence], *, worker: str, lease: timedelta) -> list[HeldLease]:
    """Extend leases; those missing from the result are no longer held."""
    async with db.once() as conn:
        return await jobs.heartbeat(conn, claims, worker=worker, lease=lease)


async def held(db: Database, claims: Iterable[Fence], *, worker: str) -> list[HeldLease]:
    """Return which of these leases are still held, without extending them."""
    async with db.once() as conn:
        return await jobs.held(conn, claims, worker=worker)


async def register(
    db: Database, *, id_: str, host: str, pid: int, queues: Sequence[str], types: Sequence[str], concurrency: int
) -> Registered | None:
    """Register a worker; return the process that had its id before."""
    async with db.once() as conn:
        return await workers.register(
            conn, id_=id_, host=host, pid=pid, queues=queues, types=types, concurrency=concurrency
        )


async def seen(db: Database, *, id_: str, state: str, active: int) -> Registered | None:
    """Record a heartbeat; return the worker's row, with the operator's directive."""
    async with db.once() as conn:
        return await workers.seen(conn, id_=id_, state=state, active=active)


async def registry(db: Database) -> dict[str, tuple[str, bool]]:
    """Return type -> (runtime, enabled), for the registered types."""
    async with db.once() as conn:
        return {name: (runtime, enabled) for name, runtime, enabled in await workers.registry(conn)}
