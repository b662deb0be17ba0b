"""The audit trail of jobs, and the lines their handlers logged."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from windlass.core.json_value import decode_objects
from windlass.store.postgres.pool import Connection
from windlass.store.postgres.queries import load
from windlass.store.rows import Event, LogLine, event

_SQL = {name: query.sql for name, query in load("events").items()}

# job id, epoch, attempt, line number, time, level, message
Line = tuple[UUID, int, int, int, datetime, str, str]
LinePlace = tuple[int, int, int]  # epoch, attempt, line number


class NamedJob(NamedTuple):
    alias: str | None  # what its client calls it
    errors: list[dict[str, Any]]


async def of_job(conn: Connection, job: UUID, *, after: int = 0, limit: int = 1000) -> list[Event]:
    return [event(row) for row in await conn.fetch(_SQL["of_job"], job, limit, after)]


async def insert_lines(conn: Connection, lines: Sequence[Line]) -> None:
    await conn.execute(_SQL["insert_lines"], *[list(column) for column in zip(*lines, strict=True)])


async def lines(
    conn: Connection, job: UUID, *, attempt: int | None = None, after: LinePlace = (-1, 0, 0), limit: int | None = None
) -> list[LogLine]:
    return [LogLine(*row) for row in await conn.fetch(_SQL["lines"], job, attempt, *after, limit)]


async def make_partition(conn: Connection, *, week: int) -> str | None:
    """Make the partition of this week (0) or of a later one; None if it was there."""
    name: str | None = await conn.fetchval(_SQL["make_partition"], week)
    return name


async def old_partitions(conn: Connection, *, age: timedelta) -> list[str]:
    """Weeks that nobody needs any more."""
    return [row[0] for row in await conn.fetch(_SQL["old_partitions"], age)]


async def drop_partition(conn: Connection, name: str) -> None:
    """Remove a week. Postgres has no DETACH CONCURRENTLY beside a default partition, so this locks the whole trail."""
    await conn.execute(f'drop table workflow."{name}"')


async def recent(conn: Connection, lines: int) -> int:
    """The number of a transaction that wrote a while ago."""
    return int(await conn.fetchval(_SQL["recent"], lines))


async def named(conn: Connection, jobs: Sequence[UUID]) -> dict[UUID, NamedJob]:
    """What there is to say of these jobs beside their trail; those of which there is nothing are left out."""
    return {row[0]: NamedJob(row[1], decode_objects(row[2])) for row in await conn.fetch(_SQL["named"], list(jobs))}


async def began(conn: Connection, jobs: Sequence[UUID]) -> dict[tuple[UUID, int | None], datetime]:
    """By job and number of the attempt."""
    return {(row[0], row[1]): row[2] for row in await conn.fetch(_SQL["began"], list(jobs))}
