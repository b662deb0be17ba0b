"""Rate limits of jobs: their current use, and the jobs that wait for them.

Limits are written by claims.sql and applied by `windlass.rate_admit`.
"""

from datetime import timedelta
from typing import NamedTuple

from windlass.store.postgres.pool import Connection
from windlass.store.postgres.queries import column, statements

_SQL = statements("rates")


class Rate(NamedTuple):
    key: str  # begins with the org
    per_period: float | None
    period: timedelta
    concurrency: int | None
    left: float | None  # jobs that may be handed out now
    active: int


async def get(conn: Connection, key: str) -> Rate | None:
    row = await conn.fetchrow(_SQL["get"], key)
    return Rate._make(row) if row else None


async def list_(conn: Connection, prefix: str, *, limit: int, offset: int) -> list[Rate]:
    return list(map(Rate._make, await conn.fetch(_SQL["list"], prefix, limit, offset)))


async def call_waiting(conn: Connection) -> list[str]:
    """Make waiting jobs due again; return their queues, one entry per job."""
    return column(await conn.fetch(_SQL["call_waiting"]))


async def forget_waiting(conn: Connection) -> None:
    await conn.execute(_SQL["forget_waiting"])


async def prune(conn: Connection, *, age: timedelta) -> None:
    await conn.execute(_SQL["prune"], age)
