"""Claims and heartbeats of workers that use HTTP, which claim jobs by queue, in strict order. Their reports are in
`remote_reports`."""

import logging
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import chain
from uuid import UUID

from windlass.core.jobs.spec import MAX_LEASE, check_length, check_name, check_pattern
from windlass.engine.database import Tenant
from windlass.engine.orgs import quota
from windlass.engine.workers import turn
from windlass.store import claims as store
from windlass.store import jobs
from windlass.store.claims import Served
from windlass.store.jobs import Job
from windlass.store.postgres.pool import Connection

__all__ = ["Job"]
LEASE = timedelta(seconds=1800)  # if neither the worker nor the job sets one
SET_ASIDE = timedelta(minutes=1)  # until a job that could not be handed out is tried again
UNREADABLE = "the version of its workflow cannot be read by this process"
PROMOTE = 1000
ACTOR = "http"
_log = logging.getLogger("windlass.claims")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    """The parameters of a worker's fetch."""

    queues: Sequence[str]
    count: int
    worker: str
    lease: timedelta | None = None
    types: Sequence[str] | None = None  # names, or LIKE patterns if they contain %; None: all types

    def __post_init__(self) -> None:
        check_length(self.lease, "visibility_timeout_ms", most=MAX_LEASE)
        for type_ in self.types or ():
            check_name(type_, "types", "name a job type, or leave types out for all")
            check_pattern(type_, "types")

    @property
    def served(self) -> Served | None:
        if self.types is None:
            return None
        exact = [type_ for type_ in self.types if "%" not in type_]
        return Served(exact, [type_ for type_ in self.types if "%" in type_])


@dataclass(frozen=True, slots=True)
class HeartbeatAnswer:
    """The answer to a heartbeat."""

    state: str
    directive: str | None
    extended: list[UUID]
    stop: list[UUID]  # jobs to stop: held and requested to stop, or cancelled already
    test_directive: str | None
    now: datetime


async def fetch(db: Tenant, requests: Sequence[Fetch]) -> list[list[Job]]:
    """Claim jobs for each fetch, in one transaction, and return them. Jobs that cannot be handed out are set aside."""
    requests = [_stored(db, request) for request in requests]
    async with db.begin() as conn:
        room = await quota.wait_for_claim_room(conn, db)
        batches: list[list[Job]] = []
        for request in requests:
            count = request.count if room is None else min(request.count, room)
            batches.append(await _fetch(conn, db, replace(request, count=count)) if count > 0 else [])
            room = None if room is None else room - len(batches[-1])
        if versions := {job.version_id for batch in batches for job in batch if job.version_id is not None}:
            known = await db.definitions.readable(conn, versions)
            if len(known) < len(versions):
                batches = [await _readable(conn, known, *each) for each in zip(requests, batches, strict=True)]
            await turn.start_compositions(conn, chain.from_iterable(batches), known, actor=ACTOR)
    return batches


async def register(db: Tenant, request: Fetch, *, host: str) -> None:
    """Record which queues and types a worker serves, for lists of workers and for `explain`."""
    named = _stored(db, request)
    types = ["%"] if request.types is None else request.types
    async with db.begin() as conn:
        await store.register(conn, org=db.org, worker=named.worker, host=host, queues=named.queues, types=types)


def _stored(db: Tenant, request: Fetch) -> Fetch:
    """Return the fetch with the stored names of its queues and its worker."""
    return replace(request, queues=[db.stored(queue) for queue in request.queues], worker=db.stored(request.worker))


async def _readable(conn: Connection, known: Container[int], request: Fetch, batch: list[Job]) -> list[Job]:
    """Return the jobs whose workflow version this process can read; set the other jobs aside."""
    bad = {job.id: UNREADABLE for job in batch if job.version_id is not None and job.version_id not in known}
    await _set_aside(conn, request.worker, bad)
    return [job for job in batch if job.id not in bad]


async def set_aside(db: Tenant, worker: str, reasons: Mapping[UUID, str]) -> None:
    """Release jobs that were claimed for this worker but cannot be handed out; they are due again after SET_ASIDE."""
    async with db.begin() as conn:
        await _set_aside(conn, db.stored(worker), reasons)


async def _set_aside(conn: Connection, worker: str, reasons: Mapping[UUID, str]) -> None:
    for id_, why in reasons.items():
        _log.error("job %s is set aside for %d s: %s", id_, SET_ASIDE.total_seconds(), why)
    await store.set_aside(conn, reasons, worker=worker, delay=SET_ASIDE, actor=ACTOR)


async def _fetch(conn: Connection, db: Tenant, request: Fetch) -> list[Job]:
    taken, limited = await _take(conn, db, request, request.count)
    if len(taken) < request.count and (queues := await jobs.become_due(conn, PROMOTE)):
        # Make jobs due here: the timer loop could take another second.
        db.poke(*set(queues))
        limited = True
    if len(taken) < request.count and limited:
        more, limited = await _take(conn, db, request, request.count - len(taken))
        taken += more
        if more and limited and len(taken) < request.count:  # jobs that the second batch made due
            taken += (await _take(conn, db, request, request.count - len(taken)))[0]
    return taken


async def _take(conn: Connection, db: Tenant, request: Fetch, count: int) -> tuple[list[Job], bool]:
    """Claim up to `count` jobs; return them, and whether their rate limits may have made other jobs due."""
    fetched = await store.fetch(
        conn,
        request.queues,
        org=db.org,
        count=count,
        worker=request.worker,
        lease=request.lease,
        default=LEASE,
        tenant=db.label,
        served=request.served,
    )
    await _set_aside(conn, request.worker, fetched.unreadable)
    return fetched.jobs, fetched.limited


async def heartbeat(
    db: Tenant,
    worker: str,
    ids: Sequence[UUID],
    *,
    lease: timedelta | None = None,
    state: str | None = None,
    host: str = "",
) -> HeartbeatAnswer:
    """Extend the leases of these jobs; return the worker's state, its directives and the jobs to stop."""
    check_length(lease, "visibility_timeout_ms", most=MAX_LEASE)
    async with db.begin() as conn:
        worker = db.stored(worker)
        held = (
            await store.heartbeat(conn, sorted(ids), org=db.org, worker=worker, lease=lease, default=LEASE)
            if ids
            else []
        )
        lost = sorted({*ids}.difference(id_ for id_, _, _ in held))
        cancelled = await store.cancelled(conn, lost, org=db.org) if lost else []
        recorded, directive, now = await store.seen(
            conn,
            org=db.org,
            worker=worker,
            host=host,
            queues=(),
            state=state or "running",
            active=len(held),
            reported=state is not None,
        )
    test_directive = next((test for _, _, test in held if test), None)
    stop = [id_ for id_, should_stop, _ in held if should_stop] + cancelled
    return HeartbeatAnswer(recorded, directive, [id_ for id_, _, _ in held], stop, test_directive, now)
