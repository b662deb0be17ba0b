"""Workers that use HTTP: they claim jobs by queue in strict order, keep them by heartbeats and report their outcomes.

A batch of reports is one transaction, which also advances the runs. Such a worker may not identify itself: then the
report is attributed to the job's holder. A report that cannot be accepted is answered with its error and does not
affect the others.
"""

import logging
import random
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import chain
from typing import NamedTuple, TypeVar
from uuid import UUID

from windlass.core.jobs.job import Cancelled, Failed, JobMove, JobState, Outcome, Report, Setback, after
from windlass.core.jobs.spec import MAX_LEASE, check_length, check_name, check_pattern
from windlass.core.orgs import owner
from windlass.engine import quarantine
from windlass.engine.database import Database, Tenant
from windlass.engine.orgs import quota
from windlass.engine.quarantine import Kind, split_batch
from windlass.engine.runs import sweep
from windlass.engine.workers import turn
from windlass.errors import Conflict, Invalid, NotFound, Unavailable, WindlassError
from windlass.store import claims as store
from windlass.store import jobs, runs, steps
from windlass.store.claims import LockedJob
from windlass.store.jobs import Job, Served
from windlass.store.postgres.pool import UNSTORABLE, Connection

__all__ = ["Job"]
LEASE = timedelta(seconds=1800)  # where neither the worker nor the job gives one
SET_ASIDE = timedelta(minutes=1)  # until a job that could not be handed out is tried again
UNREADABLE = "the version of its workflow cannot be read by this process"
OUT_OF_TIME = {"type": "Timeout", "code": "timeout", "message": "the attempt ran out of time"}
PROMOTE = 1000
ACTOR = "http"
CANCELLED = "cancelled"  # the code of the error of a worker that stopped because the job was cancelled
_log = logging.getLogger("windlass.claims")
Result = TypeVar("Result")
# Returns what the answer to each accepted report needs, given the new states.
Read = Callable[[Connection, Sequence[Report], Mapping[UUID, str]], Awaitable[Mapping[UUID, Result]]]


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
    stop: list[UUID]  # those that the worker is to stop: still held, or cancelled meanwhile
    test_directive: str | None
    now: datetime


class Standing(NamedTuple):
    """The state of a job after a report."""

    state: JobState
    delay: timedelta = timedelta()  # until a pending job is due again
    attempts: int = 0  # used up


@dataclass(frozen=True, slots=True)
class RemoteReport:
    """The reported outcome of an attempt. `fence`: accept it only for that claim."""

    job: UUID
    outcome: Outcome
    worker: str | None = None
    fence: int | None = None


async def fetch(db: Tenant, requests: Sequence[Fetch]) -> list[list[Job]]:
    """Return the jobs for each fetch, claimed in one transaction. Jobs that cannot be handed out are set aside."""
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


def _stored(db: Tenant, request: Fetch) -> Fetch:
    """Return the fetch with the stored names of its queues and its worker."""
    return replace(request, queues=[db.stored(queue) for queue in request.queues], worker=db.stored(request.worker))


async def _readable(conn: Connection, known: Container[int], request: Fetch, batch: list[Job]) -> list[Job]:
    """Return those of these jobs whose version this process can read; set the others aside."""
    bad = {job.id: UNREADABLE for job in batch if job.version_id is not None and job.version_id not in known}
    await _set_aside(conn, request.worker, bad)
    return [job for job in batch if job.id not in bad]


async def set_aside(db: Tenant, worker: str, reasons: Mapping[UUID, str]) -> None:
    """Release jobs that were claimed for this worker but cannot be handed out; they are tried again later."""
    async with db.begin() as conn:
        await _set_aside(conn, db.stored(worker), reasons)


async def _set_aside(conn: Connection, worker: str, reasons: Mapping[UUID, str]) -> None:
    for id_, why in reasons.items():
        _log.error("job %s is set aside for %d s: %s", id_, SET_ASIDE.total_seconds(), why)
    await store.set_aside(conn, reasons, worker=worker, delay=SET_ASIDE, actor=ACTOR)


async def _fetch(conn: Connection, db: Tenant, request: Fetch) -> list[Job]:
    taken, limited = await _take(conn, db, request, request.count)
    if len(taken) < request.count and (queues := await jobs.become_due(conn, PROMOTE)):
        # Jobs that have just become due are not left to the timer loop, which could take another second.
        db.poke(*set(queues))
        limited = True
    if len(taken) < request.count and limited:
        more, limited = await _take(conn, db, request, request.count - len(taken))
        taken += more
        if more and limited and len(taken) < request.count:  # jobs that the second batch made due
            taken += (await _take(conn, db, request, request.count - len(taken)))[0]
    return taken


async def _take(conn: Connection, db: Tenant, request: Fetch, count: int) -> tuple[list[Job], bool]:
    """Return jobs, and whether their rate limits may have made others due."""
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
    """Extend leases; return the worker's state and the directives for it."""
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


async def record(db: Tenant, reports: Sequence[RemoteReport]) -> list[Job | Exception]:
    """Record reports; return the jobs as they are now, or why a report was not accepted."""
    return await _record_of_org(db, reports, _rows)


async def record_batch(db: Tenant, reports: Sequence[RemoteReport]) -> list[Standing | Exception]:
    """Record reports; return the states of their jobs, without reading the rows again, or why one was not accepted."""
    return await _record_of_org(db, reports, _standings)


async def _record_of_org(db: Tenant, reports: Sequence[RemoteReport], read: Read[Result]) -> list[Result | Exception]:
    named = [replace(each, worker=db.stored(each.worker)) if each.worker is not None else each for each in reports]
    if db.label is None:
        return await _record_all(db, named, read, org=db.org)
    async with db.once() as conn:  # jobs of another label are refused as if they did not exist
        others = await store.unlabelled(conn, [each.job for each in named], db.label)
    answers = iter(await _record_all(db, [each for each in named if each.job not in others], read, org=db.org))
    return [NotFound("job", each.job) if each.job in others else next(answers) for each in named]


async def end_overdue(db: Database, *, batch: int = 500) -> int:
    """Fail attempts that ran out of time and were not reported, of all orgs; return their number."""
    async with db.once() as conn:
        overdue = await store.overdue(conn, batch)
    reports = [RemoteReport(id_, Failed(OUT_OF_TIME), fence=claim_no) for id_, claim_no in overdue]
    return sum(isinstance(answer, Standing) for answer in await _record_all(db, reports, _standings, org=None))


async def _rows(conn: Connection, accepted: Sequence[Report], _states: Mapping[UUID, str]) -> dict[UUID, Job]:
    return await store.read(conn, [report.job.id for report in accepted])


async def _standings(_: Connection, accepted: Sequence[Report], states: Mapping[UUID, str]) -> dict[UUID, Standing]:
    return {report.job.id: _standing(report, JobState(states[report.job.id])) for report in accepted}


def _standing(report: Report, state: JobState) -> Standing:
    if state is not JobState.PENDING or not isinstance(report, Setback):
        return Standing(state)
    return Standing(state, report.delay, report.job.attempt + report.job.lost + (report.move is JobMove.RETRY))


async def _record_all(
    db: Database, reports: Sequence[RemoteReport], read: Read[Result], *, org: str | None
) -> list[Result | Exception]:
    async def together(batch: Sequence[RemoteReport]) -> list[Result | Exception]:
        return await _record(db, batch, read, org=org)

    async def alone(report: RemoteReport, error: Exception) -> list[Result | Exception]:
        return await _record_alone(db, report, read, error, org=org)

    return [answer for answers in await split_batch(reports, together, alone) for answer in answers]


async def _record_alone(
    db: Database, report: RemoteReport, read: Read[Result], error: Exception, *, org: str | None
) -> list[Result | Exception]:
    """Record a report that failed by itself.

    If its run is the cause, the report is recorded and the run set aside; if the outcome cannot be stored, return that
    error as the answer.
    """
    try:
        return await _record(db, [report], read, org=org, unsettled=error)
    except Unavailable:
        raise
    except (*UNSTORABLE, Invalid) as unstorable:
        return [Invalid(f"the report cannot be stored: {unstorable}", field="result")]
    except Exception as defect:
        await quarantine.set_aside(db, Kind.JOB, report.job, defect)
        return [defect]


async def _record(
    db: Database,
    reports: Sequence[RemoteReport],
    read: Read[Result],
    *,
    org: str | None,
    unsettled: Exception | None = None,
) -> list[Result | Exception]:
    """Record reports; lock order: runs before jobs.

    `org`: jobs of other orgs are not found; None: all orgs. `unsettled`: why the run of the only report cannot be
    advanced now; the end of its job is recorded without advancing it.
    """
    ids = sorted({report.job for report in reports})
    async with db.begin() as conn:
        touched = await store.runs_of(conn, ids, org=org)  # reads without a lock: runs are locked before jobs
        locked_runs = await runs.lock(conn, touched) if touched and unsettled is None else []
        locked = await store.lock(conn, ids, org=org)
        judged = _judge(reports, locked)
        accepted = [report for report in judged if not isinstance(report, WindlassError)]
        if not accepted:
            return [error for error in judged if isinstance(error, WindlassError)]
        holders = {report.job.id: locked[report.job.id].holder or "" for report in accepted}
        recording = turn.Turn(worker=ACTOR, lease=timedelta(), reports=accepted, holders=holders)
        states, wakeups = await turn.record(conn, db, recording, locked_runs)
        if unsettled is not None:
            await steps.unsettle(conn, ids)
        results = await read(conn, accepted, states)
    wakeups.poke(db)
    if db.allowances.limited:  # the end of a job makes room for another one of its org
        db.poke(*{report.job.queue for report in accepted if quota.limits_claims(db, report.job.org)})
    if unsettled is not None and touched:
        await quarantine.set_aside(db, Kind.RUN, touched[0], unsettled)
    if wakeups.unsettled:
        await sweep.follow(db, touched)
    for report in accepted:
        if isinstance(report, Setback) and report.move is JobMove.RELEASE:
            db.poke(report.job.queue)
        elif isinstance(report, Setback) and report.move is JobMove.RETRY:
            db.poke("timer")
    return [report if isinstance(report, WindlassError) else results[report.job.id] for report in judged]


def _judge(reports: Sequence[RemoteReport], locked: Mapping[UUID, LockedJob]) -> list[Report | WindlassError]:
    """Return what each report does to its job, or why it is refused; of two reports on one job the first counts."""
    judged: list[Report | WindlassError] = []
    seen: set[UUID] = set()
    for report in reports:
        row = locked.get(report.job)
        if row is None:
            judged.append(NotFound("job", report.job))
        elif (refusal := _refusal(report, row, again=report.job in seen)) is not None:
            judged.append(refusal)
        else:
            seen.add(report.job)
            judged.append(_report(row, report.outcome))
    return judged


def _refusal(report: RemoteReport, row: LockedJob, *, again: bool) -> Conflict | None:
    if row.status != "leased" or again:
        return Conflict(f"job {report.job} is {row.status}: only a job that is being worked on can be reported on")
    if report.worker is not None and report.worker != row.holder:
        return Conflict(f"job {report.job} is held by another worker: {owner(report.worker)[1]!r} lost its lease")
    if report.fence is not None and report.fence != row.job.claim_no:
        return Conflict(f"job {report.job} was claimed again since")
    return None


def _report(row: LockedJob, outcome: Outcome) -> Report:
    if row.cancel_requested and isinstance(outcome, Failed) and outcome.error.get("code") == CANCELLED:
        outcome = Cancelled()
    report = after(row.job, outcome, None, random.random())
    if isinstance(report, Setback) and report.move is JobMove.RETRY and report.error is not None:
        return replace(
            report, error={**report.error, "retry_delay_ms": round(report.delay / timedelta(milliseconds=1))}
        )
    return report
