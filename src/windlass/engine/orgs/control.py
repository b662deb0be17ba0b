"""Operations on organisations, for the operator of the installation: create, list, disable and enable them."""

from windlass.core.jobs.spec import check_range
from windlass.core.json_value import encode
from windlass.core.orgs import DEFAULT_ORG, SEPARATOR, check_org
from windlass.engine.allowances import TOPIC
from windlass.engine.database import Database, Tenant
from windlass.engine.orgs import audit
from windlass.errors import Conflict, Invalid, NotFound
from windlass.schemas.common import PAGE_LIMIT, Page
from windlass.schemas.orgs import Org
from windlass.store.orgs import orgs as store
from windlass.store.orgs import usage

__all__ = ["TOPIC"]
DEFAULT_PLAN = "unlimited"


async def create(db: Tenant, name: str, *, plan: str = DEFAULT_PLAN) -> Org:
    """Create an org on a plan."""
    check_org(name)
    async with db.begin() as conn:
        if plan not in (plans := await store.plans(conn)):
            raise Invalid(f"plan is {plan!r}: one of {', '.join(plans)}", field="plan")
        queue = await store.default_queue(conn, f"{name}{SEPARATOR}")
        if queue is not None:  # it would be taken for a queue of the new org
            raise Conflict(f"org {DEFAULT_ORG} has a queue {queue!r}: choose a name that no queue begins with")
        row = await store.insert(conn, name, plan=plan)
        if row is None:
            raise Conflict(f"org {name} exists")
        await store.create_api_role(conn)
        await usage.begin(conn)  # executions count from now on, even if nothing was counted before
        await audit.record(conn, db, "org.create", name, plan=plan)
    db.poke(TOPIC)
    return row


async def list_(db: Database, *, after: str = "", limit: int = 100) -> Page[Org]:
    """Return a page of orgs by name."""
    encode(after, field="after")
    check_range(limit, "limit", most=PAGE_LIMIT)
    async with db.once() as conn:
        rows = await store.list_(conn, after=after, limit=limit)
    return Page(rows, rows[-1].name if len(rows) == limit else None)


async def get(db: Database, name: str) -> Org:
    async with db.once() as conn:
        row = await store.get(conn, check_org(name))
    if row is None:
        raise NotFound("org", name)
    return row


async def disable(db: Tenant, name: str) -> Org:
    """Disable an org: its keys and sessions are refused, its schedules and jobs wait until it is enabled again."""
    if check_org(name) == DEFAULT_ORG:
        raise Conflict(f"org {DEFAULT_ORG} cannot be disabled")
    async with db.begin() as conn:
        row = await store.disable(conn, name)
        if row is None:
            raise NotFound("org", name)
        await audit.record(conn, db, "org.disable", name)
    db.poke(TOPIC)
    return row


async def enable(db: Tenant, name: str) -> Org:
    check_org(name)
    async with db.begin() as conn:
        row = await store.enable(conn, name)
        if row is None:
            raise NotFound("org", name)
        await audit.record(conn, db, "org.enable", name)
    db.poke(TOPIC)
    return row


async def is_alone(db: Database) -> bool:
    """Return whether `default` is the only org."""
    async with db.once() as conn:
        return await store.is_alone(conn)
