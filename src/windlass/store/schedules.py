"""Statements on the public schedule table, whose rows are written by plain SQL."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from windlass.core.json_value import decode
from windlass.store.postgres.pool import Connection
from windlass.store.postgres.queries import column, statements

_SQL = statements("schedules")
FIRST = ("", UUID(int=0))


@dataclass(frozen=True, slots=True)
class Due:
    id: UUID
    type: str
    schedule: str
    timezone: str
    now: datetime


@dataclass(frozen=True, slots=True)
class JobScheduleRow:
    """A schedule created by plain SQL, as it is displayed."""

    id: UUID
    type: str
    payload: Any
    schedule: str
    timezone: str
    next_run_at: datetime
    last_run_at: datetime | None
    enabled: bool


async def find_due(conn: Connection, *, batch: int) -> list[UUID]:
    return column(await conn.fetch(_SQL["find_due"], batch))


async def lock_due(conn: Connection, ids: Sequence[UUID]) -> list[Due]:
    """Lock and return those of these schedules that are due and that no other session has locked."""
    return [Due(*row) for row in await conn.fetch(_SQL["lock_due"], ids)]


async def fire(conn: Connection, next_times: Mapping[UUID, datetime | None], *, actor: str) -> list[UUID]:
    """Enqueue the jobs of schedules and set their next times; None pauses a schedule instead. Return the new jobs."""
    rows = await conn.fetch(_SQL["fire"], list(next_times), list(next_times.values()), actor)
    return column(rows)


async def list_(conn: Connection, *, limit: int, after: tuple[str, UUID] = FIRST) -> list[JobScheduleRow]:
    rows = await conn.fetch(_SQL["list"], limit, *after)
    return [JobScheduleRow(**{**row, "payload": decode(row["payload"])}) for row in rows]
