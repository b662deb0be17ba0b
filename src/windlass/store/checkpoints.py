"""Data that outlives an attempt: a worker's saved state, the results of a handler's finished steps, and the latest
progress report."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

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
    conn: Connection, job: UUID, state: str, *, org: str, worker: str | None = None
) -> tuple[int, datetime] | None:
    """Save a checkpoint; return its sequence and time, or None if there is no such live job or this worker does not
    hold it."""
    row = await conn.fetchrow(_SQL["save"], job, org, state, worker)
    return (row[0], row[1]) if row else None


async def get(conn: Connection, job: UUID) -> Checkpoint | None:
    row = await conn.fetchrow(_SQL["get"], job)
    return Checkpoint(decode(row[0]), row[1], row[2]) if row else None


async def of_jobs(conn: Connection, jobs: Sequence[UUID]) -> dict[UUID, Checkpoint]:
    rows = await conn.fetch(_SQL["of_jobs"], list(jobs))
    return {row[0]: Checkpoint(decode(row[1]), row[2], row[3]) for row in rows}


async def remove(conn: Connection, job: UUID) -> None:
    await conn.execute(_SQL["remove"], job)


async def steps(conn: Connection, job: UUID) -> dict[str, Any]:
    return {row[0]: decode(row[1]) for row in await conn.fetch(_SQL["steps"], job)}


async def save_step(conn: Connection, job: UUID, fence: int, name: str, result: str) -> bool:
    """Save a step's result; return False if this attempt no longer holds the job."""
    return await conn.fetchval(_SQL["save_step"], job, fence, name, result) is True


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
    conn: Connection, job: UUID, fraction: float, message: str | None, data: str | None, *, org: str
) -> datetime | None:
    """Write the progress of a job without a fence; return its time, or None if there is no such live job."""
    at: datetime | None = await conn.fetchval(_PROGRESS["record"], job, org, fraction, message, data)
    return at


async def get_progress(conn: Connection, job: UUID) -> Progress | None:
    row = await conn.fetchrow(_PROGRESS["get"], job)
    return Progress(row[0], row[1], decode(row[2]), row[3]) if row else None
