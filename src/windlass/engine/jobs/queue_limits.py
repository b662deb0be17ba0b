"""Depth limits of queues. Only interfaces with backpressure enforce them, by refusing new jobs."""

from typing import Any

from windlass.core.jobs.spec import check_name
from windlass.core.json_value import encode
from windlass.engine.database import Database
from windlass.errors import Invalid
from windlass.store import queues as store
from windlass.store.queues import Bound

__all__ = ["Bound", "all_", "configure", "depth", "get"]
LARGEST = 10_000_000
MAX_CONFIG = 65_536


async def configure(db: Database, name: str, *, max_depth: int | None, config: dict[str, Any]) -> Bound:
    """Set how many jobs may wait (None: any number); `config` is stored unchanged."""
    check_name(name, "queue", "name a queue, for example default")
    if max_depth is not None and not 1 <= max_depth <= LARGEST:
        raise Invalid(f"max_depth is {max_depth}: it must lie between 1 and {LARGEST}", field="max_depth")
    text = encode(config, field="config", limit=MAX_CONFIG)
    async with db.once() as conn:
        await store.configure(conn, name, max_depth=max_depth, config=text)
    return Bound(max_depth, config)


async def get(db: Database, name: str) -> Bound:
    encode(name, field="queue")
    async with db.once() as conn:
        return await store.config(conn, name)


async def all_(db: Database) -> dict[str, Bound]:
    """Return the queues that have a limit."""
    async with db.once() as conn:
        return await store.bounds(conn)


async def depth(db: Database, name: str, *, cap: int) -> int:
    """Return how many jobs wait in a queue, counted up to `cap`."""
    async with db.once() as conn:
        return await store.depth(conn, name, cap=cap)
