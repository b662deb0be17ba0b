"""Organisations."""

import asyncpg

from windlass.errors import Conflict
from windlass.schemas.orgs import Org
from windlass.store.postgres.pool import API_ROLE, Connection, savepoint
from windlass.store.postgres.queries import column, statements

_SQL = statements("orgs")


async def insert(conn: Connection, name: str, *, plan: str) -> Org | None:
    """Insert an org; return None if it exists already."""
    return _read(await conn.fetchrow(_SQL["insert"], name, plan))


async def get(conn: Connection, name: str) -> Org | None:
    return _read(await conn.fetchrow(_SQL["get"], name))


async def list_(conn: Connection, *, after: str, limit: int) -> list[Org]:
    return [Org(**row) for row in await conn.fetch(_SQL["list"], after, limit)]


async def disable(conn: Connection, name: str) -> Org | None:
    return _read(await conn.fetchrow(_SQL["disable"], name))


async def enable(conn: Connection, name: str) -> Org | None:
    return _read(await conn.fetchrow(_SQL["enable"], name))


async def create_api_role(conn: Connection) -> None:
    """Ensure that the role that the transactions of an org run as exists and has its privileges."""
    try:
        async with savepoint(conn):
            await conn.execute(_SQL["create_api_role"])
    except asyncpg.InsufficientPrivilegeError as error:
        user = await conn.fetchval(_SQL["user"])
        raise Conflict(
            f"several orgs need the role {API_ROLE}, and {user} may not create it ({error}): as a superuser, run"
            f" create role {API_ROLE}; grant {API_ROLE} to {user};"
        ) from None


async def plans(conn: Connection) -> list[str]:
    return column(await conn.fetch(_SQL["plans"]))


async def default_queue(conn: Connection, prefix: str) -> str | None:
    """Return a queue of `default` whose name begins with `prefix`."""
    queue: str | None = await conn.fetchval(_SQL["default_queue"], prefix)
    return queue


async def is_alone(conn: Connection) -> bool:
    """Return whether `default` is the only org."""
    return bool(await conn.fetchval(_SQL["is_alone"]))


def _read(row: asyncpg.Record | None) -> Org | None:
    return None if row is None else Org(**row)
