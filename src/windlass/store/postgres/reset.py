"""Empties the database, for tests."""

from windlass.store.postgres.pool import Connection
from windlass.store.postgres.queries import load

_SQL = {name: query.sql for name, query in load("reset").items()}


async def empty(conn: Connection) -> None:
    names = [row[0] for row in await conn.fetch(_SQL["tables"])]
    await conn.execute(f"truncate {', '.join(names)}")  # names come quoted from the catalogue
    await conn.execute(_SQL["unpublish"])
