"""Queues (depth, throughput, limits, whether they are paused) and rate limits (their use, the jobs they delay)."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from windlass.core.json_value import decode
from windlass.core.orgs import shown, stored
from windlass.store.postgres.pool import Connection
from windlass.store.postgres.queries import column, statements

_SQL = statements("queues")


@dataclass(frozen=True, slots=True)
class QueueRow:
    name: str
    due: int
    scheduled: int
    leased: int
    capped: bool  # a count has reached its limit
    oldest: timedelta | None
    paused: bool
    paused_at: datetime | None
    resumed_at: datetime | None


async def list_(
    conn: Connection, *, org: str, after: str, limit: int, cap: int, name: str | None = None
) -> list[QueueRow]:
    """List the queues of an org by name; only one if `name` is given."""
    place = stored(org, after) if after else "", limit, cap, name and stored(org, name)
    rows = await conn.fetch(_SQL["list"], *place, org)
    return [QueueRow(shown(org, row["name"]), *tuple(row)[1:]) for row in rows]


async def rates(conn: Connection, *, org: str, lines: int, within: timedelta) -> dict[str, float]:
    """Return the number of jobs that ended per second, for each queue of an org in which any ended."""
    rows = await conn.fetch(_SQL["rates"], lines, within, org)
    return {shown(org, row["queue"]): row["ended"] / row["span"].total_seconds() for row in rows}


async def pause(conn: Connection, name: str, *, org: str) -> None:
    await conn.execute(_SQL["pause"], stored(org, name))


async def resume(conn: Connection, name: str, *, org: str) -> None:
    await conn.execute(_SQL["resume"], stored(org, name))


@dataclass(frozen=True, slots=True)
class DepthLimit:
    """The maximum depth of a queue, and the configuration that an API (such as OJS) stores with it."""

    max_depth: int | None
    config: dict[str, Any]


async def configure(conn: Connection, name: str, *, org: str, max_depth: int | None, config: str) -> None:
    await conn.execute(_SQL["configure"], stored(org, name), max_depth, config)


async def depth_limits(conn: Connection, *, org: str) -> dict[str, DepthLimit]:
    rows = await conn.fetch(_SQL["bounds"], org)
    return {shown(org, row[0]): DepthLimit(row[1], decode(row[2]) or {}) for row in rows}


async def depth_limit(conn: Connection, name: str, *, org: str) -> DepthLimit:
    row = await conn.fetchrow(_SQL["config"], stored(org, name))
    return DepthLimit(row[0], decode(row[1]) or {}) if row else DepthLimit(None, {})


async def depth(conn: Connection, name: str, *, org: str, cap: int) -> int:
    count: int = await conn.fetchval(_SQL["depth"], stored(org, name), cap)
    return count


async def state_counts(conn: Connection, queue: str, *, org: str, cap: int) -> dict[str, int]:
    row = await conn.fetchrow(_SQL["state_counts"], stored(org, queue), cap)
    assert row is not None
    return dict(row)


async def ends(conn: Connection, *, org: str, lines: int) -> tuple[int, int]:
    """Return the numbers of jobs of an org that succeeded and failed in the last minute."""
    row = await conn.fetchrow(_SQL["ends"], lines, org)
    assert row is not None
    return row[0], row[1]


# Rate limits are written by claims.sql and applied by `windlass.rate_admit`


class RateLimit(NamedTuple):
    key: str  # begins with the org
    per_period: float | None
    period: timedelta
    concurrency: int | None
    left: float | None  # jobs that may be handed out now
    active: int


async def rate_limit(conn: Connection, key: str) -> RateLimit | None:
    row = await conn.fetchrow(_SQL["rate_limit"], key)
    return RateLimit._make(row) if row else None


async def rate_limits(conn: Connection, prefix: str, *, limit: int, offset: int) -> list[RateLimit]:
    return list(map(RateLimit._make, await conn.fetch(_SQL["rate_limits"], prefix, limit, offset)))


async def wake_rate_limited(conn: Connection) -> list[str]:
    """Make waiting jobs due again; return their queues, one entry per job."""
    return column(await conn.fetch(_SQL["wake_rate_limited"]))


async def forget_rate_limited(conn: Connection) -> None:
    await conn.execute(_SQL["forget_rate_limited"])


async def prune_rate_limits(conn: Connection, *, age: timedelta) -> None:
    await conn.execute(_SQL["prune_rate_limits"], age)
