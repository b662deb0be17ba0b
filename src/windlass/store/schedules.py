"""The public schedule table."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from windlass.core.document import decode
from windlass.store.pool import Connection
from windlass.store.queries import load

_SQL = {name: query.sql for name, query in load("schedules").items()}
FIRST = ("", UUID(int=0))


@dataclass(frozen=True, slots=True)
class Due:
    id: UUID
    type: str
    schedule: str
    timezone: str
    next_run_at: datetime
    now: datetime


@dataclass(frozen=True, slots=True)
class JobScheduleRow:
    """A schedule of plain SQL, as people read it."""

    id: UUID
    type: str
    payload: Any
    schedule: str
    timezone: str
    next_run_at: datetime
    last_run_at: datetime | None
    enabled: bool


async def due(conn: Connection, *, batch: int) -> list[Due]:
    return [Due(*row) for row in await conn.fetch(_SQL["due"], batch)]


async def fire(conn: Connection, next_times: Mapping[UUID, datetime | None], *, actor: str) -> list[UUID]:
    """Enqueue and move on; None pauses a schedule instead. Returns the jobs that this call made."""
    rows = await conn.fetch(_SQL["fire"], list(next_times), list(next_times.values()), actor)
    return [row[0] for row in rows]


async def list_(conn: Connection, *, limit: int, after: tuple[str, UUID] = FIRST) -> list[JobScheduleRow]:
    rows = await conn.fetch(_SQL["list"], limit, *after)
    return [JobScheduleRow(**{**row, "payload": decode(row["payload"])}) for row in rows]
