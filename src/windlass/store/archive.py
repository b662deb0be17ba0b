"""Statements on the archive: tables of ended jobs and runs, one pair for each week, read through the inbox and the
table of runs."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

import asyncpg

from windlass.store.postgres.pool import Connection
from windlass.store.postgres.queries import column, statements

_SQL = statements("archive")
MOST_MOVED = 20_000  # jobs that one statement moves with their runs: about half a second


class OldRows(NamedTuple):
    """Jobs or runs to archive, and whether there may be more."""

    ids: list[UUID]
    more: bool

    @classmethod
    def read(cls, row: asyncpg.Record | None) -> "OldRows":
        assert row is not None
        return cls(row["ids"] or [], row["more"])


async def make(conn: Connection, *, week: int) -> str | None:
    """Create the archive of this week (0) or of a later one; return its name, or None if it existed."""
    name: str | None = await conn.fetchval(_SQL["make"], week)
    return name


async def find_jobs(conn: Connection, *, age: timedelta, batch: int) -> OldRows:
    """Scan the next `batch` jobs of the inbox; return the old ones that belong to no run."""
    return OldRows.read(await conn.fetchrow(_SQL["find_jobs"], age, batch))


async def move_jobs(conn: Connection, ids: Sequence[UUID]) -> None:
    await conn.execute(_SQL["move_jobs"], list(ids))


async def find_runs(conn: Connection, *, age: timedelta, batch: int, most_jobs: int = MOST_MOVED) -> OldRows:
    """Return the oldest topmost runs whose trees have ended, with at most `most_jobs` jobs in total."""
    return OldRows.read(await conn.fetchrow(_SQL["find_runs"], age, batch, most_jobs))


async def move_runs(conn: Connection, ids: Sequence[UUID]) -> None:
    """Archive runs and everything below them."""
    await conn.execute(_SQL["move_runs"], list(ids))


async def restore_runs(conn: Connection, ids: Iterable[UUID]) -> int:
    """Restore the given runs that are archived, with all runs below them; return the number of restored runs."""
    count: int = await conn.fetchval(_SQL["restore_runs"], list(ids))
    return count


async def restore_jobs(conn: Connection, ids: Sequence[UUID], *, org: str) -> None:
    """Restore the given jobs that are archived; step jobs are restored with their runs."""
    await conn.execute(_SQL["restore_jobs"], list(ids), org)


async def old(conn: Connection, *, age: timedelta) -> list[str]:
    """Return the weeks whose archives may be dropped, oldest first."""
    return column(await conn.fetch(_SQL["old"], age))


async def clear(conn: Connection, week: str, *, batch: int) -> bool:
    """Delete a batch of rows of other tables that belong to an archive; return whether there may be more."""
    more: bool = await conn.fetchval(_SQL["clear"], week, batch)
    return more


async def drop(conn: Connection, week: str) -> None:
    """Drop an archive. Waits for readers, and all readers wait for it."""
    await conn.execute(_SQL["drop"], week)
