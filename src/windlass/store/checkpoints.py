"""Data that outlives an attempt: a worker's saved state, the results of a handler's finished steps, and the latest
progress report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from windlass.core.explain.snapshot import HandlerWait
from windlass.core.jobs.job import Suspension
from windlass.core.jobs.replay import NewRecord, Recorded
from windlass.core.json_value import decode
from windlass.store.postgres.pool import Connection
from windlass.store.postgres.queries import columns, statements

_SQL = statements("checkpoints")
_PROGRESS = statements("progress")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    state: Any
    sequence: int
    saved_at: datetime


async def save(
    conn: Connection, job: UUID, state: str, *, org: str, worker: str | None = None, fence: int | None = None
) -> tuple[int, datetime] | None:
    """Save a checkpoint; return its sequence and time, or None if there is no such live job or this worker does not
    hold it under this fence."""
    row = await conn.fetchrow(_SQL["save"], job, org, state, worker, fence)
    return (row[0], row[1]) if row else None


async def get(conn: Connection, job: UUID) -> Checkpoint | None:
    row = await conn.fetchrow(_SQL["get"], job)
    return Checkpoint(decode(row[0]), row[1], row[2]) if row else None


@dataclass(slots=True)
class Resumption:
    """The saved state and the latest wait of a job, from which its next attempt continues."""

    checkpoint: Checkpoint | None = None
    wait: "EndedWait | None" = None  # the end of the wait with which a worker has suspended the job
    open: str | None = None  # the name of that wait, if it has not ended


async def of_jobs(conn: Connection, jobs: Sequence[UUID]) -> dict[UUID, Resumption]:
    """Return the saved states of these jobs and their latest waits; jobs without either are left out."""
    resumed: dict[UUID, Resumption] = {}
    for job, name, state, sequence, saved_at, waits, timed_out in await conn.fetch(_SQL["of_jobs"], list(jobs)):
        row = resumed.setdefault(job, Resumption())
        if name == "":
            row.checkpoint = Checkpoint(decode(state), sequence, saved_at)
        elif row.wait is None and row.open is None:
            row.open = name if waits else None
            row.wait = None if waits else EndedWait(decode(state), timed_out)
    return resumed


async def remove(conn: Connection, job: UUID) -> None:
    await conn.execute(_SQL["remove"], job)


async def recorded(conn: Connection, jobs: Sequence[UUID]) -> dict[UUID, list[Recorded]]:
    """Return the recorded calls of handlers, in order, by job; jobs without recorded calls are left out."""
    calls: dict[UUID, list[Recorded]] = {}
    for job, name, kind, place, state, waits, over in await conn.fetch(_SQL["recorded"], list(jobs)):
        calls.setdefault(job, []).append(Recorded(name, kind, place, decode(state), waits, over))
    return calls


async def record(conn: Connection, job: UUID, fence: int, records: Sequence[NewRecord]) -> bool:
    """Record calls of a handler; return False if this attempt no longer holds the job."""
    return await conn.fetchval(_SQL["record"], job, fence, *columns(records)) is True


async def record_steps(
    conn: Connection, job: UUID, steps: Mapping[str, str], *, org: str, worker: str, fence: int
) -> bool:
    """Record the results of steps, JSON by name; return False if this worker no longer holds the job."""
    arguments = job, org, worker, fence, list(steps), list(steps.values())
    return await conn.fetchval(_SQL["record_steps"], *arguments) is True


class SuspendedJob(NamedTuple):
    """A job whose suspension was recorded."""

    id: UUID
    status: str
    queue: str  # its stored name
    due: bool  # a wait of its handler has already ended


async def suspend(
    conn: Connection, reports: Sequence[Suspension], *, worker: str, holders: Mapping[UUID, str] | None = None
) -> list[SuspendedJob]:
    """Suspend jobs whose handlers wait, fenced; return the recorded ones. The caller has locked the jobs."""
    jobs = [(report.job.id, report.job.claim_no, holders[report.job.id] if holders else None) for report in reports]
    records = [(report.job.id, *record) for report in reports for record in report.outcome.records]
    waits = [(report.job.id, name) for report in reports for name in report.outcome.waits]
    rows = await conn.fetch(
        _SQL["suspend"],
        *columns(jobs),
        worker,
        *(columns(records) if records else [[] for _ in range(len(NewRecord._fields) + 1)]),
        *(columns(waits) if waits else ([], [])),
    )
    return [SuspendedJob(*row) for row in rows]


class TimelineStep(NamedTuple):
    """A recorded call of a handler, as it is displayed."""

    name: str
    kind: str
    status: str  # done, waiting or timed_out
    result: Any
    is_large: bool  # the result is left out
    saved_at: datetime
    until: datetime | None  # when a wait ends
    run_id: str | None
    message: str | None  # the name of the message that it waits for
    key: str | None
    is_signal: bool | None


async def timeline(conn: Connection, job: UUID, *, limit: int, skip: int) -> list[TimelineStep]:
    rows = [TimelineStep(*row) for row in await conn.fetch(_SQL["timeline"], job, limit, skip)]
    return [row._replace(result=decode(row.result)) for row in rows]


async def waits(conn: Connection, jobs: Sequence[UUID]) -> dict[UUID, HandlerWait]:
    """Return the call in which the handler of each job waits; jobs whose handlers do not wait are left out."""
    return {row[0]: HandlerWait(*tuple(row)[1:]) for row in await conn.fetch(_SQL["waits"], list(jobs))}


async def hold(conn: Connection, job: UUID, fence: int) -> bool:
    """Lock a job; return False if this attempt no longer holds it."""
    return await conn.fetchval(_SQL["hold"], job, fence) is True


class EndedWait(NamedTuple):
    payload: Any
    timed_out: bool


async def end_wait(conn: Connection, job: UUID, name: str, payload: str | None) -> EndedWait:
    """End the wait of a call, with a payload or by timeout; return how it ended.

    A wait that has already ended is not changed.
    """
    await conn.execute(_SQL["end_wait"], job, name, payload)
    row = await conn.fetchrow(_SQL["ended_wait"], job, name)
    return EndedWait(decode(row[0]), row[1]) if row is not None else EndedWait(None, timed_out=True)


@dataclass(frozen=True, slots=True)
class Progress:
    fraction: float
    message: str | None
    data: Any
    updated_at: datetime


class ProgressReport(NamedTuple):
    """A progress report of an attempt; `data` is JSON."""

    job: UUID
    fence: int
    fraction: float
    message: str | None
    data: str | None


async def report_progress(conn: Connection, reports: Sequence[ProgressReport]) -> None:
    await conn.execute(_PROGRESS["report"], *columns(reports))


async def record_progress(
    conn: Connection,
    job: UUID,
    fraction: float,
    message: str | None,
    data: str | None,
    *,
    org: str,
    worker: str | None = None,
    fence: int | None = None,
) -> datetime | None:
    """Write the progress of a job; return its time, or None if there is no such live job, or if `worker` or `fence` is
    given and does not hold it."""
    arguments = job, org, fraction, message, data, worker, fence
    at: datetime | None = await conn.fetchval(_PROGRESS["record"], *arguments)
    return at


async def get_progress(conn: Connection, job: UUID) -> Progress | None:
    row = await conn.fetchrow(_PROGRESS["get"], job)
    return Progress(row[0], row[1], decode(row[2]), row[3]) if row else None
