"""Limits under which jobs are handed out, as they stand now."""

from windlass.core.document import encode
from windlass.engine.unit import Unit
from windlass.errors import NotFound
from windlass.store import rates as store
from windlass.store.rates import Rate

__all__ = ["Rate", "call_waiting", "get", "list_"]


async def get(unit: Unit, key: str) -> Rate:
    encode(key, field="key")
    async with unit.once() as conn:
        found = await store.get(conn, f"{unit.org}/{key}")
    if found is None:
        raise NotFound("rate limit", ascii(key[:255]))
    return found._replace(key=key)


async def list_(unit: Unit, *, limit: int, offset: int) -> list[Rate]:
    prefix = f"{unit.org}/"
    async with unit.once() as conn:
        found = await store.list_(conn, prefix, limit=limit, offset=offset)
    return [one._replace(key=one.key.removeprefix(prefix)) for one in found]


async def call_waiting(unit: Unit) -> int:
    """Put jobs that wait for a limit back into line where there is room for them; how many."""
    async with unit.once() as conn:
        queues = await store.call_waiting(conn)
    for queue in set(queues):
        unit.poke(queue)
    return len(queues)
