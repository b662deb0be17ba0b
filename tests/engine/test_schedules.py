from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from windlass.engine.database import Tenant
from windlass.engine.schedules import sql as sql_schedules
from windlass.engine.schedules import workflow as workflow_schedules
from windlass.testing import Clock

NOON = datetime(2030, 3, 1, 12, 0, tzinfo=UTC)
INSERT = """insert into workflow.workflow_schedule (type, payload, schedule, timezone, next_run_at)
            values ('report.daily.v1', '{"kind": "pdf"}', $1, $2, $3) returning id"""


async def jobs(conn: "asyncpg.Connection[Any]") -> list[Any]:
    return await conn.fetch("select * from workflow.workflow_run order by seq")


async def test_a_due_schedule_enqueues_one_job_and_advances(
    db: Tenant, conn: "asyncpg.Connection[Any]", clock: Clock
) -> None:
    clock.set(NOON)
    id_ = await conn.fetchval(INSERT, "0 12 * * *", "UTC", NOON)
    assert await sql_schedules.tick(db) == 1
    assert await sql_schedules.tick(db) == 0
    [job] = await jobs(conn)
    assert (job["type"], job["payload"], job["queue"]) == ("report.daily.v1", '{"kind": "pdf"}', "sql")
    assert job["idempotency_key"] == f"schedule:{id_}:{int(NOON.timestamp())}"
    [row] = await conn.fetch("select next_run_at, last_run_at from workflow.workflow_schedule")
    assert tuple(row) == (NOON + timedelta(days=1), NOON)


async def test_missed_ticks_fire_once(db: Tenant, conn: "asyncpg.Connection[Any]", clock: Clock) -> None:
    await conn.fetchval(INSERT, "0 * * * *", "UTC", NOON)
    clock.set(NOON + timedelta(hours=5, minutes=30))
    await sql_schedules.tick(db)
    assert len(await jobs(conn)) == 1
    next_run_at = await conn.fetchval("select next_run_at from workflow.workflow_schedule")
    assert next_run_at == NOON + timedelta(hours=6)


async def test_the_time_zone_of_the_row_is_honoured(db: Tenant, conn: "asyncpg.Connection[Any]", clock: Clock) -> None:
    clock.set(NOON)
    await conn.fetchval(INSERT, "0 2 * * *", "Europe/Berlin", NOON)
    await sql_schedules.tick(db)
    next_run_at = await conn.fetchval("select next_run_at from workflow.workflow_schedule")
    assert next_run_at == datetime(2030, 3, 2, 1, 0, tzinfo=UTC)


async def test_an_external_scheduler_and_windlass_never_fire_the_same_tick_twice(
    db: Tenant, conn: "asyncpg.Connection[Any]", clock: Clock
) -> None:
    clock.set(NOON)
    id_ = await conn.fetchval(INSERT, "0 12 * * *", "UTC", NOON)
    await conn.execute(
        "insert into workflow.workflow_run (type, payload, idempotency_key) values ('report.daily.v1', '{}', $1)",
        f"schedule:{id_}:{int(NOON.timestamp())}",
    )
    await sql_schedules.tick(db)
    assert len(await jobs(conn)) == 1


async def test_a_paused_or_deleted_schedule_does_not_fire(
    db: Tenant, conn: "asyncpg.Connection[Any]", clock: Clock
) -> None:
    clock.set(NOON)
    await conn.fetchval(INSERT, "0 12 * * *", "UTC", NOON)
    await conn.execute("update workflow.workflow_schedule set enabled = false")
    assert await sql_schedules.tick(db) == 0
    await conn.execute("update workflow.workflow_schedule set enabled = true, deleted_at = now()")
    assert await sql_schedules.tick(db) == 0


@pytest.mark.parametrize(("cron", "zone"), [("at noon", "UTC"), ("0 12 * * *", "Mars/Olympus")])
async def test_a_schedule_that_cannot_be_read_is_paused_and_does_not_block_others(
    db: Tenant, conn: "asyncpg.Connection[Any]", clock: Clock, cron: str, zone: str, caplog: pytest.LogCaptureFixture
) -> None:
    clock.set(NOON)
    bad = await conn.fetchval(INSERT, cron, zone, NOON)
    await conn.fetchval(INSERT, "0 12 * * *", "UTC", NOON)
    assert await sql_schedules.tick(db) == 2
    assert len(await jobs(conn)) == 1
    paused = await conn.fetch("select id from workflow.workflow_schedule where not enabled")
    assert [row["id"] for row in paused] == [bad]
    assert str(bad) in caplog.text


async def test_next_due_returns_the_time_until_the_next_schedule(
    db: Tenant, conn: "asyncpg.Connection[Any]", clock: Clock
) -> None:
    clock.set(NOON)
    assert (await workflow_schedules.next_due(db)).job is None
    await conn.fetchval(INSERT, "0 12 * * *", "UTC", NOON + timedelta(seconds=90))
    assert (await workflow_schedules.next_due(db)).job == timedelta(seconds=90)
