"""Upkeep: due times, pruning, partitions of the event trail and leader terms."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from tests.engine.job_harness import LEASE, SPEC, submit, take
from tests.engine.upkeep_harness import TERM, Connection, by_sql, hold, record
from windlass.core.jobs.job import JobMove, Setback, Success
from windlass.engine import upkeep
from windlass.engine.database import Tenant
from windlass.engine.jobs import control as jobs
from windlass.engine.runs import sweep
from windlass.engine.workers import remote_reports, turn
from windlass.engine.workers.turn import Turn
from windlass.errors import NotFound
from windlass.testing import Clock

pytestmark = pytest.mark.usefixtures("an_hour_later")

MONTH = timedelta(days=30)


async def finished(db: Tenant, count: int = 1) -> list[UUID]:
    await jobs.submit(db, [SPEC] * count)
    claimed = await take(db, count)
    await record(db, *(Success(job, "1") for job in claimed))
    return [job.id for job in claimed]


# Due times


async def test_a_delayed_job_joins_its_lane_when_it_is_due(db: Tenant, clock: Clock) -> None:
    id_ = await submit(db, delay=timedelta(minutes=10))
    assert await take(db) == []
    assert await upkeep.become_due(db) == 0
    assert await sweep.next_due(db) == (timedelta(minutes=10), None, None)
    clock.move(timedelta(minutes=10))
    assert await upkeep.become_due(db) == 1
    assert [job.id for job in await take(db)] == [id_]
    assert await sweep.next_due(db) == (None, None, None)


# Pruning


async def test_pruning_deletes_old_jobs_in_batches_with_their_log_lines(
    db: Tenant, clock: Clock, conn: Connection
) -> None:
    old = await finished(db, 7)
    line = (old[0], 0, 1, 1, datetime(2030, 1, 1, tzinfo=UTC), "INFO", "hello")
    await turn.turn(db, Turn(worker="w1", lease=LEASE, lines=[line]))
    clock.move(MONTH)
    young = await finished(db, 2)
    waiting = await submit(db)
    clock.move(timedelta(minutes=1))
    assert [await upkeep.prune(db, age=MONTH, batch=3) for _ in range(4)] == [3, 3, 1, 0]
    left = {row[0] for row in await conn.fetch("select id from workflow.workflow_run")}
    assert left == {*young, waiting}
    assert await conn.fetchval("select count(*) from windlass.job_log") == 0


async def test_pruning_keeps_old_live_jobs(db: Tenant, clock: Clock) -> None:
    held, waiting = await submit(db), await submit(db, delay=timedelta(days=400))
    await take(db)
    clock.move(timedelta(days=365))
    assert await upkeep.prune(db, age=MONTH) == 0
    assert [(await jobs.get(db, id_)).status for id_ in (held, waiting)] == ["leased", "pending"]


async def test_pruning_deletes_succeeded_failed_cancelled_and_deleted_jobs(db: Tenant, clock: Clock) -> None:
    failed, cancelled, hidden = await submit(db), await submit(db), await submit(db)
    [job] = await take(db)
    assert job.id == failed
    await record(db, Setback(job, JobMove.FAIL, {"message": "x"}, timedelta()))
    await jobs.cancel(db, cancelled)
    await jobs.delete(db, hidden)
    await finished(db)
    assert await upkeep.prune(db, age=MONTH) == 0
    clock.move(MONTH + timedelta(days=1))
    assert await upkeep.prune(db, age=MONTH, batch=100) == 4
    with pytest.raises(NotFound):
        await jobs.get(db, failed)


async def test_an_old_row_behind_younger_ones_is_pruned_with_them(db: Tenant, clock: Clock) -> None:
    """Rows are scanned in the order of their submission, but the first one may end last and delay the others."""
    early = await jobs.submit(db, [replace(SPEC, priority=900)] * 5)
    await finished(db, 1)
    clock.move(MONTH + timedelta(days=1))
    claimed = await take(db, 5)
    assert [job.id for job in claimed] == early
    await record(db, *(Success(job, "1") for job in claimed))
    assert await upkeep.prune(db, age=MONTH, batch=6) == 1
    clock.move(MONTH + timedelta(days=1))
    assert await upkeep.prune(db, age=MONTH, batch=5) == 5


async def test_a_key_is_free_again_when_its_job_was_pruned(db: Tenant, clock: Clock) -> None:
    first = await submit(db, idempotency_key="k")
    await jobs.cancel(db, first)
    clock.move(MONTH * 2)
    await upkeep.prune(db, age=MONTH)
    assert await submit(db, idempotency_key="k") != first


async def partitions(conn: Connection) -> list[str]:
    rows = await conn.fetch("""select relname from pg_inherits join pg_class on oid = inhrelid
      where inhparent = 'workflow.workflow_event'::regclass and relname <> 'workflow_event_default' order by 1""")
    return [row[0] for row in rows]


def week_of(moment: datetime) -> str:
    return f"workflow_event_{moment - timedelta(days=moment.weekday()):%Y%m%d}"


# Partitions of the event trail


@pytest.mark.usefixtures("this_week")
async def test_partitions_are_created_ahead(db: Tenant, clock: Clock, conn: Connection) -> None:
    before = await partitions(conn)
    now = clock.now() or datetime.now(UTC)
    assert before == [week_of(now + timedelta(weeks=n)) for n in range(3)]
    await upkeep.tend(db, age=timedelta(days=3650))
    assert await partitions(conn) == before
    clock.move(timedelta(weeks=1))
    await upkeep.tend(db, age=timedelta(days=3650))
    assert await partitions(conn) == [*before, week_of(now + timedelta(weeks=3))]


async def test_events_of_a_week_without_a_partition_move_into_it_once_it_is_created(
    db: Tenant, clock: Clock, conn: Connection
) -> None:
    clock.move(timedelta(weeks=20))
    id_ = await submit(db)
    where = "select tableoid::regclass::text from workflow.workflow_event where workflow_id = $1"
    assert await conn.fetchval(where, id_) == "workflow.workflow_event_default"
    before = await jobs.events(db, id_)
    await upkeep.tend(db, age=timedelta(days=3650))
    assert await conn.fetchval(where, id_) == f"workflow.{week_of(clock.now() or datetime.now(UTC))}"
    assert await jobs.events(db, id_) == before


@pytest.mark.usefixtures("this_week")
async def test_old_partitions_are_dropped_unless_a_live_job_is_as_old(
    db: Tenant, clock: Clock, conn: Connection
) -> None:
    first = (await partitions(conn))[0]
    old = await submit(db, delay=timedelta(days=300))
    clock.move(timedelta(weeks=10))
    await upkeep.tend(db, age=MONTH)
    assert first in await partitions(conn)
    assert [event.event_type for event in await jobs.events(db, old)] == ["created"]
    await jobs.cancel(db, old)
    await submit(db)
    await upkeep.tend(db, age=MONTH)
    left = await partitions(conn)
    assert first not in left
    now = clock.now() or datetime.now(UTC)
    assert {week_of(now + timedelta(weeks=n)) for n in range(3)} <= set(left)


@pytest.mark.usefixtures("this_week")
async def test_a_partition_is_kept_until_all_of_it_is_old(db: Tenant, clock: Clock, conn: Connection) -> None:
    names = await partitions(conn)
    ends = datetime.strptime(names[0][-8:], "%Y%m%d").replace(tzinfo=UTC) + timedelta(weeks=1)
    clock.set(ends + MONTH - timedelta(seconds=1))
    await upkeep.tend(db, age=MONTH)
    assert names[0] in await partitions(conn)
    clock.set(ends + MONTH + timedelta(seconds=1))
    await upkeep.tend(db, age=MONTH)
    assert names[0] not in await partitions(conn)


async def test_every_partition_marks_late_events(db: Tenant, clock: Clock, conn: Connection) -> None:
    clock.move(timedelta(weeks=30))
    await upkeep.tend(db, age=timedelta(days=3650))
    [id_] = await finished(db)
    await conn.execute(
        "insert into workflow.workflow_event (workflow_id, event_type, created_at) values ($1, 'failed', $2)",
        id_,
        clock.now(),
    )
    assert (await jobs.events(db, id_))[-1].data == {"late": True}


async def test_workers_without_heartbeats_for_days_are_deleted(db: Tenant, clock: Clock, conn: Connection) -> None:
    known = {"host": "h", "pid": 1, "queues": ["default"], "types": ["a"], "concurrency": 1}
    await turn.register(db, id_="gone", **known)  # type: ignore[arg-type]
    clock.move(timedelta(days=2))
    await turn.register(db, id_="here", **known)  # type: ignore[arg-type]
    await upkeep.tend(db, age=MONTH)
    assert [row[0] for row in await conn.fetch("select id from windlass.worker")] == ["here"]


async def test_partition_maintenance_and_writes_to_the_trail_do_not_deadlock(
    db: Tenant, clock: Clock, conn: Connection
) -> None:
    """A partition must be created and another dropped while a writer has an open transaction."""
    clock.set(datetime(2035, 1, 1, tzinfo=UTC))
    writing = conn.transaction()
    await writing.start()
    await conn.execute("lock table only workflow.workflow_event in row exclusive mode")
    tending = asyncio.create_task(upkeep.tend(db, age=MONTH))
    waits = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    async with asyncio.timeout(30):
        while not await conn.fetchval(waits):
            await asyncio.sleep(0.005)
    line = "insert into workflow.workflow_event (workflow_id, event_type, created_at) values ($1, 'created', $2)"
    await conn.execute(line, UUID(int=1), datetime(2099, 1, 1, tzinfo=UTC))  # goes to the default partition
    await writing.commit()
    await tending


# Leader terms


async def test_a_duty_has_one_leader_that_can_renew_its_term(db: Tenant, clock: Clock) -> None:
    assert await hold(db, "a")
    assert not await hold(db, "b")
    assert await hold(db, "b", duty="another")
    clock.move(TERM * 0.9)
    assert await hold(db, "a")
    clock.move(TERM * 0.9)
    assert not await hold(db, "b")


async def test_an_expired_term_can_be_taken_over_and_is_not_returned(db: Tenant, clock: Clock) -> None:
    assert await hold(db, "a")
    clock.move(TERM + timedelta(seconds=1))
    assert await hold(db, "b")
    assert not await hold(db, "a")


async def test_a_resignation_frees_only_the_term_of_its_own_holder(db: Tenant) -> None:
    assert await hold(db, "a")
    await upkeep.resign_term(db, duty="recovery", holder="b")
    assert not await hold(db, "b")
    await upkeep.resign_term(db, duty="recovery", holder="a")
    assert await hold(db, "b")


@pytest.mark.usefixtures("this_week")
async def test_an_old_live_job_does_not_keep_partitions_forever(db: Tenant, clock: Clock, conn: Connection) -> None:
    first = (await partitions(conn))[0]
    await submit(db)
    clock.move(3 * MONTH - timedelta(days=1))
    await upkeep.tend(db, age=MONTH)
    assert first in await partitions(conn)
    clock.move(timedelta(days=10))
    await upkeep.tend(db, age=MONTH)
    assert first not in await partitions(conn)


async def test_pruning_does_not_lock_rows_that_it_keeps(db: Tenant, clock: Clock, conn: Connection) -> None:
    await conn.execute(
        """insert into workflow.workflow_run (type, payload, status, created_at, updated_at)
      select 'kind.number' || n % 20 || '.v1', '{}', 'succeeded', $1, $1 from generate_series(1, 2000) n""",
        clock.now(),
    )
    assert await upkeep.prune(db, age=MONTH) == 0
    assert await conn.fetchval("select count(*) from workflow.workflow_run where xmax <> 0") == 0
    clock.move(MONTH + timedelta(minutes=1))
    assert await upkeep.prune(db, age=MONTH) == 500


async def test_old_records_of_ticks_without_a_job_are_deleted(db: Tenant, clock: Clock, conn: Connection) -> None:
    await conn.execute(
        """insert into windlass.cron_event (org, name, tick, reason, created_at)
      select 'default', 'c', $1, 'overlap', $1::timestamptz - n * interval '20 days' from generate_series(0, 3) n""",
        clock.now(),
    )
    await upkeep.prune(db, age=MONTH)
    assert await conn.fetchval("select count(*) from windlass.cron_event") == 2


async def test_overdue_attempts_of_all_orgs_are_ended(db: Tenant, clock: Clock, conn: Connection) -> None:
    now = clock.now()
    held = {"status": "leased", "leased_by": "w", "claim_no": 1, "max_attempts": 1}
    theirs = await by_sql(conn, org="other", stop_at=now, lease_until=now, **held)
    assert await remote_reports.end_overdue(db) == 1
    assert await conn.fetchval("select status from workflow.workflow_run where id = $1", theirs) == "failed"
