"""Progress reports of running jobs."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from windlass.core.json_value import decode
from windlass.store.postgres.pool import Connection
from windlass.store.postgres.queries import columns, statements

_SQL = statements("progress")


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


async def report(conn: Connection, reports: Sequence[ProgressReport]) -> None:
    await conn.execute(_SQL["report"], *columns(reports))


async def say(
    conn: Connection, job: UUID, fraction: float, message: str | None, data: str | None, *, org: str
) -> datetime | None:
    """Write the progress of a job without a fence; return its time, or None if there is no such live job."""
    at: datetime | None = await conn.fetchval(_SQL["say"], job, org, fraction, message, data)
    return at


async def get(conn: Connection, job: UUID) -> Progress | None:
    row = await conn.fetchrow(_SQL["get"], job)
    return Progress(row[0], row[1], decode(row[2]), row[3]) if row else None
