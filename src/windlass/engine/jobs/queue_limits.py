"""How long queues may get. Faces that know backpressure refuse what would make one longer; nobody else is bound."""

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
    """`max_depth` jobs may wait, None: any number; `config` is kept as it is."""
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
    """The queues that have a bound."""
    async with db.once() as conn:
        return await store.bounds(conn)


async def depth(db: Database, name: str, *, cap: int) -> int:
    """How many jobs wait there, counted up to `cap`."""
    async with db.once() as conn:
        return await store.depth(conn, name, cap=cap)
