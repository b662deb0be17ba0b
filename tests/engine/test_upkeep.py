"""Time passes, holders fall silent, old rows go: what upkeep does, with the clock moved by hand."""

import asyncio
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from windlass.core.jobs.job import Claimed, Continuity, JobMove, Report, Setback, Success
from windlass.core.jobs.spec import JobSpec
from windlass.engine import upkeep
from windlass.engine.database import Database
from windlass.engine.jobs import control as jobs
from windlass.engine.runs import sweep
from windlass.engine.upkeep import Swept
from windlass.engine.workers import remote_reports as reports
from windlass.engine.workers import turn
from windlass.engine.workers.turn import Turn
from windlass.errors import NotFound
from windlass.runtime.loops.upkeep import LeaseRecovery
from windlass.testing import Clock

Connection = Any
LEASE = timedelta(seconds=30)
MONTH = timedelta(days=30)
SPEC = JobSpec(type="a.b.v1")


@pytest.fixture
async def db(db: Database, clock: Clock) -> Database:
    """An hour from now: the server has been up for long."""
    clock.move(timedelta(hours=1))
    return db


async def submit(db: Database, **fields: Any) -> UUID:
    return (await jobs.submit(db, [replace(SPEC, **fields)]))[0]


async def take(db: Database, count: int = 1, worker: str = "w1") -> list[Claimed]:
    lanes = [(replace(lane, seq=0), count) for lane in await turn.look(db, ["default", "sql"])]
    return (await turn.turn(db, Turn(worker=worker, lease=LEASE, lanes=lanes, count=count)))[0]


async def tell(db: Database, *reports: Report) -> None:
    await turn.turn(db, Turn(worker="w1", lease=LEASE, reports=reports))


async def finished(db: Database, count: int = 1) -> list[UUID]:
    await jobs.submit(db, [SPEC] * count)
    claimed = await take(db, count)
    await tell(db, *(Success(job, "1") for job in claimed))
    return [job.id for job in claimed]


async def by_sql(conn: Connection, **columns: Any) -> UUID:
    given = {"type": "a.b.v1", "payload": "{}", **columns}
    marks = ", ".join(f"${n}" for n in range(1, len(given) + 1))
    statement = f"insert into workflow.workflow_run ({', '.join(given)}) values ({marks}) returning id"
    id_: UUID = await conn.fetchval(statement, *given.values())
    return id_


# Silent holders


async def test_an_expired_lease_returns_to_pending_whoever_held_it(
    db: Database, clock: Clock, conn: Connection
) -> None:
    ours = await submit(db)
    await take(db)
    now = clock.now() or datetime.now(UTC)
    lease = {"status": "leased", "lease_until": now + LEASE}
    go, nameless = await by_sql(conn, leased_by="go-1", **lease), await by_sql(conn, **lease)
    assert await upkeep.release_expired(db) == Swept()
    clock.move(LEASE + timedelta(seconds=1))
    assert await upkeep.release_expired(db) == Swept(released=3)
    for id_, holder in ((ours, "w1"), (go, "go-1"), (nameless, "the worker")):
        job = await jobs.get(db, id_)
        assert (job.status, job.attempt, job.lost, job.leased_by, job.lease_until) == ("pending", 0, 1, None, None)
        assert job.last_error == f"lease lost: {holder} fell silent"
        last = (await jobs.events(db, id_))[-1]
        assert (last.event_type, last.actor, last.data) == ("retried", "upkeep", {"error": job.last_error})
    assert {job.number for job in await take(db, 3)} == {2}
    assert await upkeep.release_expired(db) == Swept()


async def test_a_heartbeat_keeps_a_lease(db: Database, clock: Clock) -> None:
    await submit(db)
    [job] = await take(db)
    for _ in range(5):
        clock.move(LEASE - timedelta(seconds=1))
        assert await turn.heartbeat(db, [job.fence], worker="w1", lease=LEASE) == [(*job.fence, False, True)]
        assert await upkeep.release_expired(db) == Swept()


# Gaps in which nobody could send a heartbeat


async def rounds(db: Database, clock: Clock, continuity: Continuity, *waits: float) -> list[int]:
    """Rounds of recovery, so many seconds apart: how many jobs each released."""
    released = []
    for wait in waits:
        clock.move(timedelta(seconds=wait))
        answer = await upkeep.take_term(db, duty="upkeep", holder="a", term=TERM)
        continuity.answered(answer.now, before=answer.renewed_before)
        released.append((await upkeep.release_expired(db, continuity=continuity)).released)
    return released


async def test_after_a_gap_every_holder_has_the_time_of_one_lease_to_be_heard(db: Database, clock: Clock) -> None:
    await submit(db)
    [job] = await take(db)
    continuity = Continuity()
    assert await rounds(db, clock, continuity, 0, 0.5, 60, 0.5, *[1] * 28) == [0] * 32
    assert await turn.heartbeat(db, [job.fence], worker="w1", lease=LEASE) == [(*job.fence, False, True)]
    assert await rounds(db, clock, continuity, *[1] * 30) == [0] * 30
    assert await rounds(db, clock, continuity, 1) == [1]


async def test_a_holder_that_is_not_heard_after_a_gap_either_loses_its_lease(db: Database, clock: Clock) -> None:
    await submit(db)
    await take(db)
    assert await rounds(db, clock, Continuity(), 0, 60, *[1] * 29, 0.9, 0.2) == [0] * 32 + [1]


async def test_a_gap_that_left_time_for_a_heartbeat_delays_nothing(db: Database, clock: Clock) -> None:
    await submit(db)
    await take(db)
    assert await rounds(db, clock, Continuity(), 0, 9, *[1] * 21, 0.5) == [0] * 23 + [1]


async def test_a_gap_that_ends_with_the_release_itself_counts_too(db: Database, clock: Clock) -> None:
    """The answer that shows the gap is that of the statement that would release."""
    await submit(db)
    await take(db)
    continuity = Continuity()
    assert await rounds(db, clock, continuity, 0) == [0]
    clock.move(timedelta(minutes=1))
    assert await upkeep.release_expired(db, continuity=continuity) == Swept()


async def test_a_process_that_takes_over_from_a_dead_one_sees_no_gap(db: Database, clock: Clock) -> None:
    await submit(db)
    await take(db)
    waiting = Continuity()
    assert await hold(db, "dead")
    assert await rounds(db, clock, waiting, *[0.5] * 60, 0.5) == [0] * 60 + [1]


async def test_a_process_that_starts_after_an_outage_gives_everybody_a_lease(db: Database, clock: Clock) -> None:
    await submit(db)
    await take(db)
    assert await hold(db, "former")
    clock.move(timedelta(minutes=5))
    assert await rounds(db, clock, Continuity(), 0, *[1] * 29, 1) == [0] * 30 + [1]


async def test_a_process_that_starts_after_an_orderly_end_does_not_wait(db: Database, clock: Clock) -> None:
    await submit(db)
    await take(db)
    assert await hold(db, "former")
    clock.move(timedelta(seconds=28))
    await upkeep.resign_term(db, duty="upkeep", holder="former")
    clock.move(timedelta(seconds=3))
    assert await rounds(db, clock, Continuity(), 0) == [1]


# Suspects


async def suspects(db: Database, clock: Clock, conn: Connection, count: int) -> list[UUID]:
    """Jobs that one more loss would end, all in the hands of one worker of ours."""
    ids = await jobs.submit(db, [replace(SPEC, max_attempts=2)] * count)
    await turn.register(db, id_="w1", host="h", pid=1, queues=["default"], types=["a"], concurrency=9)
    for _ in range(2):
        assert len(await take(db, count)) == count
        if not await conn.fetchval("select bool_and(alone) from workflow.workflow_run"):
            clock.move(LEASE * 2)
            await upkeep.release_expired(db)
    return ids


async def test_suspects_that_are_lost_together_are_not_charged_for_it(
    db: Database, clock: Clock, conn: Connection
) -> None:
    ids = await suspects(db, clock, conn, 3)
    clock.move(LEASE * 2)
    assert await upkeep.release_expired(db) == Swept(released=3)
    rows = [await jobs.get(db, id_) for id_ in ids]
    assert {(row.status, row.lost) for row in rows} == {("pending", 1)}
    assert await conn.fetchval("select bool_and(alone) from workflow.workflow_run")


async def test_suspects_of_a_dead_worker_are_judged_together_though_they_expire_one_by_one(
    db: Database, clock: Clock, conn: Connection
) -> None:
    ids = await suspects(db, clock, conn, 2)
    later = "update workflow.workflow_run set lease_until = lease_until + interval '5 seconds' where id = $1"
    await conn.execute(later, ids[1])
    clock.move(LEASE + timedelta(seconds=1))
    assert await upkeep.release_expired(db) == Swept()
    clock.move(timedelta(seconds=5))
    assert await upkeep.release_expired(db) == Swept(released=2)


async def test_a_suspect_that_is_lost_by_itself_ends(db: Database, clock: Clock, conn: Connection) -> None:
    await suspects(db, clock, conn, 1)
    clock.move(LEASE * 2)
    assert await upkeep.release_expired(db) == Swept(failed=1)


async def test_suspects_of_a_worker_that_is_not_ours_are_charged(db: Database, clock: Clock, conn: Connection) -> None:
    """It does not begin with one at a time, so nothing would ever end them."""
    await suspects(db, clock, conn, 2)
    await conn.execute("update windlass.worker set pid = 0")
    clock.move(LEASE * 2)
    assert await upkeep.release_expired(db) == Swept(failed=2)


async def losses_until_the_end(db: Database, clock: Clock, id_: UUID) -> int:
    for losses in range(1, 50):
        assert [job.id for job in await take(db)] == [id_]
        clock.move(LEASE * 2)
        swept = await upkeep.release_expired(db)
        if swept == Swept(failed=1):
            return losses
        assert swept == Swept(released=1)
    raise AssertionError("it never ends")


async def test_a_poison_job_ends_as_failed(db: Database, clock: Clock) -> None:
    id_ = await submit(db, max_attempts=3)
    assert await losses_until_the_end(db, clock, id_) == 3
    job = await jobs.get(db, id_)
    assert (job.status, job.lost, job.attempt) == ("failed", 3, 0)
    assert [error["type"] for error in job.errors] == ["LeaseLost"] * 3
    assert [event.event_type for event in await jobs.events(db, id_)][-2:] == ["leased", "failed"]
    assert await take(db) == []


async def test_a_bare_sql_row_gets_five_more_losses(db: Database, clock: Clock, conn: Connection) -> None:
    id_ = await by_sql(conn, max_attempts=2)
    assert await losses_until_the_end(db, clock, id_) == 7


async def test_losses_and_failures_use_up_the_same_attempts(db: Database, clock: Clock) -> None:
    id_ = await submit(db, max_attempts=3)
    [job] = await take(db)
    await tell(db, Setback(job, JobMove.RETRY, {"message": "boom"}, timedelta()))
    assert await losses_until_the_end(db, clock, id_) == 2


async def test_a_reopened_poison_job_has_its_attempts_again(db: Database, clock: Clock) -> None:
    id_ = await submit(db, max_attempts=2)
    await losses_until_the_end(db, clock, id_)
    await jobs.reopen(db, id_)
    assert await losses_until_the_end(db, clock, id_) == 2


# Time


async def test_a_job_comes_into_line_when_its_time_has_come(db: Database, clock: Clock) -> None:
    id_ = await submit(db, delay=timedelta(minutes=10))
    assert await take(db) == []
    assert await upkeep.become_due(db) == 0
    assert await sweep.next_due(db) == (timedelta(minutes=10), None, None)
    clock.move(timedelta(minutes=10))
    assert await upkeep.become_due(db) == 1
    assert [job.id for job in await take(db)] == [id_]
    assert await sweep.next_due(db) == (None, None, None)


# Pruning


async def test_pruning_removes_old_rows_in_small_batches_and_their_lines(
    db: Database, clock: Clock, conn: Connection
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


async def test_pruning_spares_what_is_alive_however_old(db: Database, clock: Clock) -> None:
    held, waiting = await submit(db), await submit(db, delay=timedelta(days=400))
    await take(db)
    clock.move(timedelta(days=365))
    assert await upkeep.prune(db, age=MONTH) == 0
    assert [(await jobs.get(db, id_)).status for id_ in (held, waiting)] == ["leased", "pending"]


async def test_pruning_takes_every_kind_of_end_and_what_was_hidden(db: Database, clock: Clock) -> None:
    failed, cancelled, hidden = await submit(db), await submit(db), await submit(db)
    [job] = await take(db)
    assert job.id == failed
    await tell(db, Setback(job, JobMove.FAIL, {"message": "x"}, timedelta()))
    await jobs.cancel(db, cancelled)
    await jobs.delete(db, hidden)
    await finished(db)
    assert await upkeep.prune(db, age=MONTH) == 0
    clock.move(MONTH + timedelta(days=1))
    assert await upkeep.prune(db, age=MONTH, batch=100) == 4
    with pytest.raises(NotFound):
        await jobs.get(db, failed)


async def test_an_old_row_behind_young_ones_is_pruned_when_those_are(db: Database, clock: Clock) -> None:
    """Rows are looked at by their place in line, and what was submitted first may end last: it may hold up the rest."""
    early = await jobs.submit(db, [replace(SPEC, priority=900)] * 5)
    await finished(db, 1)
    clock.move(MONTH + timedelta(days=1))
    claimed = await take(db, 5)
    assert [job.id for job in claimed] == early
    await tell(db, *(Success(job, "1") for job in claimed))
    assert await upkeep.prune(db, age=MONTH, batch=6) == 1
    clock.move(MONTH + timedelta(days=1))
    assert await upkeep.prune(db, age=MONTH, batch=5) == 5


async def test_a_key_is_free_again_when_its_job_was_pruned(db: Database, clock: Clock) -> None:
    first = await submit(db, idempotency_key="k")
    await jobs.cancel(db, first)
    clock.move(MONTH * 2)
    await upkeep.prune(db, age=MONTH)
    assert await submit(db, idempotency_key="k") != first


# The trail's partitions


async def partitions(conn: Connection) -> list[str]:
    rows = await conn.fetch("""select relname from pg_inherits join pg_class on oid = inhrelid
      where inhparent = 'workflow.workflow_event'::regclass and relname <> 'workflow_event_default' order by 1""")
    return [row[0] for row in rows]


def week_of(moment: datetime) -> str:
    return f"workflow_event_{moment - timedelta(days=moment.weekday()):%Y%m%d}"


@pytest.mark.usefixtures("this_week")
async def test_partitions_are_made_ahead(db: Database, clock: Clock, conn: Connection) -> None:
    before = await partitions(conn)
    now = clock.now() or datetime.now(UTC)
    assert before == [week_of(now + timedelta(weeks=n)) for n in range(3)]
    await upkeep.tend(db, age=timedelta(days=3650))
    assert await partitions(conn) == before
    clock.move(timedelta(weeks=1))
    await upkeep.tend(db, age=timedelta(days=3650))
    assert await partitions(conn) == [*before, week_of(now + timedelta(weeks=3))]


async def test_lines_of_a_week_without_a_partition_move_into_it(db: Database, clock: Clock, conn: Connection) -> None:
    clock.move(timedelta(weeks=20))
    id_ = await submit(db)
    where = "select tableoid::regclass::text from workflow.workflow_event where workflow_id = $1"
    assert await conn.fetchval(where, id_) == "workflow.workflow_event_default"
    before = await jobs.events(db, id_)
    await upkeep.tend(db, age=timedelta(days=3650))
    assert await conn.fetchval(where, id_) == f"workflow.{week_of(clock.now() or datetime.now(UTC))}"
    assert await jobs.events(db, id_) == before


@pytest.mark.usefixtures("this_week")
async def test_old_partitions_go_unless_a_live_job_is_as_old(db: Database, clock: Clock, conn: Connection) -> None:
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
async def test_a_partition_is_kept_until_all_of_it_is_old(db: Database, clock: Clock, conn: Connection) -> None:
    names = await partitions(conn)
    ends = datetime.strptime(names[0][-8:], "%Y%m%d").replace(tzinfo=UTC) + timedelta(weeks=1)
    clock.set(ends + MONTH - timedelta(seconds=1))
    await upkeep.tend(db, age=MONTH)
    assert names[0] in await partitions(conn)
    clock.set(ends + MONTH + timedelta(seconds=1))
    await upkeep.tend(db, age=MONTH)
    assert names[0] not in await partitions(conn)


async def test_every_partition_marks_late_lines(db: Database, clock: Clock, conn: Connection) -> None:
    clock.move(timedelta(weeks=30))
    await upkeep.tend(db, age=timedelta(days=3650))
    [id_] = await finished(db)
    await conn.execute(
        "insert into workflow.workflow_event (workflow_id, event_type, created_at) values ($1, 'failed', $2)",
        id_,
        clock.now(),
    )
    assert (await jobs.events(db, id_))[-1].data == {"late": True}


async def test_workers_long_silent_are_forgotten(db: Database, clock: Clock, conn: Connection) -> None:
    known = {"host": "h", "pid": 1, "queues": ["default"], "types": ["a"], "concurrency": 1}
    await turn.register(db, id_="gone", **known)  # type: ignore[arg-type]
    clock.move(timedelta(days=2))
    await turn.register(db, id_="here", **known)  # type: ignore[arg-type]
    await upkeep.tend(db, age=MONTH)
    assert [row[0] for row in await conn.fetch("select id from windlass.worker")] == ["here"]


async def test_tending_the_trail_and_writing_to_it_do_not_lock_each_other_out(
    db: Database, clock: Clock, conn: Connection
) -> None:
    """A partition is to be made and another dropped while a writer is in the middle of its transaction."""
    clock.set(datetime(2035, 1, 1, tzinfo=UTC))
    writing = conn.transaction()
    await writing.start()
    await conn.execute("lock table only workflow.workflow_event in row exclusive mode")
    tending = asyncio.create_task(upkeep.tend(db, age=MONTH))
    waits = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    async with asyncio.timeout(10):
        while not await conn.fetchval(waits):
            await asyncio.sleep(0.005)
    line = "insert into workflow.workflow_event (workflow_id, event_type, created_at) values ($1, 'created', $2)"
    await conn.execute(line, UUID(int=1), datetime(2099, 1, 1, tzinfo=UTC))  # goes to the default partition
    await writing.commit()
    await tending


# Terms

TERM = timedelta(seconds=10)


async def hold(db: Database, holder: str, duty: str = "upkeep") -> bool:
    return (await upkeep.take_term(db, duty=duty, holder=holder, term=TERM)).held


async def test_a_duty_has_one_holder_who_may_renew_it(db: Database, clock: Clock) -> None:
    assert await hold(db, "a")
    assert not await hold(db, "b")
    assert await hold(db, "b", duty="another")
    clock.move(TERM * 0.9)
    assert await hold(db, "a")
    clock.move(TERM * 0.9)
    assert not await hold(db, "b")


async def test_a_term_that_ended_is_taken_over_and_not_given_back(db: Database, clock: Clock) -> None:
    assert await hold(db, "a")
    clock.move(TERM + timedelta(seconds=1))
    assert await hold(db, "b")
    assert not await hold(db, "a")


async def test_whoever_resigns_makes_room_at_once_but_only_for_himself(db: Database) -> None:
    assert await hold(db, "a")
    await upkeep.resign_term(db, duty="upkeep", holder="b")
    assert not await hold(db, "b")
    await upkeep.resign_term(db, duty="upkeep", holder="a")
    assert await hold(db, "b")


@pytest.mark.usefixtures("this_week")
async def test_one_old_job_does_not_keep_the_trail_for_ever(db: Database, clock: Clock, conn: Connection) -> None:
    first = (await partitions(conn))[0]
    await submit(db)
    clock.move(3 * MONTH - timedelta(days=1))
    await upkeep.tend(db, age=MONTH)
    assert first in await partitions(conn)
    clock.move(timedelta(days=10))
    await upkeep.tend(db, age=MONTH)
    assert first not in await partitions(conn)


async def test_a_lease_without_an_end_is_given_one(db: Database, clock: Clock, conn: Connection) -> None:
    silent = await by_sql(conn, status="leased", leased_by="me", updated_at=datetime.now(UTC) - timedelta(days=9))
    fresh = await by_sql(conn, status="leased", leased_by="me", updated_at=clock.now())
    await upkeep.date_open_leases(db)
    assert (await upkeep.release_expired(db)).released == 1
    assert (await jobs.get(db, silent)).status == "pending"
    assert (await jobs.get(db, fresh)).status == "leased"
    clock.move(timedelta(hours=1, seconds=1))
    assert (await upkeep.release_expired(db)).released == 1


async def test_pruning_locks_nothing_that_stays(db: Database, clock: Clock, conn: Connection) -> None:
    await conn.execute(
        """insert into workflow.workflow_run (type, payload, status, created_at, updated_at)
      select 'kind.number' || n % 20 || '.v1', '{}', 'succeeded', $1, $1 from generate_series(1, 2000) n""",
        clock.now(),
    )
    assert await upkeep.prune(db, age=MONTH) == 0
    assert await conn.fetchval("select count(*) from workflow.workflow_run where xmax <> 0") == 0
    clock.move(MONTH + timedelta(minutes=1))
    assert await upkeep.prune(db, age=MONTH) == 500


async def test_ticks_that_made_no_job_go_when_they_are_old(db: Database, clock: Clock, conn: Connection) -> None:
    await conn.execute(
        """insert into windlass.cron_event (org, name, tick, reason, created_at)
      select 'default', 'c', $1, 'overlap', $1::timestamptz - n * interval '20 days' from generate_series(0, 3) n""",
        clock.now(),
    )
    await upkeep.prune(db, age=MONTH)
    assert await conn.fetchval("select count(*) from windlass.cron_event") == 2


async def test_attempts_run_out_of_time_whatever_their_org(db: Database, clock: Clock, conn: Connection) -> None:
    now = clock.now()
    held = {"status": "leased", "leased_by": "w", "claim_no": 1, "max_attempts": 1}
    theirs = await by_sql(conn, org="other", stop_at=now, lease_until=now, **held)
    assert await reports.end_overdue(db) == 1
    assert await conn.fetchval("select status from workflow.workflow_run where id = $1", theirs) == "failed"


async def test_a_long_look_for_lost_leases_is_followed_by_a_rest(db: Database, clock: Clock, conn: Connection) -> None:
    loop = LeaseRecovery(db, "one")
    await loop.tick()
    loop._release_at = time.monotonic() + 60  # as after a look of six seconds
    await by_sql(conn, status="leased", leased_by="dead", lease_until=clock.now() or datetime.now(UTC))
    for _ in range(12):  # a gap of its own rounds would be taken for an outage
        clock.move(timedelta(seconds=5))
        assert (await loop.tick()).released == 0
    loop._release_at = 0.0
    assert (await loop.tick()).released == 1
