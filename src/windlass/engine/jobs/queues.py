"""Queues for operators: depth, throughput, pause and resume, depth limits and rate limits.

A queue needs no declaration: one without jobs is empty, not unknown.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from windlass.core.jobs.spec import check_queue, check_range
from windlass.core.json_value import encode
from windlass.engine.database import MOST_COUNTED, Database, Tenant
from windlass.engine.orgs import audit
from windlass.errors import Invalid, NotFound
from windlass.schemas.common import PAGE_LIMIT
from windlass.store import queues as store
from windlass.store.queues import DepthLimit, QueueRow, RateLimit

__all__ = ["DepthLimit", "QueueRow", "RateLimit"]
LINES = 10_000  # latest events that rates are computed from
RATE_WITHIN = timedelta(minutes=1)
MAX_DEPTH = 10_000_000
MAX_CONFIG = 65_536


@dataclass(frozen=True, slots=True)
class Queue:
    row: QueueRow
    rate: float  # ended jobs per second, in the last minute or in the shorter time that the last LINES events span


@dataclass(frozen=True, slots=True)
class QueuePage:
    """A page of queues by name. Pass `next` as `after` for the next page; None means the end."""

    queues: list[Queue]
    next: str | None


async def list_(db: Tenant, *, after: str = "", limit: int = 100) -> QueuePage:
    """Return the queues that have jobs or settings."""
    encode(after, field="after")
    check_range(limit, "limit", most=PAGE_LIMIT)
    async with db.begin() as conn:
        rows = await store.list_(conn, org=db.org, after=after, limit=limit, cap=MOST_COUNTED)
        rates = await store.rates(conn, org=db.org, lines=LINES, within=RATE_WITHIN)
    page = [Queue(row, rates.get(row.name, 0.0)) for row in rows]
    return QueuePage(page, rows[-1].name if len(rows) == limit else None)


async def get(db: Tenant, name: str) -> Queue:
    _check(name)
    async with db.begin() as conn:
        rows = await store.list_(conn, org=db.org, after="", limit=1, cap=MOST_COUNTED, name=name)
        rates = await store.rates(conn, org=db.org, lines=LINES, within=RATE_WITHIN)
    row = rows[0] if rows else QueueRow(name, 0, 0, 0, False, None, False, None, None)
    return Queue(row, rates.get(name, 0.0))


async def ends(db: Tenant) -> tuple[int, int]:
    """Return how many jobs of the org succeeded and failed in the last minute, within the last LINES events."""
    async with db.once() as conn:
        return await store.ends(conn, org=db.org, lines=LINES)


async def state_counts(db: Tenant, name: str) -> dict[str, int]:
    """Return the number of jobs of a queue by state (available, scheduled, ...), of finished jobs only the latest."""
    async with db.once() as conn:
        return await store.state_counts(conn, name, org=db.org, cap=MOST_COUNTED)


async def pause(db: Tenant, name: str) -> None:
    """Pause a queue: Windlass workers claim nothing from it until it is resumed, and finish the jobs they hold."""
    _check(name)
    async with db.begin() as conn:
        await store.pause(conn, name, org=db.org)
        await audit.record(conn, db, "queue.pause", name)


async def resume(db: Tenant, name: str) -> None:
    _check(name)
    async with db.begin() as conn:
        await store.resume(conn, name, org=db.org)
        await audit.record(conn, db, "queue.resume", name)
    db.poke(db.stored(name))


def _check(name: str) -> None:
    check_queue(name)
    encode(name, field="queue")


# Depth limits: enforced only by the APIs with backpressure, which refuse new jobs


async def set_depth_limit(db: Tenant, name: str, *, max_depth: int | None, config: dict[str, Any]) -> DepthLimit:
    """Set the maximum number of pending jobs (None: unlimited); `config` is stored unchanged."""
    _check(name)
    if max_depth is not None and not 1 <= max_depth <= MAX_DEPTH:
        raise Invalid(f"max_depth is {max_depth}: it must be between 1 and {MAX_DEPTH}", field="max_depth")
    text = encode(config, field="config", limit=MAX_CONFIG)
    async with db.begin() as conn:
        await store.configure(conn, name, org=db.org, max_depth=max_depth, config=text)
        await audit.record(conn, db, "queue.limit", name, max_depth=max_depth)
    return DepthLimit(max_depth, config)


async def depth_limit(db: Tenant, name: str) -> DepthLimit:
    encode(name, field="queue")
    async with db.once() as conn:
        return await store.depth_limit(conn, name, org=db.org)


async def depth_limits(db: Tenant) -> dict[str, DepthLimit]:
    """Return the depth limits by queue, of the queues that have one."""
    async with db.once() as conn:
        return await store.depth_limits(conn, org=db.org)


async def depth(db: Tenant, name: str, *, cap: int) -> int:
    """Return the number of pending jobs in a queue, counted up to `cap`."""
    async with db.once() as conn:
        return await store.depth(conn, name, org=db.org, cap=cap)


# Rate limits


async def rate_limit(db: Tenant, key: str) -> RateLimit:
    encode(key, field="key")
    async with db.once() as conn:
        row = await store.rate_limit(conn, f"{db.org}/{key}")
    if row is None:
        raise NotFound("rate limit", ascii(key[:255]))
    return row._replace(key=key)


async def rate_limits(db: Tenant, *, limit: int, offset: int) -> list[RateLimit]:
    prefix = f"{db.org}/"
    async with db.once() as conn:
        rows = await store.rate_limits(conn, prefix, limit=limit, offset=offset)
    return [one._replace(key=one.key.removeprefix(prefix)) for one in rows]


async def wake_rate_limited(db: Database) -> int:
    """Make jobs that wait for a rate limit due, as far as it has capacity; return their number."""
    async with db.once() as conn:
        queues = await store.wake_rate_limited(conn)
    db.poke(*set(queues))
    return len(queues)
