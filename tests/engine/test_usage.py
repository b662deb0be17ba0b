"""Usage: each execution is counted once, for its org and month, without a row on which producers contend."""

import asyncio
from datetime import UTC, date, datetime
from typing import Any

import asyncpg
import pytest

from tests.engine.harness import ManualWorker, begin, node, publish
from tests.engine.test_restored import simulate_restore
from windlass.core.jobs.spec import JobSpec
from windlass.engine.database import Tenant
from windlass.engine.jobs import control as jobs
from windlass.engine.orgs import control as orgs
from windlass.engine.orgs import plans, usage
from windlass.runtime.loops.upkeep import LeaseRecovery, Upkeep
from windlass.store.postgres import migrate
from windlass.testing import Clock

Connection = Any
JUNE, JULY = date(2030, 6, 1), date(2030, 7, 1)


async def submit(db: Tenant, count: int) -> None:
    await jobs.submit(db, [JobSpec(type="a.b.v1", payload={})] * count)


async def counts(conn: Connection) -> dict[tuple[str, date], int]:
    return {(org, month): n for org, month, n in await conn.fetch("select org, month, executions from windlass.usage")}


async def total(conn: Connection) -> int:
    return sum((await counts(conn)).values())


@pytest.fixture
async def acme(db: Tenant, conn: Connection) -> Tenant:
    await conn.execute("insert into windlass.org (name, plan) values ('acme', 'pro')")
    return db.tenant("acme")


async def test_steps_and_standalone_jobs_are_counted_by_org_and_month(
    db: Tenant, acme: Tenant, conn: Connection, clock: Clock
) -> None:
    clock.set(datetime(2030, 6, 30, 23, 59, tzinfo=UTC))
    await usage.count(db)
    await submit(db, 3)
    await submit(acme, 2)
    await publish(acme, node("a"), node("b", "a"))
    await begin(acme)
    await ManualWorker(acme).play()
    clock.set(datetime(2030, 7, 1, 0, 1, tzinfo=UTC))
    await submit(acme, 4)
    assert await usage.count(db) == usage.Metered(11, False)
    assert await counts(conn) == {("default", JUNE): 3, ("acme", JUNE): 4, ("acme", JULY): 4}
    assert await usage.count(db) == usage.Metered()


async def test_executions_before_the_first_count_are_not_counted(db: Tenant, conn: Connection) -> None:
    await submit(db, 3)
    await usage.count(db)
    await submit(db, 2)
    await usage.count(db)
    assert await total(conn) == 2


async def test_executions_of_an_org_count_from_the_moment_it_has_a_plan(db: Tenant, conn: Connection) -> None:
    await orgs.create(db, "acme", plan="free")
    await submit(db.tenant("acme"), 3)
    await usage.count(db)
    assert await total(conn) == 3


async def test_a_transaction_that_commits_late_is_counted_once(db: Tenant, conn: Connection, database: str) -> None:
    await usage.count(db)
    late = await asyncpg.connect(database)
    transaction = late.transaction()
    await transaction.start()
    await jobs.submit(db, [JobSpec(type="a.b.v1", payload={})], connection=late)
    await submit(db, 2)
    assert (await usage.count(db)).executions == 2
    await transaction.commit()
    await late.close()
    assert (await usage.count(db)).executions == 1
    assert (await usage.count(db)).executions == 0
    assert await total(conn) == 3


async def test_the_count_catches_up_after_an_outage_in_bounded_batches(
    db: Tenant, acme: Tenant, conn: Connection
) -> None:
    await usage.count(db)
    for _ in range(10):
        await submit(acme, 5)
    batches = 0
    while (metered := await usage.count(db, batch=3)).more:
        batches += 1
        assert metered.executions <= 15
    assert batches >= 3
    assert list((await counts(conn)).values()) == [50]


async def test_concurrent_counts_and_submits_count_each_execution_exactly_once(
    db: Tenant, other_db: Tenant, acme: Tenant, conn: Connection
) -> None:
    await usage.count(db)
    done = asyncio.Event()

    async def meter(of: Tenant) -> None:
        while not done.is_set():
            await usage.count(of, batch=10)

    metering = [asyncio.create_task(meter(of)) for of in (db, other_db)]
    await asyncio.gather(*(submit(of, 1 + n % 3) for n in range(30) for of in (db, acme)))
    done.set()
    await asyncio.gather(*metering)
    while (await usage.count(db)).more:
        pass
    by_org = {org: n for (org, _), n in (await counts(conn)).items()}
    assert by_org == {"default": 60, "acme": 60}


async def test_a_plan_with_a_monthly_limit_is_counted_by_org_even_for_the_only_org(
    db: Tenant, conn: Connection
) -> None:
    await plans.put(db, "small", {"executions_per_month": 5})
    await plans.assign(db, "default", "small")
    await usage.count(db)
    await submit(db, 2)
    await usage.count(db)
    assert [(org, n) for (org, _), n in (await counts(conn)).items()] == [("default", 2)]


async def test_a_count_restored_from_another_cluster_continues(db: Tenant, conn: Connection) -> None:
    await usage.count(db)
    await submit(db, 2)
    await usage.count(db)
    await simulate_restore(conn)
    assert (await usage.count(db)).executions == 0  # a process that was not restarted
    await simulate_restore(conn)
    assert await migrate.renumber_restored(conn)
    await usage.count(db)
    await submit(db, 3)
    await usage.count(db)
    assert await total(conn) == 5


async def test_the_upkeep_loop_counts_usage_at_most_once_a_second(db: Tenant, conn: Connection) -> None:
    recovery = LeaseRecovery(db, "me")
    await recovery.tick()
    loop = Upkeep(db, recovery)
    await loop.tick()
    await submit(db, 2)
    await loop.tick()
    assert await total(conn) == 0  # not more than once a second
    await Upkeep(db, recovery).tick()
    assert await total(conn) == 2
