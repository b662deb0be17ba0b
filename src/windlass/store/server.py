"""Questions about the server itself."""

from windlass.store.pool import Connection
from windlass.store.queries import sql


async def read_only(conn: Connection) -> bool:
    """Whether a write would be refused."""
    return bool(await conn.fetchval(sql("server", "read_only")))


async def system_identifier(conn: Connection) -> str:
    """Which cluster this is."""
    return str(await conn.fetchval(sql("server", "system_identifier")))
