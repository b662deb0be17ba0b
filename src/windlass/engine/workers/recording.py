"""Records the reports of workers and advances their runs.

`record` writes a whole batch in the caller's transaction. If that fails, `record_apart` splits the batch until each
report that cannot be recorded is alone. Its outcome is still recorded if it can be stored, without advancing its run;
the run is set aside and settled later. Only an outcome that cannot be stored at all is recorded as a failure.
"""

import logging
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property, partial
from uuid import UUID

from windlass.core.jobs.job import JobMove, Report, Setback, Success, Suspension
from windlass.core.json_value import plain
from windlass.core.runs.event import ended_jobs, ended_letter
from windlass.core.runs.run import Letter, Reason
from windlass.engine import quarantine
from windlass.engine.database import Database
from windlass.engine.faults import point
from windlass.engine.quarantine import Kind, split_batch
from windlass.engine.runs.settle import Wakeups, settle
from windlass.errors import Locked, Unavailable
from windlass.store import checkpoints, events, jobs, runs, steps
from windlass.store.checkpoints import SuspendedJob
from windlass.store.claims import Lane
from windlass.store.events import NewLogLine
from windlass.store.messages import waiters
from windlass.store.messages.waiters import HandlerWait
from windlass.store.postgres.pool import Connection
from windlass.store.runs import LockedRun

_log = logging.getLogger("windlass.work")


@dataclass(frozen=True, kw_only=True)
class Turn:
    """Reports and log lines to record, and lanes to claim from."""

    worker: str
    lease: timedelta
    worker_lease: int | None = None  # id of the worker's lease; without one each job gets a lease of its own
    reports: Sequence[Report] = ()
    lines: Sequence[NewLogLine] = ()
    lanes: Sequence[tuple[Lane, int]] = ()
    count: int = 0
    holders: Mapping[UUID, str] | None = None  # of the reported jobs; None: `worker` holds them all
    claim_failed: Callable[[], None] | None = None  # called if jobs may have been claimed that `turn` does not return
    no_room: Callable[[str, bool], None] | None = None  # called with an org at its limit; True: another claim locks it
    locked: Callable[[Report], None] | None = None  # called with reports that need a row another session keeps locked

    @cached_property
    def runs(self) -> list[UUID]:
        """The ids of the runs that the reports may advance."""
        return sorted({report.job.run_id for report in self.reports if report.job.run_id is not None})

    @cached_property
    def kinds(self) -> set[type[Report]]:
        return {type(report) for report in self.reports}

    @property
    def is_single(self) -> bool:
        """Whether a single statement does all of the turn."""
        if self.runs or Suspension in self.kinds:
            return False
        return self.claims_and_records or len(self.kinds) + bool(self.lines) + bool(self.lanes and self.count) <= 1

    @property
    def claims_and_records(self) -> bool:
        """Whether the statement that claims can record the reports, too: successes of jobs that belong to no run."""
        alike = self.kinds == {Success} and not self.runs and not self.holders
        return alike and not self.lines and bool(self.lanes and self.count)


async def lock_and_record(conn: Connection, db: Database, request: Turn) -> tuple[set[UUID], Wakeups]:
    """Lock the runs, then record; return the ids of the jobs recorded. Lock order: runs before jobs."""
    held_runs = await runs.lock(conn, request.runs) if request.runs else []
    point("settle.locked")
    states, wakeups = await record(conn, db, request, held_runs)
    return set(states), wakeups


async def record(
    conn: Connection, db: Database, request: Turn, held_runs: Sequence[LockedRun]
) -> tuple[dict[UUID, str], Wakeups]:
    """Write reports and advance their runs, which are locked; return the new states of their jobs and the wakeups."""
    if request.lines:
        await events.insert_log_lines(conn, request.lines)
    states, suspended = await _finish(conn, request)
    point("settle.recorded")
    wakeups = Wakeups()
    if held_runs:
        ended = ended_jobs(_ends(request.reports, states, {run.id for run in held_runs}))
        wakeups = await settle(conn, db, held_runs, ended, actor=request.worker)
    if suspended:
        wakeups.asleep = True
        wakeups.listening |= any(
            isinstance(each, Suspension) and bool(each.outcome.messages) for each in request.reports
        )
        wakeups.queues.update(job.queue for job in suspended if job.due)
    return states, wakeups


async def _finish(conn: Connection, request: Turn) -> tuple[dict[UUID, str], Sequence[SuspendedJob]]:
    """Write the reports; return the state of each job whose report was accepted, and those that are suspended."""
    successes = [report for report in request.reports if isinstance(report, Success)]
    setbacks = [report for report in request.reports if isinstance(report, Setback)]
    suspensions = [report for report in request.reports if isinstance(report, Suspension)]
    states: dict[UUID, str] = {}
    suspended: Sequence[SuspendedJob] = ()
    if (successes and setbacks) or suspensions:  # several statements: lock all rows first, in the order of ids
        await jobs.lock(conn, (report.job.id for report in request.reports))
    if successes:
        states |= dict.fromkeys(
            await jobs.succeed(conn, successes, worker=request.worker, holders=request.holders), "succeeded"
        )
    if setbacks:
        states |= await jobs.set_back(conn, setbacks, worker=request.worker, holders=request.holders)
    if suspensions:
        suspended = await checkpoints.suspend(conn, suspensions, worker=request.worker, holders=request.holders)
        states |= {job.id: job.status for job in suspended}
        pending = {job.id for job in suspended if job.status == "pending"}
        waits = [
            (each.job.id, wait) for each in suspensions if each.job.id in pending for wait in each.outcome.messages
        ]
        if waits:
            await waiters.begin_in_handlers(conn, [HandlerWait(id_, *wait) for id_, wait in waits])
    return states, suspended


def _ends(
    reports: Sequence[Report], states: Mapping[UUID, str], known: Container[UUID]
) -> Iterator[tuple[UUID, int, Letter, Reason | None]]:
    """Yield the end of each step of a known run whose report was accepted."""
    latest = {report.job.id: report for report in sorted(reports, key=lambda report: report.job.claim_no)}
    for report in latest.values():  # of two claims of a job the fence accepts only the latest
        job, state = report.job, states.get(report.job.id, "pending")
        if job.run_id is None or job.step is None or state == "pending" or job.run_id not in known:
            continue
        error = report.error if isinstance(report, Setback) else None
        letter = ended_letter(state, error.get("type") if error else None)
        yield job.run_id, job.step, letter, Reason("failed", str(error.get("message"))) if error else None


async def record_apart(db: Database, request: Turn) -> set[UUID]:
    """Record as much as possible of a batch that failed as a whole; return the ids of the jobs recorded."""

    async def together(items: Sequence[Report | NewLogLine]) -> set[UUID]:
        return await _record(db, _part(request, items))

    async def alone(item: Report | NewLogLine, error: Exception) -> set[UUID]:
        if isinstance(error, Locked):
            return _keep(request, item, error)
        if isinstance(item, Report):
            return await _record_culprit(db, _part(request, [item]), item, error)
        _log.error("a log line was dropped: %s", plain(str(error)))
        return set()

    items: list[Report | NewLogLine] = [*request.reports, *request.lines]
    return {id_ for recorded in await split_batch(items, together, alone) for id_ in recorded}


def _keep(request: Turn, item: Report | NewLogLine, error: Locked) -> set[UUID]:
    """Hand a report that needs a row locked by another session back to the worker, which tries again later."""
    if request.locked is None:
        raise error
    if isinstance(item, Report):
        request.locked(item)
    return set()


def _part(request: Turn, items: Sequence[Report | NewLogLine]) -> Turn:
    """Return the turn with only these reports and lines, and no claim."""
    reports = [item for item in items if isinstance(item, Report)]
    lines = [item for item in items if not isinstance(item, Report)]
    return replace(request, reports=reports, lines=lines, lanes=(), count=0)


async def _record(db: Database, request: Turn) -> set[UUID]:
    async with db.begin() as conn:
        recorded, wakeups = await lock_and_record(conn, db, request)
    wakeups.poke(db)
    return recorded


async def _record_culprit(db: Database, request: Turn, report: Report, error: Exception) -> set[UUID]:
    """Record a report that failed even in a batch of its own.

    The usual cause is its run: the next step cannot be evaluated or written. Then the outcome is recorded and the run
    set aside: the job did its work and must not fail because of a later step. If the outcome itself cannot be stored,
    the job fails with that as the reason.
    """
    text = {"type": type(error).__name__, "message": f"the outcome could not be stored: {str(error)!a}"}
    failed = replace(request, reports=[Setback(report.job, JobMove.FAIL, text, timedelta())])
    ways = [partial(_record, db, failed), partial(_record_unsettled, db, failed, error)]
    if report.job.run_id is not None:
        ways.insert(0, partial(_record_unsettled, db, request, error))
    for record_ in ways:
        try:
            return await record_()
        except Unavailable:
            raise
        except Exception as another:
            last = another
    # Not even the failure can be recorded: the lease will expire, and the job is tried again or fails as lost.
    await quarantine.set_aside(db, Kind.JOB, report.job.id, last)
    return set()


async def _record_unsettled(db: Database, request: Turn, error: Exception) -> set[UUID]:
    """Record a step's report without advancing its run; set the run aside: its retry applies the step's end."""
    [report] = request.reports
    async with db.begin() as conn:
        states, _ = await _finish(conn, request)
        ended = [id_ for id_, state in states.items() if state != "pending"]
        await steps.unsettle(conn, ended)
    if ended and report.job.run_id is not None:
        await quarantine.set_aside(db, Kind.RUN, report.job.run_id, error)
    return set(states)
