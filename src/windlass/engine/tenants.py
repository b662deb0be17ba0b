"""Tenants: a label that producers put on jobs (`meta.tenant_id`), and how many jobs carry it."""

from windlass.core.json_value import encode
from windlass.engine.database import MOST_COUNTED, Database
from windlass.store.ojs import tenants as store

MOST = 1000


async def list_(db: Database) -> list[str]:
    """Return the tenants that have jobs, by name."""
    async with db.once() as conn:
        return await store.list_(conn, org=db.org, limit=MOST)


async def counts(db: Database, tenant: str) -> dict[str, int]:
    """Return the number of a tenant's jobs by state; at most MOST_COUNTED jobs are examined."""
    encode(tenant, field="tenant")
    async with db.once() as conn:
        return await store.counts(conn, tenant, org=db.org, cap=MOST_COUNTED)
