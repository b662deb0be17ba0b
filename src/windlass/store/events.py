"""The audit trail of jobs, and the lines their handlers logged."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from windlass.store.pool import Connection
from windlass.store.queries import load
from windlass.store.rows import Event, LogLine, event

_SQL = {name: query.sql for name, query in load("events").items()}

# job id, epoch, attempt, line number, time, level, message
Line = tuple[UUID, int, int, int, datetime, str, str]


async def of_job(conn: Connection, job: UUID, *, limit: int = 1000) -> list[Event]:
    return [event(row) for row in await conn.fetch(_SQL["of_job"], job, limit)]


async def insert_lines(conn: Connection, lines: Sequence[Line]) -> None:
    await conn.execute(_SQL["insert_lines"], *[list(column) for column in zip(*lines, strict=True)])


async def lines(conn: Connection, job: UUID, *, attempt: int | None = None) -> list[LogLine]:
    return [LogLine(*row) for row in await conn.fetch(_SQL["lines"], job, attempt)]


async def make_partitions(conn: Connection) -> list[str]:
    return [row[0] for row in await conn.fetch(_SQL["make_partitions"]) if row[0]]


async def drop_partitions(conn: Connection, *, age: timedelta) -> list[str]:
    names = [row[0] for row in await conn.fetch(_SQL["old_partitions"], age)]
    for name in names:
        await conn.execute(f'drop table workflow."{name}"')
    return names
