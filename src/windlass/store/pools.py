"""Pools: where steps with `runs_on` run."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from windlass.core.launches import POOL_QUEUE
from windlass.store.postgres.pool import Connection
from windlass.store.postgres.queries import column, statements

_SQL = statements("pools")


@dataclass(frozen=True, slots=True)
class PoolRow:
    name: str
    launcher: str
    max_parallel: int
    image: str | None
    holder: str | None
    problem: str | None
    seen_at: datetime
    silence: timedelta
    waiting: int  # jobs
    running: int


async def offer(conn: Connection, pools: Iterable[tuple[str, str, int, str | None]]) -> None:
    """Record pools by name, launcher, size and image."""
    await conn.executemany(_SQL["offer"], sorted(pools))


async def report(conn: Connection, name: str, *, holder: str, problem: str | None) -> None:
    await conn.execute(_SQL["report"], name, holder, problem)


async def names(conn: Connection) -> list[str]:
    return column(await conn.fetch(_SQL["names"]))


async def list_(conn: Connection, *, org: str | None, cap: int, name: str | None = None) -> list[PoolRow]:
    """List the pools, with the numbers of jobs of an org, or of all orgs."""
    return [PoolRow(**row) for row in await conn.fetch(_SQL["list"], name, org, cap, POOL_QUEUE)]


async def forget(conn: Connection, name: str, *, silent_for: timedelta) -> bool:
    return await conn.fetchval(_SQL["forget"], name, silent_for) is not None
