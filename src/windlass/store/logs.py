"""Read-only queries on the log lines of a run: the last ones, all of them in pages, and new ones."""

from collections.abc import Collection
from typing import NamedTuple
from uuid import UUID

import asyncpg

from windlass.core.events.cursor import Snapshot
from windlass.store.accounts import RunLine
from windlass.store.postgres.pool import Connection
from windlass.store.postgres.queries import column, statements

_SQL = statements("logs")


class Which(NamedTuple):
    """Selects the lines of a run, or of one step, instance or attempt."""

    run: UUID
    step: int | None = None
    item: int | None = None
    attempt: int | None = None


class Mark(NamedTuple):
    """The position of the last line of a page."""

    step: int = -1
    item: int = -1
    epoch: int = 0
    attempt: int = 0
    line: int = 0


async def tail(conn: Connection, which: Which, count: int) -> list[tuple[int, RunLine]]:
    """Return the last lines in order, as (transaction, line)."""
    return [_line(row) for row in reversed(await conn.fetch(_SQL["tail"], *which, count))]


async def whole(conn: Connection, which: Which, after: Mark, *, limit: int) -> tuple[list[RunLine], Mark | None]:
    """Return a page of lines, and the position after which the next page starts, if there may be one."""
    rows = await conn.fetch(_SQL["whole"], *which, *after, limit)
    last = rows[-1] if len(rows) == limit else None
    mark = Mark(*(last[name] for name in Mark._fields)) if last is not None else None
    return [_line(row)[1] for row in rows], mark


async def since(
    conn: Connection, which: Which, base: Snapshot, *, jobs: Collection[UUID] | None = None
) -> list[tuple[int, RunLine]]:
    """Return the lines that a snapshot does not see, as (transaction, line); only those of `jobs`, if given."""
    asked = (*which, str(base.xmax), [str(xid) for xid in sorted(base.under_way)])
    if jobs is None:
        rows = await conn.fetch(_SQL["since"], *asked)
    else:
        rows = await conn.fetch(_SQL["since_of_jobs"], *asked, list(jobs)) if jobs else []
    return [_line(row) for row in rows]


async def held(conn: Connection, run: UUID, step: int | None) -> set[UUID]:
    return set(column(await conn.fetch(_SQL["held"], run, step)))


def _line(row: asyncpg.Record) -> tuple[int, RunLine]:
    return int(row["xid"]), RunLine(*(row[name] for name in RunLine.__slots__))
