"""Records the reports of workers that use HTTP.

A batch of reports is one transaction, which also advances the runs. A worker need not identify itself: its report is
then attributed to the job's holder. A report that cannot be accepted is answered with its error and does not affect
the other reports.
"""

import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import NamedTuple, TypeVar
from uuid import UUID

from windlass.core.jobs.job import Cancelled, Failed, JobMove, JobState, Outcome, Report, Setback, Succeeded, after
from windlass.core.orgs import owner
from windlass.engine import quarantine
from windlass.engine.database import Database, Tenant
from windlass.engine.orgs import quota
from windlass.engine.quarantine import Kind, split_batch
from windlass.engine.runs import sweep
from windlass.engine.workers import turn
from windlass.engine.workers.remote import ACTOR
from windlass.errors import Conflict, Invalid, Locked, NotFound, Unavailable, WindlassError
from windlass.store import claims as store
from windlass.store import runs, steps
from windlass.store.claims import LockedJob
from windlass.store.jobs import Job
from windlass.store.postgres.pool import UNSTORABLE, Connection

OUT_OF_TIME = {"type": "Timeout", "code": "timeout", "message": "the attempt exceeded its timeout"}
CANCELLED = "cancelled"  # the error code of an attempt that stopped because the job was cancelled
Result = TypeVar("Result")
# Returns the result of each accepted report by job, given the new states of the jobs.
Read = Callable[[Connection, Sequence[Report], Mapping[UUID, str]], Awaitable[Mapping[UUID, Result]]]


class NewState(NamedTuple):
    """The state of a job after a report."""

    state: JobState
    delay: timedelta = timedelta()  # until a pending job is due again
    attempts: int = 0  # used up so far


SUCCEEDED = NewState(JobState.SUCCEEDED)


class RemoteReport(NamedTuple):
    """The reported outcome of an attempt. `fence`: accept it only for that claim."""

    job: UUID
    outcome: Outcome
    worker: str | None = None
    fence: int | None = None


async def record(db: Tenant, reports: Sequence[RemoteReport]) -> list[Job | Exception]:
    """Record reports; return the updated job of each report, or the error for which it was not accepted."""
    return await _record_of_org(db, reports, _rows)


async def record_batch(db: Tenant, reports: Sequence[RemoteReport]) -> list[NewState | Exception]:
    """Record reports; return the new state of each job, without reading its row again, or the error of the report.

    Successes of jobs that belong to no run need neither the row nor a decision: one statement records them. The reports
    that it leaves out, because they do not match, are judged like all others.
    """
    done = await _succeed(db, reports)
    rest = await _record_of_org(db, [report for n, report in enumerate(reports) if n not in done], _new_states)
    answers = iter(rest)
    return [SUCCEEDED if n in done else next(answers) for n in range(len(reports))]


async def _succeed(db: Tenant, reports: Sequence[RemoteReport]) -> set[int]:
    """Record the successes of jobs without a run that their worker still holds; return the indexes of the reports."""
    first: dict[UUID, int] = {}  # of two reports on one job the first counts
    for n, report in enumerate(reports):
        first.setdefault(report.job, n)
    worker = reports[0].worker if reports else None
    if worker is None or not all(
        isinstance(report.outcome, Succeeded) and report.worker == worker for report in reports
    ):
        return set()
    successes = [
        (report.job, report.fence, report.outcome.result)
        for report in sorted((reports[n] for n in first.values()), key=lambda report: report.job)
        if isinstance(report.outcome, Succeeded)
    ]
    try:
        async with db.once() as conn:
            queues = await store.succeed(conn, successes, worker=db.stored(worker), org=db.org, label=db.label)
    except Exception as error:  # a result cannot be stored, or a row is locked: splitting the batch will find it
        if isinstance(error, Unavailable) and not isinstance(error, Locked):
            raise
        return set()
    if db.allowances.limited:  # a job that ended frees capacity for another of its org
        db.poke(*(queue for queue in set(queues.values()) if quota.limits_claims(db, db.org)))
    return {first[id_] for id_ in queues}


async def _record_of_org(db: Tenant, reports: Sequence[RemoteReport], read: Read[Result]) -> list[Result | Exception]:
    named = [report._replace(worker=report.worker and db.stored(report.worker)) for report in reports]
    if db.label is None:
        return await _record_all(db, named, read, org=db.org)
    async with db.once() as conn:  # jobs of another label are refused as if they did not exist
        others = await store.unlabelled(conn, [each.job for each in named], db.label)
    answers = iter(await _record_all(db, [each for each in named if each.job not in others], read, org=db.org))
    return [NotFound("job", each.job) if each.job in others else next(answers) for each in named]


async def end_overdue(db: Database, *, batch: int = 500) -> int:
    """Fail the attempts, of all orgs, that exceeded their timeout and were not reported; return their number."""
    async with db.once() as conn:
        overdue = await store.overdue(conn, batch)
    reports = [RemoteReport(id_, Failed(OUT_OF_TIME), fence=claim_no) for id_, claim_no in overdue]
    return sum(isinstance(answer, NewState) for answer in await _record_all(db, reports, _new_states, org=None))


async def _rows(conn: Connection, accepted: Sequence[Report], _states: Mapping[UUID, str]) -> dict[UUID, Job]:
    return await store.read(conn, [report.job.id for report in accepted])


async def _new_states(_: Connection, accepted: Sequence[Report], states: Mapping[UUID, str]) -> dict[UUID, NewState]:
    return {report.job.id: _new_state(report, JobState(states[report.job.id])) for report in accepted}


def _new_state(report: Report, state: JobState) -> NewState:
    if state is not JobState.PENDING or not isinstance(report, Setback):
        return NewState(state)
    return NewState(state, report.delay, report.job.attempt + report.job.lost + (report.move is JobMove.RETRY))


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
    """Record a report that failed even in a batch of its own.

    If its run is the cause, record the report and set the run aside; if the outcome cannot be stored, return that error
    as the answer.
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

    `org`: jobs of other orgs are not found; None: all orgs. `unsettled`: the error for which the run of the only report
    cannot be advanced now; the end of its job is recorded without advancing the run.
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
    if db.allowances.limited:  # a job that ended frees capacity for another of its org
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
    """Return the change that each report makes to its job, or its refusal; of two reports on a job the first counts."""
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
        return Conflict(f"job {report.job} is {row.status}: only leased jobs can be reported on")
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
