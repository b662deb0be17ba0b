"""Queues: their depth, throughput, limits and whether they are paused."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from windlass.core.json_value import decode
from windlass.store.postgres.pool import Connection
from windlass.store.postgres.queries import statements

_SQL = statements("queues")


@dataclass(frozen=True, slots=True)
class QueueRow:
    name: str
    due: int
    scheduled: int
    leased: int
    capped: bool  # there are more than were counted
    oldest: timedelta | None
    paused: bool
    paused_at: datetime | None
    resumed_at: datetime | None


async def list_(conn: Connection, *, after: str, limit: int, cap: int, name: str | None = None) -> list[QueueRow]:
    """List queues by name; only one if `name` is given."""
    return [QueueRow(*row) for row in await conn.fetch(_SQL["list"], after, limit, cap, name)]


async def rates(conn: Connection, *, lines: int, within: timedelta) -> dict[str, float]:
    """Return the ended jobs per second of each queue in which any ended."""
    rows = await conn.fetch(_SQL["rates"], lines, within)
    return {row["queue"]: row["ended"] / row["span"].total_seconds() for row in rows}


async def pause(conn: Connection, name: str) -> None:
    await conn.execute(_SQL["pause"], name)


async def resume(conn: Connection, name: str) -> None:
    await conn.execute(_SQL["resume"], name)


@dataclass(frozen=True, slots=True)
class DepthLimit:
    """The maximum depth of a queue, and the configuration that an API (such as OJS) stores with it."""

    max_depth: int | None
    config: dict[str, Any]


async def configure(conn: Connection, name: str, *, max_depth: int | None, config: str) -> None:
    await conn.execute(_SQL["configure"], name, max_depth, config)


async def depth_limits(conn: Connection) -> dict[str, DepthLimit]:
    rows = await conn.fetch(_SQL["bounds"])
    return {row[0]: DepthLimit(row[1], decode(row[2]) or {}) for row in rows}


async def depth_limit(conn: Connection, name: str) -> DepthLimit:
    row = await conn.fetchrow(_SQL["config"], name)
    return DepthLimit(row[0], decode(row[1]) or {}) if row else DepthLimit(None, {})


async def depth(conn: Connection, name: str, *, cap: int) -> int:
    found: int = await conn.fetchval(_SQL["depth"], name, cap)
    return found


async def ends(conn: Connection, *, lines: int) -> tuple[int, int]:
    """Return the numbers of jobs that succeeded and failed in the last minute."""
    row = await conn.fetchrow(_SQL["ends"], lines)
    assert row is not None
    return row[0], row[1]
