"""Queries on the tenants of jobs (`meta.tenant_id`)."""

from windlass.store.postgres.pool import Connection
from windlass.store.postgres.queries import load

_SQL = {name: query.sql for name, query in load("tenants").items()}


async def list_(conn: Connection, *, org: str, limit: int) -> list[str]:
    return [row[0] for row in await conn.fetch(_SQL["list"], org, limit)]


async def counts(conn: Connection, tenant: str, *, org: str, cap: int) -> dict[str, int]:
    return {row[0]: row[1] for row in await conn.fetch(_SQL["counts"], org, tenant, cap)}
