"""The event trail of jobs, and the log lines of their handlers."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from windlass.core.json_value import decode_objects
from windlass.store.postgres.pool import Connection
from windlass.store.postgres.queries import column, columns, statements
from windlass.store.rows import Event, LogLine, event

_SQL = statements("events")

# job id, epoch, attempt, line number, time, level, message
Line = tuple[UUID, int, int, int, datetime, str, str]
LinePlace = tuple[int, int, int]  # epoch, attempt, line number


class NamedJob(NamedTuple):
    alias: str | None  # the client's id
    errors: list[dict[str, Any]]


async def of_job(conn: Connection, job: UUID, *, after: int = 0, limit: int = 1000) -> list[Event]:
    return [event(row) for row in await conn.fetch(_SQL["of_job"], job, limit, after)]


async def insert_lines(conn: Connection, lines: Sequence[Line]) -> None:
    await conn.execute(_SQL["insert_lines"], *columns(lines))


async def lines(
    conn: Connection, job: UUID, *, attempt: int | None = None, after: LinePlace = (-1, 0, 0), limit: int | None = None
) -> list[LogLine]:
    return [LogLine(*row) for row in await conn.fetch(_SQL["lines"], job, attempt, *after, limit)]


async def make_partition(conn: Connection, *, week: int) -> str | None:
    """Create the partition of this week (0) or of a later one; return its name, or None if it existed."""
    name: str | None = await conn.fetchval(_SQL["make_partition"], week)
    return name


async def old_partitions(conn: Connection, *, age: timedelta) -> list[str]:
    """Return the weekly partitions that may be dropped."""
    return column(await conn.fetch(_SQL["old_partitions"], age))


async def drop_partition(conn: Connection, name: str) -> None:
    """Drop a weekly partition. DETACH CONCURRENTLY is not possible with a default partition, so this locks the whole
    event trail."""
    await conn.execute(f'drop table workflow."{name}"')


async def recent(conn: Connection, lines: int) -> int:
    """Return the id of the transaction that wrote the `lines`-th latest event; 0 if there are fewer events."""
    return int(await conn.fetchval(_SQL["recent"], lines))


async def named(conn: Connection, jobs: Sequence[UUID]) -> dict[UUID, NamedJob]:
    """Return the client's ids and the errors of these jobs; jobs without either are omitted."""
    return {row[0]: NamedJob(row[1], decode_objects(row[2])) for row in await conn.fetch(_SQL["named"], list(jobs))}


async def began(conn: Connection, jobs: Sequence[UUID]) -> dict[tuple[UUID, int | None], datetime]:
    """Return the start times of attempts, by job and attempt number."""
    return {(row[0], row[1]): row[2] for row in await conn.fetch(_SQL["began"], list(jobs))}
