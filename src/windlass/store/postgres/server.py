"""Queries about the server itself."""

from windlass.store.postgres.pool import Connection
from windlass.store.postgres.queries import sql


async def read_only(conn: Connection) -> bool:
    """Return whether the server would refuse a write."""
    return bool(await conn.fetchval(sql("server", "read_only")))
