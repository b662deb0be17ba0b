"""Queries on the tenants of jobs (`meta.tenant_id`)."""

from windlass.store.postgres.pool import Connection
from windlass.store.postgres.queries import column, mapping, statements

_SQL = statements("tenants")


async def list_(conn: Connection, *, org: str, limit: int) -> list[str]:
    return column(await conn.fetch(_SQL["list"], org, limit))


async def counts(conn: Connection, tenant: str, *, org: str, cap: int) -> dict[str, int]:
    return mapping(await conn.fetch(_SQL["counts"], org, tenant, cap))
