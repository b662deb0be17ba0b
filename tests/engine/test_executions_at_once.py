"""Concurrent executions: the limit of a plan is counted from leased jobs and binds every kind of worker."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from tests.engine.harness import ManualWorker
from windlass.core.jobs.spec import JobSpec
from windlass.engine import upkeep
from windlass.engine.database import Tenant
from windlass.engine.jobs import control as jobs
from windlass.engine.orgs import control as orgs
from windlass.engine.orgs import plans
from windlass.engine.workers import remote
from windlass.engine.workers.remote import Fetch
from windlass.testing import Clock

Connection = Any
LEASED = "select count(*) from workflow.workflow_run where status = 'leased' and org = 'acme'"


@pytest.fixture
async def acme(db: Tenant) -> Tenant:
    """An org with ten jobs that may execute three at a time."""
    await plans.put(db, "small", {"executions_at_once": 3})
    await orgs.create(db, "acme", plan="small")
    acme = db.tenant("acme")
    await jobs.submit(acme, [JobSpec(type="a.b.v1", payload={})] * 10)
    return acme


async def test_a_worker_claims_up_to_the_limit_and_more_when_jobs_end(acme: Tenant) -> None:
    worker = ManualWorker(acme)
    first = await worker.take()
    assert len(first) == 3
    assert await worker.take() == []
    await worker.end(first[0])
    assert len(await worker.take()) == 1


async def test_workers_that_claim_concurrently_share_the_limit(
    acme: Tenant, other_db: Tenant, conn: Connection
) -> None:
    workers = [ManualWorker(acme, "w1"), ManualWorker(other_db.tenant("acme"), "w2")]
    for _ in range(4):
        claims = await asyncio.gather(*(worker.take() for worker in workers for _ in range(3)))
        assert sum(map(len, claims)) == 3
        assert await conn.fetchval(LEASED) == 3
        for worker, claimed in zip([w for w in workers for _ in range(3)], claims, strict=True):
            for job in claimed:
                await worker.end(job)
        if not await conn.fetchval("select count(*) from workflow.workflow_run where status = 'pending'"):
            return
        await jobs.submit(acme, [JobSpec(type="a.b.v1", payload={})] * 3)


async def test_workers_that_use_http_have_the_same_limit(acme: Tenant, conn: Connection) -> None:
    wishes = [Fetch(queues=["default"], count=2, worker=f"h{n}") for n in range(3)]
    assert [len(batch) for batch in await remote.fetch(acme, wishes)] == [2, 1, 0]
    assert await ManualWorker(acme).take() == []
    batches = await asyncio.gather(*(remote.fetch(acme, wishes) for _ in range(5)))
    assert [batch for batch in batches if any(batch)] == []
    assert await conn.fetchval(LEASED) == 3


async def test_the_end_of_a_job_wakes_its_queue(acme: Tenant) -> None:
    topics: list[str] = []
    worker = ManualWorker(acme)
    job, *_ = await worker.take()
    with acme.subscribe(topics.append):
        await worker.end(job)
    assert "acme/default" in topics


async def test_a_lost_lease_frees_its_slot(acme: Tenant, clock: Clock) -> None:
    assert len(await ManualWorker(acme, "dead").take()) == 3
    assert await ManualWorker(acme, "w2").take() == []
    clock.move(timedelta(minutes=1))
    assert (await upkeep.release_expired(acme)).released == 3
    assert len(await ManualWorker(acme, "w2").take()) == 3


async def test_the_limit_of_one_org_does_not_delay_other_orgs(acme: Tenant, db: Tenant) -> None:
    await jobs.submit(db, [JobSpec(type="a.b.v1", payload={})] * 10)
    await ManualWorker(acme).take()
    assert len(await ManualWorker(db).take()) == 10


async def test_jobs_of_a_disabled_org_are_not_claimed(acme: Tenant, db: Tenant) -> None:
    await orgs.disable(db, "acme")
    assert await ManualWorker(acme).take() == []
    assert await remote.fetch(acme, [Fetch(queues=["default"], count=5, worker="h", lease=timedelta(seconds=5))]) == [
        []
    ]
    await orgs.enable(db, "acme")
    assert len(await ManualWorker(acme).take()) == 3


async def test_a_raised_limit_allows_more_claims(acme: Tenant, db: Tenant) -> None:
    worker = ManualWorker(acme)
    await worker.take()
    await plans.put(db, "small", {"executions_at_once": 5})
    assert len(await worker.take()) == 2
    await plans.assign(db, "acme", "unlimited")
    assert len(await worker.take()) == 5
