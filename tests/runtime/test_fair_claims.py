"""A worker of several orgs: no org waits behind the queue of another, and an org at its limit delays no others."""

from typing import Any

import pytest

from tests.runtime.conftest import Working, eventually
from windlass import Windlass
from windlass.core.jobs.spec import JobSpec
from windlass.engine.database import Tenant
from windlass.engine.jobs import control as jobs
from windlass.engine.orgs import control as orgs
from windlass.engine.orgs import plans

Connection = Any
SMALL = [f"small-{n}" for n in range(9)]
# How many jobs of the large org were claimed before the last job of the small ones.
AHEAD = """
select count(*) from workflow.workflow_event e join workflow.workflow_run j on j.id = e.workflow_id
 where e.event_type = 'leased' and j.org = 'large' and e.id < (
   select max(e.id) from workflow.workflow_event e join workflow.workflow_run j on j.id = e.workflow_id
    where e.event_type = 'leased' and j.org like 'small-%')"""
LEFT = "select count(*) from workflow.workflow_run where status <> 'succeeded' and org <> all($1)"


async def submit(db: Tenant, org: str, count: int) -> None:
    await jobs.submit(db.tenant(org), [JobSpec(type="a.b.v1", payload={})] * count)


@pytest.fixture
async def db_of(app: Windlass) -> Tenant:
    @app.job("a.b.v1")
    async def handle() -> None: ...

    return await app.open()


async def none_left(conn: Connection, *but: str) -> None:
    async def look() -> bool:
        return bool(await conn.fetchval(LEFT, list(but)) == 0)

    await eventually(look, seconds=60)


async def test_many_older_jobs_of_one_org_do_not_delay_the_others(
    app: Windlass, db_of: Tenant, conn: Connection, working: Working
) -> None:
    for org in ("large", *SMALL):
        await orgs.create(db_of, org)
    await submit(db_of, "large", 1500)
    for org in SMALL:
        await submit(db_of, org, 20)
    async with working(app, concurrency=20):
        await none_left(conn, "large")
    # A tenth of the places is the large org's; the last places of the small ones are not all used.
    assert await conn.fetchval(AHEAD) < 300


async def test_an_org_at_its_limit_does_not_delay_other_orgs_and_completes_its_jobs(
    app: Windlass, db_of: Tenant, conn: Connection, working: Working
) -> None:
    await plans.put(db_of, "one", {"executions_at_once": 1})
    await orgs.create(db_of, "slow", plan="one")
    await orgs.create(db_of, "quick")
    await submit(db_of, "slow", 50)
    await submit(db_of, "quick", 200)
    async with working(app, concurrency=20):
        await none_left(conn)


async def test_jobs_of_a_disabled_org_stay_pending_until_it_is_enabled(
    app: Windlass, db_of: Tenant, conn: Connection, working: Working
) -> None:
    for org in ("closed", "open"):
        await orgs.create(db_of, org)
    await submit(db_of, "closed", 5)
    await orgs.disable(db_of, "closed")
    await submit(db_of, "open", 5)
    async with working(app):
        await none_left(conn, "closed")
        assert await conn.fetchval("select count(*) from workflow.workflow_run where status = 'pending'") == 5
        await orgs.enable(db_of, "closed")
        await none_left(conn)
