"""Roles of SQL clients and their orgs."""

import asyncpg

from windlass.errors import Conflict
from windlass.schemas.orgs import SqlRole
from windlass.store.postgres.pool import Connection, savepoint
from windlass.store.postgres.queries import statements

_SQL = statements("sql_roles")


async def get(conn: Connection, role: str) -> SqlRole | None:
    row = await conn.fetchrow(_SQL["get"], role)
    return SqlRole(**row) if row else None


async def list_(conn: Connection) -> list[SqlRole]:
    return [SqlRole(**row) for row in await conn.fetch(_SQL["list"])]


async def may_act_for_all(conn: Connection, role: str) -> bool:
    """Return whether a role has the rights of the engine, to which row-level security does not apply."""
    return await conn.fetchval(_SQL["may_act_for_all"], role) is True


async def grant(conn: Connection, role: str, *, org: str, is_worker: bool) -> None:
    try:
        async with savepoint(conn):
            await conn.execute(_SQL["grant"], role, org, is_worker)
    except asyncpg.InsufficientPrivilegeError as error:
        raise Conflict(
            f"role {role} does not exist, and this user may not create it ({error}): as a superuser, run"
            f" create role {role} login;"
        ) from None


async def revoke(conn: Connection, role: str) -> bool:
    return await conn.fetchval(_SQL["revoke"], role) is True
