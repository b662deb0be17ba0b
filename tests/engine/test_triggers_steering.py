"""Publishing keeps schedules consistent; users pause, resume, preview and backfill them."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.engine.schedule_harness import (
    BEFORE,
    HOUR,
    NOON,
    Client,
    another,
    asked,
    called,
    end,
    next_of,
    publish,
    runs_of,
    schedule_of,
    ticks_of,
    timed,
)
from tests.store.test_queries import words
from windlass.core.cron.schedule import CatchUp, Overlap
from windlass.engine import workflows
from windlass.engine.database import Tenant
from windlass.engine.runs import control as runs
from windlass.engine.schedules import sql as sql_schedules
from windlass.engine.schedules import workflow as workflow_schedules
from windlass.engine.schedules.sql import JobScheduleRow, ScheduleRow
from windlass.errors import Conflict, Invalid, NotFound
from windlass.testing import Clock


@pytest.fixture
def clock() -> Clock:
    started = Clock()
    started.set(BEFORE)
    return started


async def row_of(conn: Client) -> dict[str, Any]:
    row = await schedule_of(conn)
    assert row is not None
    return dict(row)


# Publishing


async def test_publishing_a_cron_trigger_creates_its_schedule_in_the_same_transaction(db: Tenant, conn: Client) -> None:
    trigger: dict[str, Any] = {"timezone": "Europe/Berlin", "input": {"a": 1}, "overlap": "skip", "catch_up": "all"}
    published = await publish(db, timed("0 2 * * *", **trigger))
    row = await row_of(conn)
    assert row["workflow_id"] == published.workflow_id
    assert {name: row[name] for name in ("cron", "timezone", "input", "overlap", "catch_up", "org", "paused")} == {
        "cron": "0 2 * * *",
        "timezone": "Europe/Berlin",
        "input": '{"a": 1}',
        "overlap": "skip",
        "catch_up": "all",
        "org": "default",
        "paused": False,
    }
    assert row["next_run_at"] == datetime(2030, 3, 2, 1, 0, tzinfo=UTC)
    await conn.execute("alter table windlass.schedule add constraint unlucky check (cron <> '7 * * * *')")
    with pytest.raises(Exception, match="unlucky"):
        await publish(db, timed("7 * * * *"))
    assert (await workflows.get(db, "etl")).live == 1


async def test_an_unchanged_cron_keeps_its_next_tick_and_a_changed_one_starts_from_now(
    db: Tenant, conn: Client, clock: Clock
) -> None:
    await publish(db, timed())
    clock.set(NOON + 2.5 * HOUR)
    await publish(db, timed(input={"n": 1}, overlap="skip"))
    row = await row_of(conn)
    assert (row["next_run_at"], row["input"], row["overlap"]) == (NOON, '{"n": 1}', "skip")
    await publish(db, timed("15 * * * *", input={"n": 1}))
    assert await next_of(conn) == NOON + 3.25 * HOUR
    await publish(db, timed("15 8 * * *", timezone="Asia/Kolkata"))
    assert await next_of(conn) == datetime(2030, 3, 2, 2, 45, tzinfo=UTC)
    assert (await row_of(conn))["id"] == row["id"]


async def test_another_trigger_removes_the_schedule(db: Tenant, conn: Client, clock: Clock) -> None:
    await publish(db, timed())
    await publish(db, asked())
    assert await schedule_of(conn) is None
    clock.set(NOON)
    assert await workflow_schedules.tick(db) == 0
    await publish(db, timed())
    assert await next_of(conn) == NOON + HOUR
    await publish(db, called("etl"))
    assert await schedule_of(conn) is None


async def test_a_cron_that_never_fires_has_no_next_tick(db: Tenant, conn: Client) -> None:
    for n, cron in enumerate(("@triggered", "0 0 30 2 *")):
        await publish(db, timed(cron, name=f"w{n}"))
        assert await next_of(conn, f"w{n}") is None
        assert await workflow_schedules.preview(db, f"w{n}") == []
    assert (await workflow_schedules.next_due(db)).run is None


async def test_publishing_an_unchanged_workflow_recreates_a_missing_schedule(db: Tenant, conn: Client) -> None:
    await publish(db, timed())
    await conn.execute("delete from windlass.schedule")
    published = await publish(db, timed())
    assert (published.changed, published.number) == (False, 1)
    assert await next_of(conn) == NOON


async def test_a_new_version_runs_at_the_next_tick(db: Tenant, conn: Client, clock: Clock) -> None:
    await publish(db, timed())
    await publish(db, timed(input={"n": 2}))
    clock.set(NOON)
    await workflow_schedules.tick(db)
    [run] = await runs_of(conn)
    assert run["input"] == '{"n": 2}'
    assert (await runs.get(db, run["id"])).version == 2


async def test_a_disabled_workflow_fires_no_ticks_and_continues_from_now_when_enabled(
    db: Tenant, conn: Client, clock: Clock
) -> None:
    await publish(db, timed())
    await workflows.enable(db, "etl", False)
    assert await next_of(conn) is None
    clock.set(NOON + 1.5 * HOUR)
    assert await workflow_schedules.tick(db) == 0
    await publish(db, timed("20 * * * *"))
    assert await next_of(conn) is None
    await workflows.enable(db, "etl")
    assert await next_of(conn) == NOON + timedelta(hours=2, minutes=20)
    clock.set(NOON + 3.5 * HOUR)
    await workflows.enable(db, "etl")  # already enabled: missed ticks are kept
    assert await next_of(conn) == NOON + timedelta(hours=2, minutes=20)
    assert await workflow_schedules.tick(db) == 1


async def test_a_workflow_disabled_by_plain_sql_fires_no_ticks(db: Tenant, conn: Client, clock: Clock) -> None:
    await publish(db, timed())
    await conn.execute("update windlass.workflow set enabled = false")
    clock.set(NOON)
    await workflow_schedules.tick(db)
    assert await runs_of(conn) == []
    assert await next_of(conn) is None


async def test_deleting_a_workflow_deletes_its_schedule(db: Tenant, conn: Client, clock: Clock) -> None:
    await publish(db, timed())
    await workflows.delete(db, "etl")
    clock.set(NOON)
    assert await workflow_schedules.tick(db) == 0
    assert await conn.fetchval("select count(*) from windlass.schedule") == 0
    await publish(db, timed())
    assert await next_of(conn) == NOON + HOUR


# Pause and resume


async def test_a_paused_schedule_stays_paused_when_it_is_republished_and_resumes_from_now(
    db: Tenant, conn: Client, clock: Clock
) -> None:
    await publish(db, timed(catch_up="all"))
    await workflow_schedules.pause(db, "etl", reason="the moon")
    await publish(db, timed("10 * * * *", catch_up="all"))
    row = await workflow_schedules.get(db, "etl")
    assert (row.paused, row.paused_reason, row.next_run_at, row.cron) == (True, "the moon", None, "10 * * * *")
    clock.set(NOON + 5 * HOUR)
    assert await workflow_schedules.tick(db) == 0
    await workflows.enable(db, "etl", False)
    await workflows.enable(db, "etl")
    assert await next_of(conn) is None
    await workflow_schedules.resume(db, "etl")
    row = await workflow_schedules.get(db, "etl")
    assert (row.paused, row.paused_reason, row.next_run_at) == (False, None, NOON + timedelta(hours=5, minutes=10))
    clock.set(NOON + 7 * HOUR)
    await workflow_schedules.resume(db, "etl")  # it was not paused: due ticks are kept
    assert await next_of(conn) == NOON + timedelta(hours=5, minutes=10)


async def test_resuming_the_schedule_of_a_disabled_workflow_does_not_make_it_fire(db: Tenant, conn: Client) -> None:
    await publish(db, timed())
    await workflow_schedules.pause(db, "etl")
    await workflows.enable(db, "etl", False)
    await workflow_schedules.resume(db, "etl")
    assert await next_of(conn) is None
    await workflows.enable(db, "etl")
    assert await next_of(conn) == NOON


async def test_a_pause_drops_a_buffered_tick(db: Tenant, conn: Client, clock: Clock) -> None:
    await publish(db, timed(overlap="buffer"))
    for hour in range(2):
        clock.set(NOON + hour * HOUR)
        await workflow_schedules.tick(db)
    assert (await row_of(conn))["buffered_at"] == NOON + HOUR
    await publish(db, timed(overlap="buffer", input={"n": 1}))
    assert (await row_of(conn))["buffered_at"] == NOON + HOUR
    await workflow_schedules.pause(db, "etl")
    await workflow_schedules.resume(db, "etl")
    await end(db, (await runs_of(conn))[0]["id"])
    assert await workflow_schedules.tick(db) == 0


@pytest.mark.parametrize(
    "act",
    [
        workflow_schedules.pause,
        workflow_schedules.resume,
        workflow_schedules.get,
        workflow_schedules.preview,
        workflow_schedules.rotate,
    ],
)
async def test_errors_for_an_unknown_workflow_and_for_one_without_a_schedule_differ(db: Tenant, act: Any) -> None:
    await publish(db, asked("orders"))
    with pytest.raises(NotFound, match="no workflow order: did you mean orders"):
        await act(db, "order")
    with pytest.raises(NotFound, match="no workflow 'a b'"):
        await act(db, "a b")
    if act is not workflow_schedules.rotate:
        with pytest.raises(NotFound, match="no schedule of workflow orders: its trigger is not a cron"):
            await act(db, "orders")


# Previews and lists


async def test_a_preview_is_in_the_time_zone_of_the_schedule(db: Tenant, clock: Clock) -> None:
    clock.set(datetime(2030, 3, 29, 12, tzinfo=UTC))
    await publish(db, timed("30 2 * * *", timezone="Europe/Berlin"))
    assert [tick.isoformat() for tick in await workflow_schedules.preview(db, "etl", count=3)] == [
        "2030-03-30T02:30:00+01:00",
        "2030-03-31T03:00:00+02:00",
        "2030-04-01T02:30:00+02:00",
    ]
    for count in (0, 1001):
        with pytest.raises(Invalid):
            await workflow_schedules.preview(db, "etl", count=count)


async def test_schedules_are_listed_by_workflow_and_in_pages(db: Tenant, database: str, clock: Clock) -> None:
    for name in ("c", "a", "b"):
        await publish(db, timed(name=name))
    await publish(db, asked("d"))
    first = await sql_schedules.list_all(db, limit=2)
    rest = await sql_schedules.list_all(db, limit=2, after=first.next or "")
    rows = [row for row in first.schedules + rest.schedules if isinstance(row, ScheduleRow)]
    assert [row.workflow for row in rows] == ["a", "b", "c"]
    assert (rest.next, rows[-1].overlap, rows[-1].catch_up) == (None, Overlap.ALLOW, CatchUp.ONE)
    async with another(database, clock, org="acme") as stranger:
        assert (await sql_schedules.list_all(stranger)).schedules == []
    for limit in (0, 1001):
        with pytest.raises(Invalid):
            await sql_schedules.list_all(db, limit=limit)


async def test_schedules_of_plain_sql_are_listed_too(db: Tenant, conn: Client) -> None:
    await conn.execute(
        """insert into workflow.workflow_schedule (type, payload, schedule, timezone, next_run_at, deleted_at) values
           ('b.v1', '{}', '0 1 * * *', 'UTC', now(), null), ('a.v1', '{"n": 1}', '0 2 * * *', 'UTC', now(), null),
           ('c.v1', '{}', '0 1 * * *', 'UTC', now(), now())"""
    )
    rows = [row for row in (await sql_schedules.list_all(db)).schedules if isinstance(row, JobScheduleRow)]
    assert [(row.type, row.payload) for row in rows] == [("a.v1", {"n": 1}), ("b.v1", {})]


# Backfill


async def test_a_backfill_starts_the_runs_of_past_ticks_once(db: Tenant, conn: Client, clock: Clock) -> None:
    await publish(db, timed(input={"a": 1}))
    clock.set(NOON)
    await workflow_schedules.tick(db)
    clock.set(NOON + 0.5 * HOUR)
    done = await workflow_schedules.backfill(db, "etl", NOON - 3 * HOUR, NOON + 0.5 * HOUR)
    assert ([tick for tick, _ in done.runs], done.started, done.next) == (
        [NOON - n * HOUR for n in (3, 2, 1, 0)],
        3,
        None,
    )
    again = await workflow_schedules.backfill(db, "etl", NOON - 4 * HOUR, NOON + 0.5 * HOUR)
    assert (again.started, again.runs[1:]) == (1, done.runs)
    assert await ticks_of(conn) == [NOON - n * HOUR for n in (4, 3, 2, 1, 0)]
    labels = [row["labels"] for row in await runs_of(conn)]
    assert labels == ['{"backfill": "2030-03-01T12:30:00Z"}'] * 4 + [None]
    [headers] = {row["trigger_headers"] for row in await runs_of(conn) if row["id"] == done.runs[0][1]}
    assert headers == '{"windlass-scheduled-for": "2030-03-01T09:00:00Z"}'
    assert await next_of(conn) == NOON + HOUR


async def test_a_tick_that_was_already_backfilled_starts_no_second_run(db: Tenant, conn: Client, clock: Clock) -> None:
    await publish(db, timed())
    clock.set(NOON + timedelta(minutes=1))
    await workflow_schedules.backfill(db, "etl", NOON, NOON + timedelta(seconds=1))
    assert await workflow_schedules.tick(db) == 1
    assert await ticks_of(conn) == [NOON]


async def test_a_backfill_has_a_limit_and_returns_where_to_continue(db: Tenant, conn: Client) -> None:
    await publish(db, timed())
    first = await workflow_schedules.backfill(db, "etl", NOON - 10 * HOUR, NOON - HOUR, limit=4)
    assert (len(first.runs), first.next) == (4, NOON - 6 * HOUR)
    assert first.next is not None
    rest = await workflow_schedules.backfill(db, "etl", first.next, NOON - HOUR)
    assert (len(rest.runs), rest.next) == (5, None)
    assert len(await runs_of(conn)) == 9


async def test_a_backfill_works_while_paused_but_not_while_disabled(db: Tenant, conn: Client) -> None:
    await publish(db, timed(concurrency=2))
    await workflow_schedules.pause(db, "etl")
    await workflow_schedules.backfill(db, "etl", NOON - 4 * HOUR, NOON - HOUR)
    assert [row["state"] for row in await runs_of(conn)] == ["running", "running", "pending"]
    await workflows.enable(db, "etl", False)
    with pytest.raises(Conflict, match="disabled"):
        await workflow_schedules.backfill(db, "etl", NOON - 9 * HOUR, NOON - HOUR)


@pytest.mark.parametrize(
    ("start", "end_", "limit", "message"),
    [
        (NOON - HOUR, NOON + HOUR, 10, "is in the future"),
        (NOON - HOUR, NOON - HOUR, 10, "the range is empty"),
        (NOON.replace(tzinfo=None), NOON, 10, "time zone"),
        (NOON - 2 * HOUR, NOON - HOUR, 0, "limit"),
        (NOON - 2 * HOUR, NOON - HOUR, 10_001, "limit"),
    ],
)
async def test_an_invalid_backfill_range_is_refused(
    db: Tenant, start: datetime, end_: datetime, limit: int, message: str
) -> None:
    await publish(db, timed())
    with pytest.raises(Invalid, match=message):
        await workflow_schedules.backfill(db, "etl", start, end_, limit=limit)


async def test_check_constraints_contain_the_same_policies_as_the_code(conn: Client) -> None:
    assert await words(conn, "schedule_overlap_check") == set(Overlap)
    assert await words(conn, "schedule_catch_up_check") == set(CatchUp)
