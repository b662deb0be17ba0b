"""Statements for orphaned claims: committed, but the worker did not receive the result."""

from datetime import timedelta

from windlass.core.jobs.job import Claimed, Fence
from windlass.store.postgres.pool import Connection
from windlass.store.postgres.queries import statements

_SQL = statements("orphans")


async def find(conn: Connection, *, worker: str) -> list[Fence]:
    return [(row[0], row[1]) for row in await conn.fetch(_SQL["find"], worker)]


async def read(conn: Connection, fence: Fence, *, worker: str) -> Claimed | None:
    row = await conn.fetchrow(_SQL["read"], *fence, worker)
    return Claimed._make(row) if row else None


async def put_back(conn: Connection, fence: Fence, *, worker: str, pause: timedelta, reason: str) -> bool:
    return await conn.fetchval(_SQL["put_back"], *fence, worker, pause, reason) is True
