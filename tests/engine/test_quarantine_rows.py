"""A row that raises an error (a schedule, a claim, a lease, a row of plain SQL) does not stop the others."""

from datetime import timedelta

import pytest

from tests.engine.harness import ManualWorker, begin, letters, node
from tests.engine.quarantine_harness import NOON, Client, aside, deploy, start
from windlass.core.jobs.spec import JobSpec
from windlass.core.json_value import decode
from windlass.engine import quarantine, upkeep
from windlass.engine.database import Tenant
from windlass.engine.jobs import control as jobs
from windlass.engine.runs import sweep
from windlass.engine.schedules import sql as sql_schedules
from windlass.runtime.loops.background import Scheduler, Sweeper, Timers, retries
from windlass.runtime.loops.loop import Duties
from windlass.testing import Clock

# Schedules


@pytest.mark.parametrize("when", ["infinity", "-infinity"])
async def test_a_schedule_with_an_infinite_next_run_does_not_block_others(
    db: Tenant, conn: Client, clock: Clock, when: str
) -> None:
    clock.set(NOON)
    insert = """insert into workflow.workflow_schedule (type, schedule, next_run_at)
                values ($1, '* * * * *', $2::text::timestamptz)"""
    await conn.execute(insert, "odd.v1", when)
    await conn.execute(insert, "good.v1", str(NOON))
    await Scheduler(db).tick()
    types = {row[0] for row in await conn.fetch("select type from workflow.workflow_run")}
    assert "good.v1" in types


async def test_a_schedule_that_raises_is_set_aside_and_the_others_fire(db: Tenant, conn: Client, clock: Clock) -> None:
    clock.set(NOON)
    insert = (
        "insert into workflow.workflow_schedule (type, schedule, next_run_at) values ($1, '* * * * *', $2) returning id"
    )
    ids = [await conn.fetchval(insert, f"job{n}.v1", NOON) for n in range(7)]
    await conn.execute("alter table workflow.workflow_run add constraint unlucky check (type <> 'job3.v1')")
    assert await sql_schedules.tick(db) == 6
    assert await aside(db) == [("schedule", str(ids[3]))]
    await conn.execute("alter table workflow.workflow_run drop constraint unlucky")
    clock.set(NOON + timedelta(seconds=2))
    assert await quarantine.retry_due(db, retries(db)) == 1
    assert await conn.fetchval("select count(*) from workflow.workflow_run") == 7
    assert await aside(db) == []


# Claims


async def test_a_row_that_cannot_be_claimed_is_set_aside_and_the_rows_behind_it_are_claimed(
    db: Tenant, conn: Client, clock: Clock
) -> None:
    clock.set(NOON)
    ids = [await jobs.submit(db, [JobSpec(type="a.v1")]) for _ in range(9)]
    await conn.execute(
        """create function refuse() returns trigger language plpgsql as $$
           begin raise exception 'strange row'; end $$;"""
    )
    await conn.execute(
        f"""create trigger refuse before update on workflow.workflow_run for each row
            when (new.status = 'leased' and new.id = '{ids[4][0]}') execute function refuse()"""
    )
    worker = await ManualWorker.registered(db)
    taken = []
    for _ in range(8):
        taken += await worker.take(4)
    assert {job.id for job in taken} == {id_ for n, [id_] in enumerate(ids) if n != 4}
    assert await aside(db) == [("job", str(ids[4][0]))]


# Loops


async def test_a_failing_duty_does_not_block_the_next_one(db: Tenant) -> None:
    duties = Duties(db, "test")

    async def bad() -> int:
        raise ValueError("strange")

    async def good() -> int:
        return 7

    assert await duties.run("bad", bad, 0) == 0
    assert await duties.run("good", good, 0) == 7
    [entry] = await quarantine.list_(db)
    assert (entry.kind, entry.key, entry.reason) == ("duty", "test.bad", "strange")
    again = Duties(db, "test")  # after a restart, with the defect fixed
    assert await again.run("bad", good, 0) == 7
    assert await quarantine.list_(db) == []


async def test_the_timer_loop_pauses_when_another_session_has_locked_the_due_run(
    db: Tenant, conn: Client, clock: Clock
) -> None:
    clock.set(NOON)
    await deploy(db, "nap", {"a": {"sleep": "1s"}})
    run = await start(db, "nap")
    clock.set(NOON + timedelta(seconds=2))
    timers = Timers(db)
    async with conn.transaction():
        await conn.execute("select from windlass.run where id = $1 for update", run)
        assert await timers.tick() == timers.options.again
    assert await timers.tick() == timedelta()
    assert await letters(db, run) == "s"


async def test_a_locked_workflow_row_does_not_block_the_sweeper(db: Tenant, conn: Client) -> None:
    await deploy(db, "narrow", {"a": {"job": "a.v1"}}, concurrency=1)
    await start(db, "narrow")
    await start(db, "narrow")
    good = await begin(db, node("a"), node("b", "a"))
    await conn.execute("update workflow.workflow_run set status = 'succeeded'")
    async with conn.transaction():
        await conn.execute("select from windlass.workflow where name = 'narrow' for update")
        await Sweeper(db).tick()
        assert await letters(db, good) == "sa"


# Rows of plain SQL


async def test_a_huge_number_in_a_row_is_read_as_a_string(db: Tenant, conn: Client) -> None:
    await conn.execute(
        """insert into workflow.workflow_run (type, payload, result, status)
           values ('odd.v1', '{"n": 1}', ('[1e5000]')::jsonb, 'succeeded'), ('good.v1', '{}', '1', 'succeeded')"""
    )
    results = {job.type: job.result for job in (await jobs.list_(db)).jobs}
    assert results["good.v1"] == 1
    assert results["odd.v1"] == ["1" + "0" * 5000]


async def test_a_fan_out_over_a_huge_number_creates_all_its_jobs(db: Tenant, conn: Client) -> None:
    await deploy(
        db,
        "wide",
        {
            "src": {"job": "src.v1"},
            "each": {"needs": ["src"], "foreach": "src", "job": "e.v1", "input": {"x": "{{item}}"}},
        },
    )
    run = await start(db, "wide")
    await conn.execute("update workflow.workflow_run set status = 'succeeded', result = '[1e5000, 2]' where step = 0")
    await sweep.sweep_runs(db)
    assert await letters(db, run) == "sa"
    payloads = [decode(job.payload)["x"] for job in await ManualWorker(db).take()]
    assert payloads == ["1" + "0" * 5000, 2]


# Leases, expiry and due times


async def test_a_row_whose_lease_cannot_be_released_does_not_block_others(
    db: Tenant, conn: Client, clock: Clock
) -> None:
    ids = [(await jobs.submit(db, [JobSpec(type="a.v1", max_attempts=9)]))[0] for _ in range(6)]
    await conn.execute(
        """update workflow.workflow_run set status = 'leased', leased_by = 'gone', claim_no = 1,
           lease_until = now() + interval '1 hour', updated_at = now()"""
    )
    clock.move(timedelta(hours=2))
    await conn.execute(
        "create function refuse() returns trigger language plpgsql as $$ begin raise exception 'strange row'; end $$"
    )
    await conn.execute(
        f"""create trigger refuse before update on workflow.workflow_run for each row
            when (new.status = 'pending' and new.id = '{ids[2]}') execute function refuse()"""
    )
    assert (await upkeep.release_expired(db)).released == 5
    assert await aside(db) == [("job", str(ids[2]))]
    assert (await upkeep.release_expired(db)).released == 0  # it is set aside
