"""Jobs for workers that use HTTP: claimed by queue in strict order, kept by heartbeats. See also `remote_reports`."""

import logging
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import chain
from uuid import UUID

from windlass.core.jobs.spec import MAX_LEASE, check_length
from windlass.engine.database import MOST_COUNTED, Database
from windlass.engine.upkeep import isolate_rows
from windlass.engine.workers import turn
from windlass.errors import Conflict, NotFound
from windlass.store import claims as store
from windlass.store import jobs
from windlass.store.claims import ToldJob
from windlass.store.postgres.pool import Connection
from windlass.store.rows import Job

LEASE = timedelta(seconds=1800)  # where neither the worker nor the job gives one
SET_ASIDE = timedelta(minutes=1)  # until a job that could not be handed out is tried again
UNREADABLE = "the version of its workflow cannot be read by this process"
PROMOTE = 1000
ACTOR = "http"
__all__ = ["LEASE", "Beat", "Job", "ToldJob", "Wish"]
_log = logging.getLogger("windlass.claims")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """The parameters of a worker's fetch."""

    queues: Sequence[str]
    count: int
    worker: str
    lease: timedelta | None = None
    tenant: str | None = None  # only jobs of this tenant

    def __post_init__(self) -> None:
        check_length(self.lease, "visibility_timeout_ms", most=MAX_LEASE)


@dataclass(frozen=True, slots=True)
class Beat:
    """The answer to a heartbeat."""

    state: str
    directive: str | None
    extended: list[UUID]
    stop: list[UUID]  # those of `extended` that the worker is asked to stop
    test_directive: str | None
    now: datetime


async def fetch(db: Database, wishes: Sequence[Wish]) -> list[list[Job]]:
    """Return the jobs for each fetch, claimed in one transaction. Jobs that cannot be handed out are set aside."""
    async with db.begin() as conn:
        found = [await _fetch(conn, db, wish) for wish in wishes]
        if versions := {job.version_id for jobs_ in found for job in jobs_ if job.version_id is not None}:
            known = await db.definitions.readable(conn, versions)
            if len(known) < len(versions):
                found = [await _readable(conn, known, *each) for each in zip(wishes, found, strict=True)]
            await turn.start_compositions(conn, chain.from_iterable(found), known, actor=ACTOR)
    return found


async def _readable(conn: Connection, known: Container[int], wish: Wish, found: list[Job]) -> list[Job]:
    """Return those of these jobs whose version this process can read; set the others aside."""
    bad = {job.id: UNREADABLE for job in found if job.version_id is not None and job.version_id not in known}
    await _set_aside(conn, wish.worker, bad)
    return [job for job in found if job.id not in bad]


async def set_aside(db: Database, worker: str, reasons: Mapping[UUID, str]) -> None:
    """Release jobs that were claimed for this worker but cannot be handed out; they are tried again later."""
    async with db.begin() as conn:
        await _set_aside(conn, worker, reasons)


async def _set_aside(conn: Connection, worker: str, reasons: Mapping[UUID, str]) -> None:
    for id_, why in reasons.items():
        _log.error("job %s is set aside for %d s: %s", id_, SET_ASIDE.total_seconds(), why)
    await store.set_aside(conn, reasons, worker=worker, delay=SET_ASIDE, actor=ACTOR)


async def _fetch(conn: Connection, db: Database, wish: Wish) -> list[Job]:
    found, limited = await _take(conn, wish, wish.count)
    if len(found) < wish.count and (queues := await jobs.become_due(conn, PROMOTE)):
        # Jobs that have just become due are not left to the timer loop, which could take another second.
        for queue in set(queues):
            db.poke(queue)
        limited = True
    if len(found) < wish.count and limited:
        more, limited = await _take(conn, wish, wish.count - len(found))
        found += more
        if more and limited and len(found) < wish.count:  # jobs that the second batch made due
            found += (await _take(conn, wish, wish.count - len(found)))[0]
    return found


async def _take(conn: Connection, wish: Wish, count: int) -> tuple[list[Job], bool]:
    """Return jobs, and whether their rate limits may have made others due."""
    found = await store.fetch(
        conn,
        wish.queues,
        count=count,
        worker=wish.worker,
        lease=wish.lease,
        default=LEASE,
        tenant=wish.tenant,
    )
    await _set_aside(conn, wish.worker, found.unreadable)
    return found.jobs, found.limited


async def beat(
    db: Database,
    worker: str,
    ids: Sequence[UUID],
    *,
    lease: timedelta | None = None,
    state: str | None = None,
    host: str = "",
) -> Beat:
    """Extend leases; return the worker's state and the directives for it."""
    check_length(lease, "visibility_timeout_ms", most=MAX_LEASE)
    async with db.begin() as conn:
        held = await store.beat(conn, sorted(ids), worker=worker, lease=lease, default=LEASE) if ids else []
        standing, directive, now = await store.seen(
            conn,
            worker=worker,
            host=host,
            queues=(),
            state=state or "running",
            active=len(held),
            is_said=state is not None,
        )
    tested = next((wanted for _, _, wanted in held if wanted), None)
    return Beat(standing, directive, [id_ for id_, _, _ in held], [id_ for id_, asked, _ in held if asked], tested, now)


async def told(db: Database, id_: UUID) -> ToldJob:
    """Return a job with the times of its attempts."""
    async with db.once() as conn:
        found = await store.told(conn, id_, org=db.org)
    if found is None:
        raise NotFound("job", id_)
    return found


async def activate(db: Database, id_: UUID) -> None:
    """Release a job that was submitted on hold."""
    async with db.begin() as conn:
        queue = await store.activate(conn, id_, org=db.org)
        if queue is None:
            found = await store.told(conn, id_, org=db.org)
            if found is None:
                raise NotFound("job", id_)
            raise Conflict(f"job {id_} is not held back: only such jobs can be activated")
    db.poke(queue)


async def moment(db: Database) -> datetime:
    """Return the database's time."""
    async with db.once() as conn:
        return await store.moment(conn)


async def expire(db: Database, *, batch: int = 500) -> int:
    """End jobs that did not begin before they expired; return their number."""
    ended = await isolate_rows(
        db, partial(store.find_late, limit=batch), partial(store.expire, batch=batch, actor="upkeep")
    )
    if ended:
        db.poke("settle")
    return len(ended)


async def dead_letters(db: Database, *, queue: str | None, limit: int, offset: int) -> tuple[list[Job], int]:
    """Return a page of dead letters, latest first, and their total number."""
    async with db.once() as conn:
        return await store.dead_letters(conn, org=db.org, queue=queue, limit=limit, offset=offset)


async def standing(db: Database, queue: str) -> dict[str, int]:
    """Return how many jobs of a queue are in each state: available, scheduled and so on, and the latest outcomes."""
    async with db.once() as conn:
        return await store.standing(conn, queue, cap=MOST_COUNTED)


async def check_dead_letter(db: Database, id_: UUID) -> None:
    async with db.once() as conn:
        if not await store.is_dead_letter(conn, id_, org=db.org):
            raise NotFound("dead letter", id_)
