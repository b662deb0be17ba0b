"""Records the reports of workers that use HTTP. A batch is one transaction, which also advances the runs.

Such a worker may not identify itself: then the report is attributed to the job's holder. A report that cannot be
accepted is answered with its error and does not affect the others.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from uuid import UUID

from windlass.core.jobs.job import Failed, JobMove, Outcome, Report, Setback, after
from windlass.engine import quarantine
from windlass.engine.database import Database
from windlass.engine.quarantine import Kind, split_batch
from windlass.engine.runs import sweep
from windlass.engine.workers import turn
from windlass.errors import Conflict, Invalid, NotFound, Unavailable, WindlassError
from windlass.store import claims, runs, steps
from windlass.store.claims import HeldJob
from windlass.store.postgres.pool import UNSTORABLE
from windlass.store.rows import Job

ACTOR = "http"
OUT_OF_TIME = {"type": "Timeout", "code": "timeout", "message": "the attempt ran out of time"}


@dataclass(frozen=True, slots=True)
class Told:
    """The reported outcome of an attempt. `fence`: accept it only for that claim."""

    job: UUID
    outcome: Outcome
    worker: str | None = None
    fence: int | None = None


Answer = Job | Exception


async def record(db: Database, told: Sequence[Told]) -> list[Answer]:
    """Return the jobs as they are now, or why a report was not accepted."""
    return await _record_all(db, told, org=db.org)


async def end_overdue(db: Database, *, batch: int = 500) -> int:
    """Fail attempts that ran out of time and were not reported, of all orgs; return their number."""
    async with db.once() as conn:
        found = await claims.overdue(conn, batch)
    told = [Told(id_, Failed(OUT_OF_TIME), fence=no) for id_, no in found]
    answers = await _record_all(db, told, org=None) if told else []
    return sum(isinstance(answer, Job) for answer in answers)


async def _record_all(db: Database, told: Sequence[Told], *, org: str | None) -> list[Answer]:
    async def together(some: Sequence[Told]) -> list[Answer]:
        return await _record(db, some, org=org)

    async def alone(one: Told, error: Exception) -> list[Answer]:
        return await _record_alone(db, one, error, org=org)

    return [answer for part in await split_batch(told, together, alone) for answer in part]


async def _record_alone(db: Database, one: Told, error: Exception, *, org: str | None) -> list[Answer]:
    """Record a report that failed by itself.

    If its run is the cause, the report is recorded and the run set aside; if the outcome cannot be stored, return that
    error as the answer.
    """
    try:
        return await _record(db, [one], org=org, unsettled=error)
    except Unavailable:
        raise
    except (*UNSTORABLE, Invalid) as unstorable:
        return [Invalid(f"the report cannot be stored: {unstorable}", field="result")]
    except Exception as defect:
        await quarantine.set_aside(db, Kind.JOB, one.job, defect)
        return [defect]


async def _record(
    db: Database, told: Sequence[Told], *, org: str | None, unsettled: Exception | None = None
) -> list[Answer]:
    """Record reports; lock order: runs before jobs.

    `org`: jobs of other orgs are not found; None: all orgs. `unsettled`: why the run of the only report cannot be
    advanced now; the end of its job is recorded without advancing it.
    """
    ids = sorted({one.job for one in told})
    async with db.begin() as conn:
        touched = await claims.runs_of(conn, ids)  # reads without a lock: runs are locked before jobs
        held_runs = await runs.lock(conn, touched) if touched and unsettled is None else []
        held = await claims.hold(conn, ids, org=org)
        judged = _judge(told, held)
        reports = [report for report in judged if not isinstance(report, WindlassError)]
        if not reports:
            return [report for report in judged if isinstance(report, WindlassError)]
        holders = {report.job.id: held[report.job.id].holder or "" for report in reports}
        wish = turn.Turn(worker=ACTOR, lease=timedelta(), reports=reports, holders=holders)
        _, wakeups = await turn.record(conn, db, wish, held_runs)
        if unsettled is not None:
            await steps.unsettle(conn, ids)
        found = await claims.read(conn, [report.job.id for report in reports])
    wakeups.poke(db)
    if unsettled is not None and touched:
        await quarantine.set_aside(db, Kind.RUN, touched[0], unsettled)
    if wakeups.strays:
        await sweep.follow(db, touched)
    for report in reports:
        if isinstance(report, Setback) and report.move is JobMove.RELEASE:
            db.poke(report.job.queue)
        elif isinstance(report, Setback) and report.move is JobMove.RETRY:
            db.poke("timer")
    return [report if isinstance(report, WindlassError) else found[report.job.id] for report in judged]


def _judge(told: Sequence[Told], held: dict[UUID, HeldJob]) -> list[Report | WindlassError]:
    """Return what each report does to its job, or why it is refused; of two reports on one job the first counts."""
    judged: list[Report | WindlassError] = []
    seen: set[UUID] = set()
    for one in told:
        found = held.get(one.job)
        refused = NotFound("job", one.job) if found is None else _refusal(one, found, one.job in seen)
        if refused is None and found is not None:
            seen.add(one.job)
            judged.append(_report(found, one.outcome))
        else:
            assert refused is not None
            judged.append(refused)
    return judged


def _refusal(one: Told, found: HeldJob, again: bool) -> Conflict | None:
    if found.status != "leased" or again:
        return Conflict(f"job {one.job} is {found.status}: only a job that is being worked on can be reported on")
    if one.worker is not None and one.worker != found.holder:
        return Conflict(f"job {one.job} is held by another worker: {one.worker!r} lost its lease")
    if one.fence is not None and one.fence != found.job.claim_no:
        return Conflict(f"job {one.job} was claimed again since")
    return None


def _report(found: HeldJob, outcome: Outcome) -> Report:
    report = after(found.job, outcome, None, random.random())
    if isinstance(report, Setback) and report.move is JobMove.RETRY and report.error is not None:
        return replace(
            report, error={**report.error, "retry_delay_ms": round(report.delay / timedelta(milliseconds=1))}
        )
    return report
