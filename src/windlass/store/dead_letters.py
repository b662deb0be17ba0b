"""Dead letters: jobs that failed permanently, grouped by type, queue and error."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from windlass.core.orgs import shown, stored
from windlass.store.jobs import Job, job
from windlass.store.postgres.pool import Connection
from windlass.store.postgres.queries import statements

_SQL = statements("dead_letters")
LATEST = 2**62


@dataclass(frozen=True, slots=True)
class Group:
    """Dead letters of one kind. `error` is the common part of their errors, `example` the error of the latest."""

    type: str
    queue: str
    error: str
    of_run: bool  # they are steps of runs
    count: int
    first_at: datetime
    last_at: datetime
    example_id: UUID
    example: str | None
    seq: int  # of the latest


@dataclass(frozen=True, slots=True, kw_only=True)
class Kinds:
    """Selects dead letters that match all given fields."""

    org: str
    type: str | None = None  # a LIKE pattern
    queue: str | None = None
    error: str | None = None
    of_run: bool | None = None
    before: int | None = None

    @property
    def arguments(self) -> tuple[object, ...]:
        before = LATEST if self.before is None else self.before
        queue = None if self.queue is None else stored(self.org, self.queue)
        return (self.org, self.type, queue, self.error, self.of_run, before)


class Dead(NamedTuple):
    id: UUID
    run_id: UUID | None
    seq: int


async def groups(conn: Connection, kinds: Kinds, *, limit: int, cap: int) -> list[Group]:
    rows = await conn.fetch(_SQL["groups"], *kinds.arguments, limit, cap)
    return [replace(Group(*row), queue=shown(kinds.org, row["queue"])) for row in rows]


async def find(conn: Connection, kinds: Kinds, *, limit: int) -> list[Dead]:
    return list(map(Dead._make, await conn.fetch(_SQL["find"], *kinds.arguments, limit)))


async def list_(conn: Connection, kinds: Kinds, *, limit: int) -> list[Job]:
    return [job(row) for row in await conn.fetch(_SQL["list"], *kinds.arguments, limit)]


async def list_by_queue(
    conn: Connection, *, org: str, queue: str | None, limit: int, offset: int
) -> tuple[list[Job], int]:
    rows = await conn.fetch(_SQL["list_by_queue"], org, queue and stored(org, queue), limit, offset)
    return [job(row) for row in rows], rows[0]["total"] if rows else 0


async def exists(conn: Connection, id_: UUID, *, org: str) -> bool:
    exists: bool = await conn.fetchval(_SQL["exists"], id_, org)
    return exists
