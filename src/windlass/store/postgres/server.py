"""Questions about the server itself."""

from windlass.store.postgres.pool import Connection
from windlass.store.postgres.queries import sql


async def read_only(conn: Connection) -> bool:
    """Whether a write would be refused."""
    return bool(await conn.fetchval(sql("server", "read_only")))
