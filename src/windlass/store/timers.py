"""Timers of sleeping steps."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from windlass.store.postgres.pool import Connection
from windlass.store.postgres.queries import column, columns, statements

_SQL = statements("timers")

StepRef = tuple[UUID, int]  # run id, step number


async def insert(conn: Connection, rows: Sequence[tuple[UUID, int, datetime]]) -> None:
    await conn.execute(_SQL["insert"], *columns(rows))


async def delete(conn: Connection, places: Sequence[StepRef]) -> list[StepRef]:
    """Delete timers; return those that existed."""
    return [(row[0], row[1]) for row in await conn.fetch(_SQL["delete"], *columns(places))]


async def find_due(conn: Connection, batch: int) -> list[UUID]:
    return column(await conn.fetch(_SQL["find_due"], batch))


async def take_due(conn: Connection, runs: Sequence[UUID]) -> list[StepRef]:
    return [(row[0], row[1]) for row in await conn.fetch(_SQL["take_due"], list(runs))]


async def next_due(conn: Connection) -> tuple[timedelta | None, timedelta | None, timedelta | None]:
    """Return the time until the next job becomes due, sleep ends and run expires; None where there is none."""
    row = await conn.fetchrow(_SQL["next_due"])
    assert row is not None
    return row[0], row[1], row[2]
