"""Statements on the server and on the database as a whole."""

from windlass.store.postgres.pool import Connection
from windlass.store.postgres.queries import column, sql


async def read_only(conn: Connection) -> bool:
    """Return whether the server would refuse a write."""
    return bool(await conn.fetchval(sql("server", "read_only")))


async def empty(conn: Connection) -> None:
    """Remove all rows but the definitions of hidden workflows. For tests."""
    names = column(await conn.fetch(sql("reset", "tables")))
    await conn.execute(f"truncate {', '.join(names)}")  # names come quoted from the catalogue
    await conn.execute(sql("reset", "unpublish"))
