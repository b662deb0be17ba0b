"""A worker's turn: records its reports and claims the next jobs, in one transaction.

A claim can be committed although the worker never gets the result: the connection is lost after the commit, or one row
of the batch cannot be decoded. Without `adopt` those jobs would wait until their leases expire, and each would be
charged a loss.
"""

import logging
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Protocol
from uuid import UUID

from windlass.core.jobs.job import Claimed, Fence, Success
from windlass.core.json_value import plain
from windlass.core.orgs import owner, stored
from windlass.core.workflows.workflow import Workflow
from windlass.engine import quarantine
from windlass.engine.database import Database
from windlass.engine.faults import point
from windlass.engine.orgs import quota
from windlass.engine.quarantine import Kind
from windlass.engine.runs.settle import Wakeups
from windlass.engine.workers.recording import Turn, lock_and_record, record, record_apart
from windlass.errors import Locked, Unavailable
from windlass.store import compositions, jobs, workers
from windlass.store.claims import Lane, Served, claim, defer_first, find_lanes, find_orgs
from windlass.store.events import NewLogLine
from windlass.store.jobs import HeldLease
from windlass.store.postgres.pool import Connection
from windlass.store.workers import Registered, Registry

__all__ = ["HeldLease", "Lane", "NewLogLine", "Served", "Turn", "record"]

ORGS_PER_LOOK = 250
DEFER = timedelta(minutes=1)  # how long a job that cannot be claimed is postponed
PAUSE_UNREADABLE = timedelta(minutes=5)  # before a job that could not be read is tried again
_log = logging.getLogger("windlass.work")


async def turn(db: Database, request: Turn) -> tuple[list[Claimed], set[UUID]]:
    """Record reports, advance their runs and claim, all or nothing; return the jobs claimed and the ids recorded.

    If that fails while the database is available, the parts are processed separately: a failure caused by one
    report, log line or row must not block the others, in this turn or a later one.
    """
    try:
        claimed, recorded = await _turn_together(db, request)
        if request.claims_and_records and len(recorded) < len(request.reports):
            rest = [report for report in request.reports if report.job.id not in recorded]
            recorded |= await record_apart(db, replace(request, reports=rest))
        return claimed, recorded
    except Exception as error:
        if request.count and request.claim_failed is not None:
            request.claim_failed()  # the claim may have been committed: see `adopt`
        if isinstance(error, Unavailable) and not isinstance(error, Locked):
            raise
        _log.warning("a turn failed, its parts are processed one by one: %s", plain(str(error)).partition("\n")[0])
    recorded = await record_apart(db, request) if request.reports or request.lines else set()
    return await _claim_apart(db, request) if request.count else [], recorded


async def _turn_together(db: Database, request: Turn, *, atomic: bool = False) -> tuple[list[Claimed], set[UUID]]:
    limited = quota.limited_orgs(db, {lane.queue for lane, _ in request.lanes}) if request.count else []
    single = request.is_single and not atomic and not limited
    with_claim = single and request.claims_and_records
    async with db.once() if single else db.begin() as conn:
        recorded, wakeups = (set[UUID](), Wakeups()) if with_claim else await lock_and_record(conn, db, request)
        lanes = await _within_limits(conn, db, request, limited) if limited else request.lanes
        claimed, successes = await claim(
            conn,
            lanes,
            count=request.count,
            worker=request.worker,
            lease=request.lease,
            worker_lease=request.worker_lease,
            successes=[report for report in request.reports if isinstance(report, Success)] if with_claim else (),
        )
        if versions := {job.version_id for job in claimed if job.version_id is not None}:
            known = await db.definitions.readable(conn, versions)
            await start_compositions(conn, claimed, known, actor=request.worker)
        point("turn.claimed")
    point("turn.committed")
    wakeups.poke(db, claimed=[job.id for job in claimed])
    if db.allowances.limited:  # a job that ended frees capacity for another of its org
        db.poke(*{report.job.queue for report in request.reports if quota.limits_claims(db, report.job.org)})
    return claimed, recorded | successes


async def _within_limits(
    conn: Connection, db: Database, request: Turn, limited: Sequence[str]
) -> list[tuple[Lane, int]]:
    """Return the lanes with the number of jobs to claim from each, so that no limited org exceeds its limit. The lanes
    are in order of urgency, so the most urgent lanes use the capacity first."""
    room = await quota.claim_room(conn, db, limited)
    for org, left in room.items():
        if not left and request.no_room is not None:
            request.no_room(org, left is None)
    lanes = []
    for lane, most in request.lanes:
        org = owner(lane.queue)[0]
        if org in room:
            left = room[org] or 0
            most = min(most, left)
            room[org] = left - most
        if most > 0:
            lanes.append((lane, most))
    return lanes


async def _claim_apart(db: Database, request: Turn) -> list[Claimed]:
    """Claim from each lane in its own transaction. If the first job of a lane cannot be claimed, set it aside."""
    claimed: list[Claimed] = []
    for lane, room in request.lanes:
        count = min(room, request.count - len(claimed))
        while count > 0:
            part = Turn(
                worker=request.worker,
                lease=request.lease,
                worker_lease=request.worker_lease,
                lanes=[(lane, count)],
                count=count,
            )
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
    """Postpone the first job of a lane and set it aside, so that the jobs behind it can be claimed."""
    async with db.once() as conn:
        id_ = await defer_first(conn, lane, pause=DEFER)
    if id_ is not None:
        await quarantine.set_aside(db, Kind.JOB, id_, error)


class ClaimedJob(Protocol):
    """A claimed job."""

    @property
    def run_id(self) -> UUID | None: ...
    @property
    def version_id(self) -> int | None: ...
    @property
    def step(self) -> int | None: ...


async def start_compositions(
    conn: Connection, taken: Iterable[ClaimedJob], known: Mapping[int, Workflow], *, actor: str
) -> None:
    """Mark the compositions of these jobs as started. Only a job of a step without dependencies can be the first."""
    begun: set[UUID] = set()
    for job in taken:
        workflow = known.get(job.version_id) if job.version_id is not None else None
        if workflow is None or workflow.primitive is None or job.run_id is None or job.step is None:
            continue
        if not workflow.steps[job.step].edges:
            begun.add(job.run_id)
    if begun:
        await compositions.start(conn, sorted(begun), actor=actor)


async def adopt(db: Database, *, worker: str, held: Container[Fence], lease: timedelta) -> list[Claimed]:
    """Return the jobs that are leased to a worker and not in `held`, for the worker to start them.

    Each job is read in its own transaction: one that cannot be read is released. Call this only if the worker has no
    claim in flight, whose jobs would be taken for orphans, and no other process uses its id.
    """
    async with db.once() as conn:
        fences = await workers.find_orphans(conn, worker=worker)
    adopted = []
    for fence in fences:
        if fence in held:
            continue
        try:
            job = await _take_orphan(db, fence, worker, lease)
        except Unavailable:
            raise  # the jobs read so far are found again by the next call
        except Exception as error:
            await _put_back(db, fence, worker, error)
        else:
            adopted += [] if job is None else [job]
    return adopted


async def _take_orphan(db: Database, fence: Fence, worker: str, lease: timedelta) -> Claimed | None:
    """Lease a job to this process, load its definition, and start its composition if the job is the first."""
    async with db.begin() as conn:
        job = await workers.take_orphan(conn, fence, worker=worker, lease=lease)
        if job is not None and job.version_id is not None:
            known = await db.definitions.readable(conn, {job.version_id})
            await start_compositions(conn, [job], known, actor=worker)
        return job


async def _put_back(db: Database, fence: Fence, worker: str, error: Exception) -> None:
    """Release a job that cannot be read, postpone it and set it aside, where operators see it."""
    reason = plain(f"this worker cannot read it: {type(error).__name__}: {error}")[:1000]
    try:
        async with db.once() as conn:
            await workers.put_back_orphan(conn, fence, worker=worker, pause=PAUSE_UNREADABLE, reason=reason)
    except Unavailable:
        raise
    except Exception:
        _log.exception("job %s could not be released: its lease must expire first", fence[0])
    await quarantine.set_aside(db, Kind.JOB, fence[0], error)


class OrgPages:
    """Pages through the orgs with due jobs, ORGS_PER_LOOK per search of lanes: there may be thousands."""

    def __init__(self) -> None:
        self.several = False  # there are orgs besides `default`: their queues are searched, too
        self._after = ""

    async def next(self, conn: Connection) -> tuple[list[str], bool]:
        """Return the next orgs, starting over after the last one, and whether there are more."""
        page = await find_orgs(conn, after=self._after, limit=ORGS_PER_LOOK)
        if len(page) < ORGS_PER_LOOK and self._after:
            known = set(page)
            first = await find_orgs(conn, after="", limit=ORGS_PER_LOOK - len(page))
            page += [org for org in first if org not in known]
        is_full = len(page) == ORGS_PER_LOOK
        self._after = page[-1] if is_full else ""
        return page, is_full


async def look(
    db: Database, queues: Sequence[str], served: Served | None = None, *, pages: OrgPages | None = None
) -> list[Lane]:
    """Return the lanes with due work of the served types (None: all), the most urgent first.

    With several orgs the queues of each org are searched, one page of orgs per query: further pages are searched only
    if nothing was found.
    """
    if pages is None or not pages.several:
        async with db.once() as conn:
            return await find_lanes(conn, queues, served)
    async with db.begin() as conn:
        names, visited = list(queues), set[str]()
        while True:
            page, more = await pages.next(conn)
            names += [stored(org, queue) for org in page for queue in queues]
            lanes = await find_lanes(conn, names, served)
            if lanes or not more or visited.issuperset(page):
                return lanes
            visited.update(page)
            names = []


async def heartbeat(db: Database, claims: Iterable[Fence], *, worker: str, lease: timedelta) -> list[HeldLease]:
    """Extend the leases of single jobs; those missing from the result are no longer held."""
    async with db.once() as conn:
        return await jobs.heartbeat(conn, claims, worker=worker, lease=lease)


async def held(db: Database, claims: Iterable[Fence], *, worker: str) -> list[HeldLease]:
    """Return which of these leases are still held, without extending them."""
    async with db.once() as conn:
        return await jobs.held(conn, claims, worker=worker)


async def open_lease(db: Database, worker: str, *, lease: timedelta) -> int:
    """Open the lease of a worker's process; return the id of the lease."""
    async with db.once() as conn:
        return await workers.open_lease(conn, worker, lease=lease)


async def extend_lease(db: Database, id_: int, worker: str, *, lease: timedelta) -> None:
    """Extend the lease of a worker, and so all jobs that were claimed under it."""
    async with db.once() as conn:
        await workers.extend_lease(conn, id_, worker, lease=lease)


async def part_unknown(
    db: Database, id_: int, known: Callable[[], Container[Fence]], *, older_than: timedelta, lease: timedelta
) -> list[UUID]:
    """Move the jobs that a process does not run from its worker lease to leases of their own; return their ids.

    Those leases expire, and the jobs are released as if their worker had died. If the result of a claim was only late,
    the process extends the lease of its job from then on. `known` is called after the jobs were read, because claims
    continue meanwhile.
    """
    async with db.once() as conn:
        found = await workers.find_under_lease(conn, id_, older_than=older_than)
    held = known()
    if unknown := [fence for fence in found if fence not in held]:
        async with db.once() as conn:
            return await workers.part_from_lease(conn, unknown, id_, lease=lease)
    return []


async def close_lease(db: Database, id_: int) -> None:
    """Delete the lease of a worker that has stopped, unless jobs are still under it: these wait until it expires."""
    async with db.once() as conn:
        await workers.close_lease(conn, id_)


async def register(
    db: Database, *, id_: str, host: str, pid: int, queues: Sequence[str], types: Sequence[str], concurrency: int
) -> Registered | None:
    """Register a worker; return the process that was registered under its id before, if any."""
    async with db.once() as conn:
        return await workers.register(
            conn, id_=id_, host=host, pid=pid, queues=queues, types=types, concurrency=concurrency
        )


async def seen(db: Database, *, id_: str, state: str, active: int) -> Registered | None:
    """Record a heartbeat; return the worker's row, with the operator's directive."""
    async with db.once() as conn:
        return await workers.seen(conn, id_=id_, state=state, active=active)


async def registry(db: Database) -> Registry:
    """Return the registered types, and whether there are several orgs."""
    async with db.once() as conn:
        return await workers.registry(conn)
