"""Scheduled runs: one tick starts one run, with any number of schedulers, in every time zone, after every outage."""

import asyncio
import logging
from contextlib import AsyncExitStack
from datetime import datetime, timedelta

import pytest

from tests.engine.schedule_harness import (
    BEFORE,
    HOUR,
    NOON,
    Client,
    another,
    asked,
    end,
    next_of,
    publish,
    runs_of,
    schedule_of,
    ticks_of,
    timed,
)
from tests.unit.test_schedule import CHANGES
from windlass.core.cron.schedule import CatchUp, Overlap
from windlass.engine import quarantine, workflows
from windlass.engine.database import Tenant
from windlass.engine.runs import control as runs
from windlass.engine.runs import start
from windlass.engine.runs.start import RunSpec
from windlass.engine.schedules import workflow as workflow_schedules
from windlass.errors import Invalid, NotFound
from windlass.runtime.loops.background import LoopOptions, Scheduler, retries
from windlass.testing import Clock


@pytest.fixture
def clock() -> Clock:
    started = Clock()
    started.set(BEFORE)
    return started


async def test_a_tick_starts_one_run_and_advances_the_schedule(db: Tenant, conn: Client, clock: Clock) -> None:
    await publish(db, timed(input={"bucket": "landing"}))
    assert await workflow_schedules.tick(db) == 0
    clock.set(NOON)
    assert await workflow_schedules.tick(db) == 1
    assert await workflow_schedules.tick(db) == 0
    [run] = await runs_of(conn)
    row = await schedule_of(conn)
    assert row is not None
    assert (run["state"], run["input"], run["created_at"]) == ("running", '{"bucket": "landing"}', NOON)
    assert run["idempotency_key"] == f"schedule/{row['id']}/2030-03-01T12:00:00Z"
    assert run["trigger_headers"] == '{"windlass-scheduled-for": "2030-03-01T12:00:00Z"}'
    assert (row["next_run_at"], row["last_run_at"], row["last_run_id"]) == (NOON + HOUR, NOON, run["id"])
    assert await conn.fetchval("select count(*) from workflow.workflow_run where run_id = $1", run["id"]) == 1
    assert await conn.fetchval("select actor from windlass.event where run_id = $1", run["id"]) == "scheduler"


@pytest.mark.parametrize("round_", [0, *(pytest.param(n, marks=pytest.mark.soak) for n in (1, 2))])
async def test_concurrent_schedulers_start_one_run_per_tick(
    database: str, conn: Client, clock: Clock, round_: int
) -> None:
    async with AsyncExitStack() as stack:
        units = [await stack.enter_async_context(another(database, clock)) for _ in range(5)]
        for n in range(20):
            limit = 1 if n % 2 else None
            await publish(
                units[0], timed(name=f"w{n}", catch_up="all", overlap=[*Overlap][n % 4].value, concurrency=limit)
            )
        for hour in range(4):
            clock.set(NOON + hour * HOUR)
            async with asyncio.timeout(60):
                while (await workflow_schedules.next_due(units[0])).run != HOUR:
                    await asyncio.gather(*(workflow_schedules.tick(db) for db in units for _ in range(2)))
    expected = {Overlap.ALLOW: 4, Overlap.SKIP: 1, Overlap.REPLACE: 4, Overlap.BUFFER: 1}
    for n in range(20):
        ticks = await ticks_of(conn, f"w{n}")
        assert ticks == [NOON + hour * HOUR for hour in range(expected[[*Overlap][n % 4]])], n
        live = [row for row in await runs_of(conn, f"w{n}") if row["state"] in ("pending", "running")]
        assert len(live) == (4 if n % 4 == 0 else 1)


async def test_concurrent_schedulers_and_publishers_do_not_deadlock(database: str, conn: Client, clock: Clock) -> None:
    async with AsyncExitStack() as stack:
        units = [await stack.enter_async_context(another(database, clock)) for _ in range(4)]
        await publish(units[0], timed(concurrency=1, overlap="replace"))

        async def steer(db: Tenant, n: int) -> None:
            for step in range(8):
                await publish(db, timed(concurrency=1, overlap="replace", input={"n": n * 10 + step}))
                await workflows.enable(db, "etl", step % 2 == 0)
                await workflow_schedules.pause(db, "etl")
                await workflow_schedules.resume(db, "etl")

        async def turn(db: Tenant) -> None:
            for hour in range(40):
                clock.set(NOON + hour * HOUR)
                await workflow_schedules.tick(db)

        async with asyncio.timeout(60):
            await asyncio.gather(*(steer(db, n) for n, db in enumerate(units)), *(turn(db) for db in units))
    ticks = await ticks_of(conn)
    assert len(ticks) == len(set(ticks))


@pytest.mark.parametrize(("cron", "zone", "before", "expected"), CHANGES)
async def test_every_tick_around_a_daylight_saving_change_starts_one_run(
    db: Tenant, conn: Client, clock: Clock, cron: str, zone: str, before: str, expected: list[str]
) -> None:
    clock.set(datetime.fromisoformat(before))
    await publish(db, timed(cron, timezone=zone))
    wanted = [datetime.fromisoformat(text) for text in expected]
    for tick in wanted:
        assert await next_of(conn) == tick
        clock.set(tick - timedelta(seconds=1))
        assert await workflow_schedules.tick(db) == 0
        clock.set(tick)
        assert await workflow_schedules.tick(db) == 1
    assert await ticks_of(conn) == wanted


async def test_a_cron_with_both_day_fields_fires_when_either_matches(db: Tenant, conn: Client, clock: Clock) -> None:
    await publish(db, timed("0 0 13 * FRI"))
    assert await next_of(conn) == datetime.fromisoformat("2030-03-08T00:00Z")  # a Friday, though not the 13th


@pytest.mark.parametrize(
    ("catch_up", "hours"), [(CatchUp.NONE, []), (CatchUp.ONE, [5]), (CatchUp.ALL, [0, 1, 2, 3, 4, 5])]
)
async def test_missed_ticks_start_runs_as_the_catch_up_policy_defines(
    db: Tenant, conn: Client, clock: Clock, catch_up: CatchUp, hours: list[int]
) -> None:
    await publish(db, timed(catch_up=catch_up.value))
    clock.set(NOON + 5.5 * HOUR)
    await workflow_schedules.tick(db)
    assert await ticks_of(conn) == [NOON + n * HOUR for n in hours]
    row = await schedule_of(conn)
    assert row is not None
    assert row["next_run_at"] == NOON + 6 * HOUR
    assert row["skipped_at"] == (NOON + 5 * HOUR if catch_up is CatchUp.NONE else None)


async def test_many_missed_ticks_are_caught_up_in_batches(db: Tenant, conn: Client, clock: Clock) -> None:
    await publish(db, timed("* * * * *", catch_up="all"))
    clock.set(BEFORE + timedelta(minutes=1205))
    await workflow_schedules.tick(db)
    assert len(await runs_of(conn)) == 1000
    await workflow_schedules.tick(db)
    assert await workflow_schedules.tick(db) == 0
    assert await ticks_of(conn) == [BEFORE + timedelta(minutes=n + 1) for n in range(1205)]


# Overlap


async def test_skip_starts_no_run_while_one_is_live(db: Tenant, conn: Client, clock: Clock) -> None:
    await publish(db, timed(overlap="skip"))
    for hour in range(3):
        clock.set(NOON + hour * HOUR)
        await workflow_schedules.tick(db)
    [run] = await runs_of(conn)
    row = await schedule_of(conn)
    assert row is not None
    assert (row["skipped_at"], row["skipped_reason"]) == (NOON + 2 * HOUR, "an earlier run was active")
    await end(db, run["id"])
    clock.set(NOON + 3 * HOUR)
    await workflow_schedules.tick(db)
    assert await ticks_of(conn) == [NOON, NOON + 3 * HOUR]


async def test_replace_cancels_the_live_run_first(db: Tenant, conn: Client, clock: Clock) -> None:
    await publish(db, timed(overlap="replace", concurrency=1))
    for hour in range(3):
        clock.set(NOON + hour * HOUR)
        await workflow_schedules.tick(db)
    assert [row["state"] for row in await runs_of(conn)] == ["cancelled", "cancelled", "running"]
    first, *_ = await runs_of(conn)
    reasons = [event.reason for event in (await runs.view(db, first["id"])).events]
    assert "the next tick of its schedule replaced it" in reasons


async def test_buffer_lets_one_tick_wait_until_the_live_run_ends(db: Tenant, conn: Client, clock: Clock) -> None:
    await publish(db, timed(overlap="buffer"))
    for hour in range(4):
        clock.set(NOON + hour * HOUR)
        await workflow_schedules.tick(db)
    assert await ticks_of(conn) == [NOON]
    due = await workflow_schedules.next_due(db)
    assert (due.waits, due.ready, due.run) == (True, False, HOUR)
    await end(db, (await runs_of(conn))[0]["id"])
    assert (await workflow_schedules.next_due(db)).ready
    assert await workflow_schedules.tick(db) == 1
    assert await workflow_schedules.tick(db) == 0
    assert await ticks_of(conn) == [NOON, NOON + HOUR]
    assert (await workflow_schedules.next_due(db)).waits is False


@pytest.mark.parametrize("overlap", ["skip", "replace", "buffer"])
async def test_the_overlap_policy_ignores_manual_and_backfill_runs(
    db: Tenant, conn: Client, clock: Clock, overlap: str
) -> None:
    await publish(db, timed(overlap=overlap))
    await start.start(db, "etl", [RunSpec(), RunSpec(idempotency_key="mine")])
    await workflow_schedules.backfill(db, "etl", NOON - 5 * HOUR, NOON - 3 * HOUR)
    clock.set(NOON)
    await workflow_schedules.tick(db)
    found = await runs_of(conn)
    assert len(found) == 5
    assert {row["state"] for row in found} == {"running"}


# Invalid and locked rows


@pytest.mark.parametrize("change", ["cron = 'at noon'", "timezone = 'Mars/Olympus'"])
async def test_a_schedule_that_cannot_be_read_is_paused_and_the_others_fire(
    db: Tenant, conn: Client, clock: Clock, change: str, caplog: pytest.LogCaptureFixture
) -> None:
    await publish(db, timed())
    await publish(db, timed(name="other"))
    bad = await schedule_of(conn)
    assert bad is not None
    await conn.execute(f"update windlass.schedule set {change} where id = $1", bad["id"])
    clock.set(NOON)
    assert await workflow_schedules.tick(db) == 2
    assert (await runs_of(conn), len(await runs_of(conn, "other"))) == ([], 1)
    row = await workflow_schedules.get(db, "etl")
    assert (row.paused, row.next_run_at) == (True, None)
    assert row.paused_reason is not None
    assert "the schedule of workflow etl is paused" in caplog.text
    with pytest.raises(Invalid):
        await workflow_schedules.resume(db, "etl")


async def test_a_schedule_whose_workflow_cannot_be_read_is_set_aside_and_not_paused(
    db: Tenant, conn: Client, clock: Clock, database: str
) -> None:
    """During a rolling upgrade a newer process can: the schedule is set aside, not paused."""
    await publish(db, timed())
    document = await conn.fetchval("select document from windlass.version")
    await conn.execute("alter table windlass.version disable trigger all; update windlass.version set document = '{}'")
    clock.set(NOON)
    async with another(database, clock) as stranger:  # it has not seen the definition yet
        assert await workflow_schedules.tick(stranger) == 0
    row = await workflow_schedules.get(db, "etl")
    assert not row.paused
    [entry] = await quarantine.list_(db)
    assert (entry.kind, entry.key) == ("trigger", str(row.id))
    assert "cannot be read" in entry.reason
    clock.set(NOON + timedelta(seconds=2))
    await conn.execute("update windlass.version set document = $1::jsonb", document)
    assert await quarantine.retry_due(db, retries(db)) == 1
    assert len(await runs_of(conn)) == 1
    assert await quarantine.list_(db) == []


async def test_a_tick_whose_run_already_exists_starts_no_second_run(db: Tenant, conn: Client, clock: Clock) -> None:
    await publish(db, timed())
    row = await schedule_of(conn)
    assert row is not None
    clock.set(NOON)
    async with db.begin() as other:
        await start.include(
            other, db, "etl", [RunSpec(idempotency_key=f"schedule/{row['id']}/2030-03-01T12:00:00Z")], checked=None
        )
    assert await workflow_schedules.tick(db) == 1
    assert len(await runs_of(conn)) == 1
    assert await next_of(conn) == NOON + HOUR


async def test_a_schedule_locked_by_another_session_is_left_for_a_later_tick(
    db: Tenant, conn: Client, clock: Clock
) -> None:
    await publish(db, timed())
    clock.set(NOON)
    for held in ("windlass.schedule", "windlass.workflow"):
        async with conn.transaction():
            await conn.execute(f"select from {held} for update")
            assert await workflow_schedules.tick(db) == 0
    assert await workflow_schedules.tick(db) == 1


async def test_schedules_of_all_orgs_start_runs_in_their_own_org(
    db: Tenant, conn: Client, clock: Clock, database: str
) -> None:
    async with another(database, clock, org="acme") as acme:
        await publish(acme, timed(input={"n": 1}))
        await publish(db, timed(input={"n": 2}))
        clock.set(NOON)
        assert await workflow_schedules.tick(db) == 2
        with pytest.raises(NotFound):
            await workflow_schedules.pause(acme, "other")
    assert {(row["org"], row["input"]) for row in await runs_of(conn)} == {
        ("acme", '{"n": 1}'),
        ("default", '{"n": 2}'),
    }


# The loop


async def test_the_scheduler_serves_both_kinds_of_schedules_and_sleeps_until_the_next_tick(
    db: Tenant, conn: Client, clock: Clock
) -> None:
    scheduler = Scheduler(db)
    assert await scheduler.tick() == scheduler.options.every
    await publish(db, timed())
    assert await scheduler.tick() == timedelta(minutes=30)
    await conn.execute(
        """insert into workflow.workflow_schedule (type, payload, schedule, next_run_at)
           values ('report.v1', '{}', '0 12 * * *', $1)""",
        NOON - timedelta(minutes=10),
    )
    assert await scheduler.tick() == timedelta(minutes=20)
    clock.set(NOON)
    assert await scheduler.tick() == timedelta()
    assert await scheduler.tick() == HOUR
    assert len(await runs_of(conn)) == 1
    assert await conn.fetchval("select count(*) from workflow.workflow_run where type = 'report.v1'") == 1
    async with conn.transaction():
        await conn.execute("select from windlass.schedule for update")
        clock.set(NOON + HOUR)
        assert await scheduler.tick() == scheduler.options.again


async def test_the_end_of_a_run_wakes_the_scheduler_for_a_buffered_tick(db: Tenant, conn: Client, clock: Clock) -> None:
    await publish(db, timed(overlap="buffer"))
    for hour in range(2):
        clock.set(NOON + hour * HOUR)
        await workflow_schedules.tick(db)
    [first] = await runs_of(conn)
    stop, ended, looked = asyncio.Event(), asyncio.Event(), asyncio.Event()
    scheduler = Scheduler(db, LoopOptions(every=timedelta(hours=1)))
    real = scheduler.tick

    async def tick() -> timedelta:
        waited = await real()
        looked.set()
        if len(await runs_of(conn)) == 2:
            ended.set()
        return waited

    scheduler.tick = tick  # type: ignore[method-assign]
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        group.create_task(scheduler.run(stop))
        scheduler.wake()
        await looked.wait()
        await end(db, first["id"])
        await ended.wait()
        stop.set()


async def test_a_schedule_whose_run_cannot_be_started_does_not_block_others(
    db: Tenant, conn: Client, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    await publish(db, timed(input={"n": "unlucky"}))
    await publish(db, timed("1 * * * *", name="other"))
    await conn.execute("alter table windlass.run add constraint unlucky check (input ->> 'n' <> 'unlucky')")
    clock.set(NOON + timedelta(minutes=1))
    assert await workflow_schedules.tick(db) == 1
    assert len(await runs_of(conn, "other")) == 1
    assert await next_of(conn) == NOON  # it will be retried
    [entry] = await quarantine.list_(db)
    assert (entry.kind, entry.error_type) == ("trigger", "CheckViolationError")
    assert "DETAIL" not in entry.reason  # it would contain the row
    await publish(db, asked())
    assert await workflow_schedules.tick(db) == 0
