"""Expired leases: when they are released, gaps in heartbeats, and suspects."""

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from tests.engine.job_harness import LEASE, SPEC, Holder, submit, take
from tests.engine.upkeep_harness import TERM, Connection, by_sql, hold, record
from windlass.core.jobs.job import Continuity, JobMove, Setback
from windlass.engine import upkeep
from windlass.engine.database import Tenant
from windlass.engine.jobs import control as jobs
from windlass.engine.upkeep import UpkeepResult
from windlass.engine.workers import turn
from windlass.runtime.loops.upkeep import LeaseRecovery
from windlass.testing import Clock

pytestmark = pytest.mark.usefixtures("an_hour_later")


@pytest.fixture(params=[False, True], ids=["lease of the job", "lease of the worker"])
def holder(request: pytest.FixtureRequest, db: Tenant) -> Holder:
    return Holder(db, has_lease=request.param)


# Expired leases


async def test_an_expired_lease_of_any_worker_returns_its_job_to_pending(
    db: Tenant, clock: Clock, conn: Connection
) -> None:
    ours = await submit(db)
    await take(db)
    now = clock.now() or datetime.now(UTC)
    lease = {"status": "leased", "lease_until": now + LEASE}
    go, nameless = await by_sql(conn, leased_by="go-1", **lease), await by_sql(conn, **lease)
    assert await upkeep.release_expired(db) == UpkeepResult()
    clock.move(LEASE + timedelta(seconds=1))
    assert await upkeep.release_expired(db) == UpkeepResult(released=3)
    for id_, holder in ((ours, "w1"), (go, "go-1"), (nameless, "the worker")):
        job = await jobs.get(db, id_)
        assert (job.status, job.attempt, job.lost, job.leased_by, job.lease_until) == ("pending", 0, 1, None, None)
        assert job.last_error == f"lease lost: {holder} fell silent"
        last = (await jobs.events(db, id_))[-1]
        assert (last.event_type, last.actor, last.data) == ("retried", "upkeep", {"error": job.last_error})
    assert {job.number for job in await take(db, 3)} == {2}
    assert await upkeep.release_expired(db) == UpkeepResult()


async def test_a_heartbeat_keeps_a_lease(db: Tenant, clock: Clock, holder: Holder) -> None:
    await submit(db)
    [job] = await holder.take()
    for _ in range(5):
        clock.move(LEASE - timedelta(seconds=1))
        await holder.extend(job)
        assert await upkeep.release_expired(db) == UpkeepResult()


async def rounds(db: Tenant, clock: Clock, continuity: Continuity, *waits: float) -> list[int]:
    """Run recovery after each of these waits, in seconds; return how many jobs each round released."""
    released = []
    for wait in waits:
        clock.move(timedelta(seconds=wait))
        answer = await upkeep.take_term(db, duty="recovery", holder="a", term=TERM)
        continuity.answered(answer.now, before=answer.renewed_before)
        released.append((await upkeep.release_expired(db, continuity=continuity)).released)
    return released


# Gaps between heartbeats


async def test_after_a_gap_every_worker_has_one_lease_duration_to_send_a_heartbeat(
    db: Tenant, clock: Clock, holder: Holder
) -> None:
    await submit(db)
    [job] = await holder.take()
    continuity = Continuity()
    assert await rounds(db, clock, continuity, 0, 0.5, 60, 0.5, *[1] * 28) == [0] * 32
    await holder.extend(job)
    assert await rounds(db, clock, continuity, *[1] * 30) == [0] * 30
    assert await rounds(db, clock, continuity, 1) == [1]


async def test_a_worker_that_sends_no_heartbeat_after_a_gap_loses_its_lease(
    db: Tenant, clock: Clock, holder: Holder
) -> None:
    await submit(db)
    await holder.take()
    assert await rounds(db, clock, Continuity(), 0, 60, *[1] * 29, 0.9, 0.2) == [0] * 32 + [1]


async def test_a_gap_that_leaves_time_for_a_heartbeat_does_not_delay_the_release(
    db: Tenant, clock: Clock, holder: Holder
) -> None:
    await submit(db)
    await holder.take()
    assert await rounds(db, clock, Continuity(), 0, 9, *[1] * 21, 0.5) == [0] * 23 + [1]


async def test_a_gap_that_only_the_release_statement_detects_delays_the_release(
    db: Tenant, clock: Clock, holder: Holder
) -> None:
    """The gap first shows in the result of the statement that would release the lease."""
    await submit(db)
    await holder.take()
    continuity = Continuity()
    assert await rounds(db, clock, continuity, 0) == [0]
    clock.move(timedelta(minutes=1))
    assert await upkeep.release_expired(db, continuity=continuity) == UpkeepResult()


async def test_a_standby_that_takes_over_from_a_dead_leader_sees_no_gap(
    db: Tenant, clock: Clock, holder: Holder
) -> None:
    await submit(db)
    await holder.take()
    waiting = Continuity()
    assert await hold(db, "dead")
    assert await rounds(db, clock, waiting, *[0.5] * 60, 0.5) == [0] * 60 + [1]


async def test_a_process_that_starts_after_an_outage_waits_one_lease_duration_before_a_release(
    db: Tenant, clock: Clock, holder: Holder
) -> None:
    await submit(db)
    await holder.take()
    assert await hold(db, "former")
    clock.move(timedelta(minutes=5))
    assert await rounds(db, clock, Continuity(), 0, *[1] * 29, 1) == [0] * 30 + [1]


async def test_a_process_that_starts_after_a_clean_shutdown_does_not_wait(
    db: Tenant, clock: Clock, holder: Holder
) -> None:
    await submit(db)
    await holder.take()
    assert await hold(db, "former")
    clock.move(timedelta(seconds=28))
    await upkeep.resign_term(db, duty="recovery", holder="former")
    clock.move(timedelta(seconds=3))
    assert await rounds(db, clock, Continuity(), 0) == [1]


async def suspects(holder: Holder, clock: Clock, conn: Connection, count: int) -> list[UUID]:
    """Return jobs that would fail with one more lost lease, all held by one Python worker."""
    db = holder.db
    ids = await jobs.submit(db, [replace(SPEC, max_attempts=2)] * count)
    await turn.register(db, id_="w1", host="h", pid=1, queues=["default"], types=["a"], concurrency=9)
    for _ in range(2):
        assert len(await holder.take(count)) == count
        if not await conn.fetchval("select bool_and(alone) from workflow.workflow_run"):
            clock.move(LEASE * 2)
            await upkeep.release_expired(db)
    return ids


# Suspects


async def test_suspects_that_lose_their_leases_together_are_not_charged_an_attempt(
    db: Tenant, clock: Clock, conn: Connection, holder: Holder
) -> None:
    ids = await suspects(holder, clock, conn, 3)
    clock.move(LEASE * 2)
    assert await upkeep.release_expired(db) == UpkeepResult(released=3)
    rows = [await jobs.get(db, id_) for id_ in ids]
    assert {(row.status, row.lost) for row in rows} == {("pending", 1)}
    assert await conn.fetchval("select bool_and(alone) from workflow.workflow_run")


async def test_suspects_of_a_dead_worker_are_released_together_once_all_their_leases_expired(
    db: Tenant, clock: Clock, conn: Connection
) -> None:
    ids = await suspects(Holder(db, has_lease=False), clock, conn, 2)
    later = "update workflow.workflow_run set lease_until = lease_until + interval '5 seconds' where id = $1"
    await conn.execute(later, ids[1])
    clock.move(LEASE + timedelta(seconds=1))
    assert await upkeep.release_expired(db) == UpkeepResult()
    clock.move(timedelta(seconds=5))
    assert await upkeep.release_expired(db) == UpkeepResult(released=2)


async def test_a_suspect_that_loses_its_lease_alone_fails(
    db: Tenant, clock: Clock, conn: Connection, holder: Holder
) -> None:
    await suspects(holder, clock, conn, 1)
    clock.move(LEASE * 2)
    assert await upkeep.release_expired(db) == UpkeepResult(failed=1)


async def test_suspects_of_a_worker_that_is_not_a_python_worker_are_charged_an_attempt(
    db: Tenant, clock: Clock, conn: Connection
) -> None:
    """Such a worker does not execute suspects one at a time, so they would never fail."""
    await suspects(Holder(db, has_lease=False), clock, conn, 2)
    await conn.execute("update windlass.worker set pid = 0")
    clock.move(LEASE * 2)
    assert await upkeep.release_expired(db) == UpkeepResult(failed=2)


async def losses_until_the_end(holder: Holder, clock: Clock, id_: UUID) -> int:
    for losses in range(1, 50):
        assert [job.id for job in await holder.take()] == [id_]
        clock.move(LEASE * 2)
        swept = await upkeep.release_expired(holder.db)
        if swept == UpkeepResult(failed=1):
            return losses
        assert swept == UpkeepResult(released=1)
    raise AssertionError("the job does not end")


async def test_a_poison_job_fails_after_its_max_attempts(db: Tenant, clock: Clock, holder: Holder) -> None:
    id_ = await submit(db, max_attempts=3)
    assert await losses_until_the_end(holder, clock, id_) == 3
    job = await jobs.get(db, id_)
    assert (job.status, job.lost, job.attempt) == ("failed", 3, 0)
    assert [error["type"] for error in job.errors] == ["LeaseLost"] * 3
    assert [event.event_type for event in await jobs.events(db, id_)][-2:] == ["leased", "failed"]
    assert await take(db) == []


async def test_a_row_of_plain_sql_may_lose_its_lease_five_more_times(
    db: Tenant, clock: Clock, conn: Connection, holder: Holder
) -> None:
    id_ = await by_sql(conn, max_attempts=2)
    assert await losses_until_the_end(holder, clock, id_) == 7


async def test_lost_leases_and_failures_count_against_the_same_attempts(
    db: Tenant, clock: Clock, holder: Holder
) -> None:
    id_ = await submit(db, max_attempts=3)
    [job] = await holder.take()
    await record(db, Setback(job, JobMove.RETRY, {"message": "boom"}, timedelta()))
    assert await losses_until_the_end(holder, clock, id_) == 2


async def test_a_reopened_poison_job_has_all_its_attempts_again(db: Tenant, clock: Clock, holder: Holder) -> None:
    id_ = await submit(db, max_attempts=2)
    await losses_until_the_end(holder, clock, id_)
    await jobs.reopen(db, id_)
    assert await losses_until_the_end(holder, clock, id_) == 2


# Leader terms


async def test_a_lease_without_an_expiry_is_given_one(db: Tenant, clock: Clock, conn: Connection) -> None:
    silent = await by_sql(conn, status="leased", leased_by="me", updated_at=datetime.now(UTC) - timedelta(days=9))
    fresh = await by_sql(conn, status="leased", leased_by="me", updated_at=clock.now())
    await upkeep.date_open_leases(db)
    assert (await upkeep.release_expired(db)).released == 1
    assert (await jobs.get(db, silent)).status == "pending"
    assert (await jobs.get(db, fresh)).status == "leased"
    clock.move(timedelta(hours=1, seconds=1))
    assert (await upkeep.release_expired(db)).released == 1


async def test_a_slow_scan_for_lost_leases_is_followed_by_a_pause(db: Tenant, clock: Clock, conn: Connection) -> None:
    loop = LeaseRecovery(db, "one")
    await loop.tick()
    loop._release_at = time.monotonic() + 60  # as after a scan of six seconds
    await by_sql(conn, status="leased", leased_by="dead", lease_until=clock.now() or datetime.now(UTC))
    for _ in range(12):  # a gap of its own rounds would be taken for an outage
        clock.move(timedelta(seconds=5))
        assert (await loop.tick()).released == 0
    loop._release_at = 0.0
    assert (await loop.tick()).released == 1
