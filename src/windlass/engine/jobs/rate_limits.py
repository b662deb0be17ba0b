"""The current state of rate limits."""

from windlass.core.json_value import encode
from windlass.engine.database import Database
from windlass.errors import NotFound
from windlass.store.ojs import rates as store
from windlass.store.ojs.rates import Rate

__all__ = ["Rate", "call_waiting", "get", "list_"]


async def get(db: Database, key: str) -> Rate:
    encode(key, field="key")
    async with db.once() as conn:
        found = await store.get(conn, f"{db.org}/{key}")
    if found is None:
        raise NotFound("rate limit", ascii(key[:255]))
    return found._replace(key=key)


async def list_(db: Database, *, limit: int, offset: int) -> list[Rate]:
    prefix = f"{db.org}/"
    async with db.once() as conn:
        found = await store.list_(conn, prefix, limit=limit, offset=offset)
    return [one._replace(key=one.key.removeprefix(prefix)) for one in found]


async def call_waiting(db: Database) -> int:
    """Make jobs that wait for a rate limit due where there is room for them; return their number."""
    async with db.once() as conn:
        queues = await store.call_waiting(conn)
    for queue in set(queues):
        db.poke(queue)
    return len(queues)
