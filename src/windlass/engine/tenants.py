"""Tenants: a label that producers put on jobs (`meta.tenant_id`), and how many jobs carry it."""

from windlass.core.document import encode
from windlass.engine.unit import Unit
from windlass.store import tenants as store

MOST = 1000
MOST_COUNTED = 10_000


async def list_(unit: Unit) -> list[str]:
    """Those that have jobs, by name."""
    async with unit.once() as conn:
        return await store.list_(conn, org=unit.org, limit=MOST)


async def counts(unit: Unit, tenant: str) -> dict[str, int]:
    """How many jobs of a tenant there are, by state; MOST_COUNTED of them are looked at."""
    encode(tenant, field="tenant")
    async with unit.once() as conn:
        return await store.counts(conn, tenant, org=unit.org, cap=MOST_COUNTED)
