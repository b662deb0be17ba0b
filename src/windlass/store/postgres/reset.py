"""Empties the database, for tests."""

from windlass.store.postgres.pool import Connection
from windlass.store.postgres.queries import column, statements

_SQL = statements("reset")


async def empty(conn: Connection) -> None:
    names = column(await conn.fetch(_SQL["tables"]))
    await conn.execute(f"truncate {', '.join(names)}")  # names come quoted from the catalogue
    await conn.execute(_SQL["unpublish"])
