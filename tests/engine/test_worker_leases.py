"""The lease of a worker: one row extends all jobs that its process has claimed, and no others."""

from datetime import timedelta
from uuid import UUID

import pytest

from tests.engine.job_harness import LEASE, SPEC, Holder, submit, take
from tests.engine.upkeep_harness import Connection, by_sql, hold, record
from windlass.core.jobs.job import Claimed, Success
from windlass.engine import upkeep
from windlass.engine.database import Tenant
from windlass.engine.jobs import control as jobs
from windlass.engine.upkeep import UpkeepResult
from windlass.engine.workers import turn
from windlass.runtime.loops.upkeep import LeaseRecovery
from windlass.testing import Clock

pytestmark = pytest.mark.usefixtures("an_hour_later")
SETTLED = timedelta(seconds=5)
LEASES = "select leased_by, worker_lease, lease_until is null from workflow.workflow_run where id = $1"
# The statement by which a process of the previous version sets an expiry for leases without one.
DATE_AS_BEFORE = """
update workflow.workflow_run set lease_until = least(updated_at, windlass.now()) + interval '1 hour'
 where status = 'leased' and lease_until is null"""


@pytest.fixture
def holder(db: Tenant) -> Holder:
    return Holder(db)


async def lose_claim_response(db: Tenant, holder: Holder) -> Claimed:
    """Claim a job under the holder's lease, as if the response of the claim had been lost."""
    await submit(db)
    [job] = await take(db, worker_lease=holder.lease)
    return job


async def part(holder: Holder, *known: Claimed) -> list[UUID]:
    assert holder.lease is not None
    fences = {job.fence for job in known}
    return await turn.part_unknown(holder.db, holder.lease, lambda: fences, older_than=SETTLED, lease=LEASE)


async def released(db: Tenant) -> int:
    return (await upkeep.release_expired(db)).released


# One row for all jobs


async def test_one_extension_keeps_the_leases_of_all_jobs_without_writing_to_their_rows(
    db: Tenant, clock: Clock, conn: Connection, holder: Holder
) -> None:
    ids = await jobs.submit(db, [SPEC] * 3)
    await holder.take(3)
    rows = await conn.fetch("select xmin::text, ctid::text from workflow.workflow_run order by id")
    for _ in range(3):
        clock.move(LEASE - timedelta(seconds=1))
        await holder.extend()
        assert await upkeep.release_expired(db) == UpkeepResult()
    assert await conn.fetch("select xmin::text, ctid::text from workflow.workflow_run order by id") == rows
    for id_ in ids:
        assert [event.event_type for event in await jobs.events(db, id_)] == ["created", "leased"]
    clock.move(LEASE + timedelta(seconds=1))
    assert await released(db) == 3


async def test_a_job_is_shown_with_the_lease_of_its_worker(
    db: Tenant, clock: Clock, conn: Connection, holder: Holder
) -> None:
    id_ = await submit(db)
    await holder.take()
    clock.move(LEASE / 2)
    await holder.extend()
    until = await conn.fetchval("select until from windlass.worker_lease")
    assert (await jobs.get(db, id_)).lease_until == until
    assert [job.lease_until for job in (await jobs.list_(db)).jobs] == [until]
    assert await conn.fetchval("select lease_until from workflow.workflow_run") is None


async def test_a_plain_sql_sweeper_never_releases_a_job_with_a_worker_lease(
    db: Tenant, clock: Clock, conn: Connection, holder: Holder
) -> None:
    await submit(db)
    await holder.take()
    clock.move(timedelta(days=30))
    swept = "select count(*) from workflow.workflow_run where status = 'leased' and lease_until < windlass.now()"
    assert await conn.fetchval(swept) == 0


async def test_a_report_and_a_cancel_clear_the_worker_lease_of_a_job(
    db: Tenant, conn: Connection, holder: Holder
) -> None:
    await submit(db)
    [job] = await holder.take()
    await record(db, Success(job, "1"))
    cancelled = await submit(db)
    await holder.take()
    await jobs.cancel(db, cancelled)
    assert await conn.fetchval("select count(*) from workflow.workflow_run where worker_lease is not null") == 0


async def test_a_claim_under_a_worker_lease_that_ends_soon_gives_each_job_its_own_lease(
    db: Tenant, clock: Clock, conn: Connection, holder: Holder
) -> None:
    """The process did not extend its lease for a while: this must not shorten the leases of new claims."""
    early, late = await submit(db), None
    await holder.take()
    clock.move(LEASE * 0.7)
    late = await submit(db)
    await take(db, worker_lease=holder.lease)
    assert [tuple(await conn.fetchrow(LEASES, id_)) for id_ in (early, late)] == [
        ("w1", holder.lease, True),
        ("w1", None, False),
    ]
    clock.move(LEASE * 0.7)
    assert await released(db) == 1
    assert (await jobs.get(db, late)).status == "leased"


async def test_jobs_with_their_own_leases_are_distinguished_from_jobs_of_the_worker_lease(
    db: Tenant, holder: Holder
) -> None:
    await submit(db)
    [ours] = await holder.take()
    await submit(db)
    [own] = await take(db)
    held = await turn.held(db, [ours.fence, own.fence], worker="w1")
    assert {lease.fence: lease.extended for lease in held} == {ours.fence: True, own.fence: False}


# Jobs that the process does not run


async def test_a_job_whose_claim_response_was_lost_is_released_while_its_worker_is_alive(
    db: Tenant, clock: Clock, holder: Holder
) -> None:
    await submit(db)
    [known] = await holder.take()
    unknown = await lose_claim_response(db, holder)
    assert await part(holder, known) == []  # it may be a claim under way
    clock.move(SETTLED)
    assert await part(holder, known) == [unknown.id]
    assert await part(holder, known) == []
    for _ in range(3):
        clock.move(LEASE / 2)
        await holder.extend()
        await upkeep.release_expired(db)
    assert [(await jobs.get(db, job.id)).status for job in (known, unknown)] == ["leased", "pending"]
    assert (await jobs.get(db, unknown.id)).lost == 1


async def test_a_job_whose_claim_response_was_late_keeps_its_lease(db: Tenant, clock: Clock, holder: Holder) -> None:
    await submit(db)
    await holder.take()
    late = await lose_claim_response(db, holder)
    clock.move(SETTLED)
    assert late.id in await part(holder)
    for _ in range(3):
        clock.move(LEASE / 2)
        await holder.extend()
        assert await turn.heartbeat(db, [late.fence], worker="w1", lease=LEASE) == [(*late.fence, False, True)]
        await upkeep.release_expired(db)
    assert (await jobs.get(db, late.id)).status == "leased"


async def test_an_adopted_job_gets_its_own_lease(db: Tenant, clock: Clock, conn: Connection, holder: Holder) -> None:
    """It may have been claimed under the lease of the previous process with this id."""
    id_ = await submit(db)
    await holder.take()
    clock.move(LEASE - timedelta(seconds=1))
    [job] = await turn.adopt(db, worker="w1", held=(), lease=LEASE)
    assert (job.id, tuple(await conn.fetchrow(LEASES, id_))) == (id_, ("w1", None, False))
    clock.move(timedelta(seconds=2))
    assert await released(db) == 0


# Processes with the same id, deleted rows, suspended processes


async def test_a_process_does_not_extend_the_leases_of_another_process_with_its_id(db: Tenant, clock: Clock) -> None:
    dead, alive = Holder(db), Holder(db)
    first = await submit(db)
    await dead.take()
    second = await submit(db)
    await alive.take()
    clock.move(LEASE - timedelta(seconds=1))
    await alive.extend()
    assert await part(alive) == [second]  # and never one of the other process
    clock.move(timedelta(seconds=2))
    assert await released(db) == 1
    assert [(await jobs.get(db, id_)).status for id_ in (first, second)] == ["pending", "leased"]


async def test_a_worker_lease_does_not_depend_on_the_row_of_the_worker(
    db: Tenant, clock: Clock, conn: Connection, holder: Holder
) -> None:
    await turn.register(db, id_="w1", host="h", pid=1, queues=["default"], types=["a"], concurrency=9)
    await submit(db)
    await holder.take()
    await conn.execute("delete from windlass.worker")
    clock.move(LEASE - timedelta(seconds=1))
    await holder.extend()
    clock.move(timedelta(seconds=2))
    assert await released(db) == 0
    clock.move(LEASE)
    assert await released(db) == 1


async def test_jobs_of_a_worker_lease_that_does_not_exist_are_released(
    db: Tenant, clock: Clock, conn: Connection, holder: Holder
) -> None:
    await submit(db)
    await holder.take()
    await conn.execute("delete from windlass.worker_lease")
    assert await released(db) == 0
    await upkeep.date_open_leases(db)
    clock.move(LEASE + timedelta(seconds=1))
    assert await released(db) == 1


async def test_a_live_process_recreates_its_deleted_lease(
    db: Tenant, clock: Clock, conn: Connection, holder: Holder
) -> None:
    await submit(db)
    await holder.take()
    await conn.execute("delete from windlass.worker_lease")
    await holder.extend()
    await upkeep.date_open_leases(db)
    clock.move(LEASE - timedelta(seconds=1))
    await holder.extend()
    clock.move(timedelta(seconds=2))
    assert await released(db) == 0


async def test_a_process_suspended_beyond_its_lease_keeps_only_jobs_that_were_not_released(
    db: Tenant, clock: Clock, holder: Holder
) -> None:
    await jobs.submit(db, [SPEC] * 3)
    held = await holder.take(3)
    clock.move(LEASE + timedelta(seconds=1))
    assert (await upkeep.release_expired(db, batch=2)).released == 2
    await holder.extend()
    assert await released(db) == 0
    left = {lease.fence for lease in await turn.held(db, [job.fence for job in held], worker="w1")}
    assert len(left) == 1
    reports = [Success(job, '"late"') for job in held]
    _, recorded = await turn.turn(db, turn.Turn(worker="w1", lease=LEASE, reports=reports))
    assert recorded == {id_ for id_, _ in left}


async def test_the_lease_of_a_stopped_worker_is_deleted_unless_it_still_has_jobs(
    db: Tenant, conn: Connection, holder: Holder
) -> None:
    await submit(db)
    [job] = await holder.take()
    assert holder.lease is not None
    await turn.close_lease(db, holder.lease)
    assert await conn.fetchval("select count(*) from windlass.worker_lease") == 1
    await record(db, Success(job, "1"))
    await turn.close_lease(db, holder.lease)
    assert await conn.fetchval("select count(*) from windlass.worker_lease") == 0


async def test_the_leases_of_dead_workers_are_deleted(
    db: Tenant, clock: Clock, conn: Connection, holder: Holder
) -> None:
    await submit(db)
    await holder.take()
    clock.move(upkeep.KEEP_LEASE * 2)
    await upkeep.tend(db, age=timedelta(days=30))
    assert await conn.fetchval("select count(*) from windlass.worker_lease") == 1  # its job is still leased
    assert await released(db) == 1
    await upkeep.tend(db, age=timedelta(days=30))
    assert await conn.fetchval("select count(*) from windlass.worker_lease") == 0


# Processes of the previous version, and plain SQL


async def test_a_lease_that_a_process_of_the_previous_version_dated_can_be_extended(
    db: Tenant, clock: Clock, conn: Connection, holder: Holder
) -> None:
    dead, alive = await submit(db), await submit(db)
    other = Holder(db)
    await other.take()
    [job] = await holder.take()
    await conn.execute(DATE_AS_BEFORE)
    clock.move(LEASE - timedelta(seconds=1))
    await holder.extend()
    [held] = await turn.held(db, [job.fence], worker="w1")
    assert not held.extended  # so that the older process does not release it after an hour
    await turn.heartbeat(db, [job.fence], worker="w1", lease=LEASE)
    clock.move(timedelta(seconds=2))
    assert await released(db) == 1
    assert [(await jobs.get(db, id_)).status for id_ in (dead, alive)] == ["pending", "leased"]


async def test_a_leader_of_the_previous_version_does_not_block_lease_recovery_by_newer_processes(
    db: Tenant, clock: Clock, holder: Holder
) -> None:
    await submit(db)
    await holder.take()
    recovery = LeaseRecovery(db, "newer")
    for _ in range(31):  # a longer wait would be a gap
        assert await hold(db, "older", duty="upkeep")
        assert (await recovery.tick()).released == 0
        clock.move(timedelta(seconds=1))
    recovery._release_at = 0.0  # no pause after the last scan
    assert (await recovery.tick()).released == 1


@pytest.mark.parametrize(
    "change",
    [
        "status = 'pending'",
        "status = 'succeeded'",
        "status = 'cancelled'",
        "status = 'pending', leased_by = null, lease_until = null",
        "leased_by = 'go-1', lease_until = windlass.now() + interval '30 seconds'",
    ],
)
async def test_clients_that_do_not_know_worker_leases_clear_them_with_their_updates(
    db: Tenant, conn: Connection, holder: Holder, change: str
) -> None:
    id_ = await submit(db)
    await holder.take()
    await conn.execute(f"update workflow.workflow_run set {change} where id = $1", id_)
    assert await conn.fetchval("select worker_lease from workflow.workflow_run where id = $1", id_) is None


async def test_jobs_of_sql_clients_keep_their_own_leases(
    db: Tenant, clock: Clock, conn: Connection, holder: Holder
) -> None:
    now = await conn.fetchval("select windlass.now()")
    id_ = await by_sql(conn, status="leased", leased_by="w1", lease_until=now + LEASE, updated_at=now)
    await submit(db)
    await holder.take()
    clock.move(LEASE - timedelta(seconds=1))
    await holder.extend()
    clock.move(timedelta(seconds=2))
    await upkeep.date_open_leases(db)
    assert await released(db) == 1
    assert (await jobs.get(db, id_)).status == "pending"
