"""Jobs whose rate or concurrency limit is exhausted leave the lane and return in order: they delay no others and cost
nothing."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from windlass.core.jobs.job import Claimed, Succeeded, Success
from windlass.core.jobs.spec import JobSpec, Limit
from windlass.engine import upkeep
from windlass.engine.database import Tenant
from windlass.engine.jobs import control as jobs
from windlass.engine.jobs import queues as job_queues
from windlass.engine.jobs import submit
from windlass.engine.workers import remote, remote_reports, turn
from windlass.engine.workers.remote import Fetch
from windlass.engine.workers.remote_reports import RemoteReport
from windlass.errors import Invalid
from windlass.testing import Clock

pytestmark = pytest.mark.usefixtures("an_hour_later")

Connection = Any
LEASE = timedelta(seconds=30)
FREE = JobSpec(type="mail.send.v1")
HOURLY = Limit(key="tenant-a", rate=1.0, period=timedelta(hours=1))
ALONE = Limit(key="tenant-a", concurrency=1)


async def push(db: Tenant, limit: Limit, count: int, **fields: Any) -> list[UUID]:
    spec = JobSpec(type="mail.send.v1", limit=limit, **fields)
    return [pushed.job.id for pushed in await submit.push(db, [spec] * count)]


async def fetch(db: Tenant, count: int = 1, *queues: str) -> list[UUID]:
    [found] = await remote.fetch(db, [Fetch(queues=queues or ["default"], count=count, worker="w")])
    return [job.id for job in found]


async def claim(db: Tenant, count: int = 10) -> list[Claimed]:
    lanes = [(replace(lane, seq=0), count) for lane in await turn.look(db, ["default"])]
    return (await turn.turn(db, turn.Turn(worker="w", lease=LEASE, lanes=lanes, count=count)))[0]


async def end(db: Tenant, id_: UUID) -> None:
    await remote_reports.record(db, [RemoteReport(id_, Succeeded("1"))])


async def in_lane(conn: Connection) -> int:
    count: int = await conn.fetchval("select count(*) from workflow.workflow_run where status = 'pending' and due")
    return count


async def test_many_jobs_of_a_blocked_key_hide_no_other_job_from_a_fetch_of_one(db: Tenant, conn: Connection) -> None:
    first, *blocked = await push(db, HOURLY, 13)
    free = await jobs.submit(db, [FREE] * 3)
    assert [await fetch(db) for _ in range(5)] == [[first], [free[0]], [free[1]], [free[2]], []]
    assert await in_lane(conn) == 0
    assert len(blocked) == await conn.fetchval("select count(*) from windlass.rate_line")


async def test_many_jobs_of_a_blocked_key_hide_no_other_job_from_a_python_worker(db: Tenant, conn: Connection) -> None:
    first, *_ = await push(db, HOURLY, 13)
    free = await jobs.submit(db, [FREE] * 3)
    assert [job.id for job in await claim(db)] == [first, *free]
    assert await in_lane(conn) == 0
    assert await claim(db) == []


async def test_a_claim_does_not_read_jobs_of_a_blocked_key_once_they_left_the_lane(
    db: Tenant, conn: Connection
) -> None:
    await push(db, HOURLY, 1)
    await claim(db)
    await push(db, HOURLY, 500)
    while await in_lane(conn):
        assert await claim(db) == []
    assert await turn.look(db, ["default"]) == []


async def test_jobs_of_a_key_are_claimed_in_order_and_at_the_rate_of_the_key(db: Tenant, clock: Clock) -> None:
    ids = await push(db, Limit(key="k", rate=1.0, period=timedelta(minutes=1)), 5)
    taken = await fetch(db, 10)
    for _ in range(4):
        clock.move(timedelta(seconds=59))
        assert await fetch(db, 10) == []
        clock.move(timedelta(seconds=1))
        taken += await fetch(db, 10)
    assert taken == ids


async def test_a_new_job_does_not_overtake_waiting_jobs_of_its_key(db: Tenant, clock: Clock) -> None:
    ids = await push(db, HOURLY, 3)
    assert await fetch(db, 10) == ids[:1]
    ids += await push(db, HOURLY, 1)
    taken = []
    for _ in range(3):
        clock.move(timedelta(hours=1))
        taken += await fetch(db, 10)
    assert taken == ids[1:]


async def test_the_end_of_a_job_admits_the_next_job_of_its_key_immediately(db: Tenant) -> None:
    ids = await push(db, ALONE, 4)
    taken = await fetch(db, 10)
    for _ in range(3):
        assert await fetch(db, 10) == []
        await end(db, taken[-1])
        taken += await fetch(db, 10)
    assert taken == ids


async def test_a_completion_by_plain_sql_admits_the_next_job_of_its_key(db: Tenant, conn: Connection) -> None:
    first, second = await push(db, ALONE, 2)
    assert await fetch(db, 10) == [first]
    assert await fetch(db, 10) == []
    await conn.execute("update workflow.workflow_run set status = 'succeeded', result = '1' where id = $1", first)
    assert await fetch(db, 10) == [second]


async def test_completions_in_one_statement_admit_as_many_jobs_of_each_key(db: Tenant, conn: Connection) -> None:
    key = 'a "quoted", key'
    pair = await push(db, Limit(key="pair", concurrency=2), 5)
    alone = await push(db, Limit(key=key, concurrency=1), 3)
    assert set(await fetch(db, 10)) == {*pair[:2], *alone[:1]}
    assert await fetch(db, 10) == []
    ended = [*pair[:2], *alone[:1]]
    await conn.execute("update workflow.workflow_run set status = 'succeeded', result = '1' where id = any($1)", ended)
    assert set(await fetch(db, 10)) == {*pair[2:4], alone[1]}
    assert await fetch(db, 10) == []


async def test_running_and_waiting_jobs_of_a_key_can_be_cancelled_together(db: Tenant) -> None:
    ids = await push(db, ALONE, 3)
    assert await fetch(db, 10) == ids[:1]
    assert await jobs.cancel_many(db, ids[:2]) == set(ids[:2])
    assert await job_queues.wake_rate_limited(db) <= 1
    assert await fetch(db, 10) == ids[2:]


async def test_a_raised_limit_admits_waiting_jobs(db: Tenant) -> None:
    ids = await push(db, ALONE, 3)
    assert await fetch(db, 10) == ids[:1]
    ids += await push(db, replace(ALONE, concurrency=3), 1)
    assert await job_queues.wake_rate_limited(db) == 2
    assert await fetch(db, 10) == ids[1:3]


async def test_a_waiting_job_in_a_queue_without_workers_does_not_block_its_key(db: Tenant, clock: Clock) -> None:
    [first] = await push(db, HOURLY, 1)
    await push(db, HOURLY, 2, queue="nobody")
    [mine] = await push(db, HOURLY, 1)
    assert await fetch(db, 10, "default", "nobody") == [first]
    clock.move(timedelta(hours=2))
    for _ in range(3):
        await job_queues.wake_rate_limited(db)
    assert await fetch(db, 10) == [mine]


async def test_a_fetch_for_several_workers_counts_each_job_once(db: Tenant) -> None:
    ids = await push(db, Limit(key="k", concurrency=2), 3)
    wishes = [Fetch(queues=["default"], count=1, worker=f"w{n}") for n in range(3)]
    found = await remote.fetch(db, wishes)
    assert [[job.id for job in each] for each in found] == [[ids[0]], [ids[1]], []]


async def test_concurrent_claims_respect_the_limit(db: Tenant, database: str) -> None:
    limit = Limit(key="k", concurrency=3)
    await push(db, limit, 40)
    done = most = 0
    while done < 40:
        taken = [id_ for some in await asyncio.gather(*(fetch(db, 5) for _ in range(4))) for id_ in some]
        assert len(taken) <= 3
        most = max(most, len(taken))
        await asyncio.gather(*(end(db, id_) for id_ in taken))
        await job_queues.wake_rate_limited(db)
        done += len(taken)
    assert most == 3


async def test_a_report_of_a_python_worker_admits_the_next_job_of_its_key(db: Tenant) -> None:
    await push(db, ALONE, 2)
    [first] = await claim(db)
    assert await claim(db) == []
    await turn.turn(db, turn.Turn(worker="w", lease=LEASE, reports=[Success(first, "1")]))
    assert len(await claim(db)) == 1


async def test_rate_limit_entries_of_cancelled_jobs_are_deleted(db: Tenant, conn: Connection) -> None:
    ids = await push(db, HOURLY, 4)
    await fetch(db, 10)
    await jobs.cancel_many(db, ids)
    await upkeep.tend(db, age=timedelta(days=30))
    assert await conn.fetchval("select count(*) from windlass.rate_line") == 0


async def test_unused_limits_are_deleted(db: Tenant, clock: Clock, conn: Connection) -> None:
    [done] = await push(db, replace(HOURLY, key="old"), 1)
    assert await fetch(db) == [done]
    await end(db, done)
    await push(db, replace(HOURLY, key="wanted"), 1)
    clock.move(timedelta(days=31))
    await upkeep.tend(db, age=timedelta(days=30))
    assert [row[0] for row in await conn.fetch("select key from windlass.rate")] == ["default/wanted"]


@pytest.mark.parametrize(
    ("limit", "field"),
    [
        ({"rate": 1e-9}, "options.rate_limit"),
        ({"rate": 1.0, "period": timedelta(days=32)}, "options.rate_limit"),
        ({"rate": 1.0, "period": timedelta()}, "options.rate_limit.period"),
        ({"concurrency": 10_000_000_000}, "options.rate_limit.concurrency"),
        ({"concurrency": 0}, "options.rate_limit.concurrency"),
    ],
)
def test_an_invalid_limit_is_refused_with_its_field(limit: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as refused:
        Limit(key="k", **limit)
    assert refused.value.field == field
