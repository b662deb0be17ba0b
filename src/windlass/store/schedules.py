"""The public schedule table."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from windlass.store.pool import Connection
from windlass.store.queries import load

_SQL = {name: query.sql for name, query in load("schedules").items()}


@dataclass(frozen=True, slots=True)
class Due:
    id: UUID
    type: str
    schedule: str
    timezone: str
    next_run_at: datetime
    now: datetime


async def due(conn: Connection, *, batch: int) -> list[Due]:
    return [Due(*row) for row in await conn.fetch(_SQL["due"], batch)]


async def fire(conn: Connection, next_times: Mapping[UUID, datetime | None], *, actor: str) -> list[UUID]:
    """Enqueue and move on; None pauses a schedule instead. Returns the jobs that this call made."""
    rows = await conn.fetch(_SQL["fire"], list(next_times), list(next_times.values()), actor)
    return [row[0] for row in rows]


async def next_due(conn: Connection) -> timedelta | None:
    wait: timedelta | None = await conn.fetchval(_SQL["next"])
    return wait
