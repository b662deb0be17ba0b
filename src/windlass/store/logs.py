"""What the handlers of a run's steps logged: the end of it, the whole, and what is new. Only reads."""

from collections.abc import Collection
from typing import NamedTuple
from uuid import UUID

import asyncpg

from windlass.core.events.cursor import Snapshot
from windlass.store.accounts import RunLine
from windlass.store.postgres.pool import Connection
from windlass.store.postgres.queries import load

_SQL = {name: query.sql for name, query in load("logs").items()}


class Which(NamedTuple):
    """Lines of a run; of one step, instance or attempt, if it says so."""

    run: UUID
    step: int | None = None
    item: int | None = None
    attempt: int | None = None


class Mark(NamedTuple):
    """Where a reader of the whole has got to."""

    step: int = -1
    item: int = -1
    epoch: int = 0
    attempt: int = 0
    line: int = 0


async def tail(conn: Connection, which: Which, count: int) -> list[tuple[int, RunLine]]:
    """(transaction, line): the last ones, in order."""
    return [_line(row) for row in reversed(await conn.fetch(_SQL["tail"], *which, count))]


async def whole(conn: Connection, which: Which, after: Mark, *, limit: int) -> tuple[list[RunLine], Mark | None]:
    """A page, and where the next one begins, if there is one."""
    rows = await conn.fetch(_SQL["whole"], *which, *after, limit)
    last = rows[-1] if len(rows) == limit else None
    mark = Mark(*(last[name] for name in Mark._fields)) if last is not None else None
    return [_line(row)[1] for row in rows], mark


async def since(
    conn: Connection, which: Which, base: Snapshot, *, jobs: Collection[UUID] | None = None
) -> list[tuple[int, RunLine]]:
    """(transaction, line): those that a snapshot did not see; `jobs`: only these are looked at."""
    asked = (*which, str(base.xmax), [str(xid) for xid in sorted(base.under_way)])
    if jobs is None:
        rows = await conn.fetch(_SQL["since"], *asked)
    else:
        rows = await conn.fetch(_SQL["since_of_jobs"], *asked, list(jobs)) if jobs else []
    return [_line(row) for row in rows]


async def held(conn: Connection, run: UUID, step: int | None) -> set[UUID]:
    return {row[0] for row in await conn.fetch(_SQL["held"], run, step)}


def _line(row: asyncpg.Record) -> tuple[int, RunLine]:
    return int(row["xid"]), RunLine(*(row[name] for name in RunLine.__slots__))
