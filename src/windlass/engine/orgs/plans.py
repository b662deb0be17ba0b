"""Operations on plans, for the operator: list, show, create, change and delete them, and put orgs on them."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from windlass.core.orgs import check_org
from windlass.core.plans import NO_LIMITS, UNLIMITED, check_limits, check_name
from windlass.engine.allowances import TOPIC
from windlass.engine.database import Database, Tenant
from windlass.engine.orgs import audit
from windlass.errors import Conflict, NotFound
from windlass.schemas.plans import Plan
from windlass.store.orgs import plans as store
from windlass.store.orgs import usage
from windlass.store.orgs.plans import PlanRow
from windlass.store.postgres.pool import Connection

NAMED_ORGS = 5  # in the error for deleting a plan that is in use


async def list_(db: Database) -> list[Plan]:
    """Return all plans by name."""
    async with db.once() as conn:
        return [_schema(row) for row in await store.list_(conn)]


async def get(db: Database, name: str) -> Plan:
    check_name(name)
    async with db.once() as conn:
        return await _get(conn, name)


async def put(db: Tenant, name: str, changes: Mapping[str, Any]) -> Plan:
    """Create a plan, or change some limits of one. Other limits are kept; those of a new plan are unlimited."""
    check_name(name)
    check_limits(changes)
    if name == UNLIMITED:
        raise Conflict(f"plan {UNLIMITED!r} has no limits: make another plan, and put orgs on it")
    async with db.begin() as conn:
        before = await store.lock(conn, name)
        after = replace(before or NO_LIMITS, **changes)
        await store.put(conn, name, after)
        await audit.record(conn, db, "plan.create" if before is None else "plan.change", name, **asdict(after))
        plan = await _get(conn, name)
    db.poke(TOPIC)
    return plan


async def delete(db: Tenant, name: str) -> None:
    """Delete a plan that no org has."""
    check_name(name)
    async with db.begin() as conn:
        if await store.lock(conn, name) is None:
            raise NotFound("plan", name)
        if name == UNLIMITED:
            raise Conflict(f"plan {UNLIMITED!r} is the plan of new orgs: it cannot be deleted")
        orgs = await store.orgs(conn, name, limit=NAMED_ORGS + 1)
        if orgs:
            named = ", ".join(orgs[:NAMED_ORGS]) + (", ..." if len(orgs) > NAMED_ORGS else "")
            raise Conflict(f"plan {name!r} is used by {named}: put them on another plan first (windlass orgs set-plan)")
        await store.delete(conn, name)
        await audit.record(conn, db, "plan.delete", name)


async def assign(db: Tenant, org: str, plan: str) -> None:
    """Set an org's plan."""
    check_org(org)
    check_name(plan)
    async with db.begin() as conn:
        if await store.lock(conn, plan) is None:
            raise NotFound("plan", plan)
        former = await store.assign(conn, org, plan)
        if former is None:
            raise NotFound("org", org)
        await usage.begin(conn)  # executions count from now on, even if nothing was counted before
        await audit.record(conn, db, "org.plan", org, plan=plan, before=former)
    db.poke(TOPIC)


async def _get(conn: Connection, name: str) -> Plan:
    rows = await store.list_(conn, name=name)
    if not rows:
        raise NotFound("plan", name)
    return _schema(rows[0])


def _schema(row: PlanRow) -> Plan:
    return Plan(
        name=row.name, **asdict(row.limits), orgs=row.orgs, created_at=row.created_at, updated_at=row.updated_at
    )
