"""Pools: where steps with `runs_on` run."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from windlass.core.jobs.job import JobState
from windlass.core.launches import POOL_QUEUE, LaunchState, pool_of_queue
from windlass.core.orgs import owner
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


def launch_state(queue: str, status: str, reported: str | None) -> LaunchState | None:
    """Return the launch state that the pool of a job last reported for this claim; None if no pool holds the job."""
    if status != JobState.LEASED or pool_of_queue(owner(queue)[1]) is None:
        return None
    if reported is None:
        return LaunchState.LAUNCHING
    return LaunchState(reported) if reported in tuple(LaunchState) else LaunchState.RUNNING


async def offer(conn: Connection, pools: Iterable[tuple[str, str, int, str | None]]) -> None:
    """Record pools, given as (name, launcher, size, image)."""
    await conn.executemany(_SQL["offer"], sorted(pools))


async def report(conn: Connection, name: str, *, holder: str, problem: str | None) -> None:
    await conn.execute(_SQL["report"], name, holder, problem)


async def identity(conn: Connection) -> str:
    text: str = await conn.fetchval(_SQL["identity"])
    return text


async def names(conn: Connection) -> list[str]:
    return column(await conn.fetch(_SQL["names"]))


async def list_(conn: Connection, *, org: str | None, cap: int, name: str | None = None) -> list[PoolRow]:
    """List the pools, with the numbers of jobs of an org, or of all orgs."""
    return [PoolRow(**row) for row in await conn.fetch(_SQL["list"], name, org, cap, POOL_QUEUE)]


async def forget(conn: Connection, name: str, *, silent_for: timedelta) -> bool:
    return await conn.fetchval(_SQL["forget"], name, silent_for) is not None
