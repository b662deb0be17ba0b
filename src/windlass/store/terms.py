"""Terms: leases on duties."""

from datetime import timedelta

from windlass.store.pool import Connection
from windlass.store.queries import load

_SQL = {name: query.sql for name, query in load("terms").items()}


async def take(conn: Connection, *, duty: str, holder: str, term: timedelta) -> bool:
    return bool(await conn.fetchval(_SQL["take"], duty, holder, term))


async def resign(conn: Connection, *, duty: str, holder: str) -> None:
    await conn.execute(_SQL["resign"], duty, holder)
