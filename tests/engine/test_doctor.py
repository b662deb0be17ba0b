"""The findings of the doctor and its advice."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from windlass.core.jobs.spec import JobSpec
from windlass.engine.database import Tenant
from windlass.engine.doctor import (
    Level,
    examine,
    judge_lines,
    judge_object_store,
    judge_pools,
    judge_schema,
    judge_server,
)
from windlass.engine.jobs import control as jobs
from windlass.engine.jobs import queues
from windlass.store.doctor import Server, Waiting
from windlass.store.pools import PoolRow
from windlass.store.workers import WorkerRow
from windlass.testing import Clock

SERVER = Server(150004, "15.4", 1, "on", "on", "on", "UTC")
LATE = Waiting("default", "billing.charge.v1", timedelta(minutes=3))
NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
WORKER = WorkerRow("w", "host", 1, ["default"], ["billing.%"], 10, "running", 0, NOON, NOON, True)


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        (SERVER, {}),
        (replace(SERVER, version=140011), {"version": Level.PROBLEM}),
        (replace(SERVER, fsync="off"), {"durability": Level.PROBLEM}),
        (replace(SERVER, synchronous_commit="off"), {"durability": Level.PROBLEM}),
        (replace(SERVER, synchronous_commit="remote_apply"), {}),
        (replace(SERVER, full_page_writes="off"), {"durability": Level.PROBLEM}),
        (replace(SERVER, timezone="Europe/Berlin"), {"time zone": Level.WARNING}),
    ],
)
def test_unsafe_postgres_settings_are_reported(server: Server, expected: dict[str, Level]) -> None:
    findings = [finding for finding in judge_server(server) if finding.level is not Level.OK]
    assert {finding.check: finding.level for finding in findings} == expected
    assert all(finding.fix for finding in findings)


@pytest.mark.parametrize(
    ("worker", "registry", "expected"),
    [
        (WORKER, {}, []),
        (replace(WORKER, types=["billing.charge.v1"]), {}, []),
        (replace(WORKER, types=["billing.charge.v2"]), {}, [Level.PROBLEM]),
        (replace(WORKER, queues=["sql"]), {}, [Level.PROBLEM]),
        (WORKER, {"billing.charge.v1": ("go", True)}, [Level.WARNING]),
        (WORKER, {"billing.charge.v1": ("python", False)}, [Level.WARNING]),
        (WORKER, {"billing.charge.v1": ("python", True)}, []),
    ],
)
def test_waiting_jobs_that_no_worker_serves_are_reported(
    worker: WorkerRow, registry: dict[str, tuple[str, bool]], expected: list[Level]
) -> None:
    assert [finding.level for finding in judge_lines([LATE], [worker], registry)] == expected
    young = replace(LATE, waits=timedelta(seconds=59))
    assert list(judge_lines([young], [], {})) == []
    [paused] = judge_lines([replace(LATE, paused=True)], [worker], registry)
    assert (paused.level, paused.fix) == (Level.WARNING, "windlass queues resume default")


def test_an_outdated_schema_is_reported_with_the_command_that_migrates_it() -> None:
    assert judge_schema(["0002 hooks"]).fix == "windlass db migrate"


async def test_a_session_that_holds_an_old_snapshot_is_reported(
    db: Tenant, clock: Clock, conn: "asyncpg.Connection[Any]"
) -> None:
    async with conn.transaction(isolation="repeatable_read"):
        await conn.fetchval("select count(*) from workflow.workflow_run")
        before = [finding for finding in await examine(db) if finding.check == "snapshots"]
        clock.move(timedelta(minutes=5))
        after = [finding for finding in await examine(db) if finding.check == "snapshots"]
    pid = conn.get_server_pid()
    assert [finding.level for finding in before] == [Level.OK]
    assert [finding.fix for finding in after] == [f"end it: select pg_terminate_backend({pid})"]
    assert "has held a snapshot for 5m" in after[0].message or "has held a snapshot for 4m" in after[0].message


async def test_jobs_that_wait_in_a_paused_queue_are_reported_as_such(db: Tenant, clock: Clock) -> None:
    await jobs.submit(db, [JobSpec(type="a.b.v1")])
    await queues.pause(db, "default")
    clock.move(timedelta(minutes=5))
    [waiting] = [finding for finding in await examine(db) if finding.check == "waiting"]
    assert waiting.message.endswith("the queue is paused")


async def test_a_missing_schema_is_reported_as_a_problem_instead_of_raising(
    db: Tenant, conn: "asyncpg.Connection[Any]"
) -> None:
    await conn.execute("drop schema windlass cascade")
    findings = {finding.check: finding.level for finding in await examine(db)}
    assert findings["schema"] is Level.PROBLEM


POOL = PoolRow("gpu", "kubernetes", 5, None, "w1", None, NOON, timedelta(seconds=5), 3, 0)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (POOL, None),
        (replace(POOL, silence=timedelta(minutes=5)), "3 jobs wait for gpu, which is not alive"),
        (replace(POOL, problem="forbidden"), "3 jobs wait for gpu, which has a problem: forbidden"),
        (replace(POOL, problem="forbidden", waiting=0), None),
        (replace(POOL, name="other"), "jobs wait for gpu, and there is no such pool"),
    ],
)
def test_an_unusable_pool_with_waiting_jobs_is_reported(row: PoolRow, message: str | None) -> None:
    line = Waiting("acme/windlass.pool.gpu", "windlass.command", timedelta(minutes=3))
    findings = list(judge_pools([row], [line]))
    assert [(finding.level, finding.message) for finding in findings] == ([(Level.PROBLEM, message)] if message else [])
    assert all(finding.fix for finding in findings)
    assert list(judge_lines([line], [], {})) == []  # a worker's --queue would not help


@pytest.mark.parametrize(
    ("row", "url", "is_named"),
    [
        (POOL, "file:///home/windlass/objects", True),
        (POOL, "s3://bucket", False),
        (POOL, None, False),
        (replace(POOL, launcher="subprocess"), "file:///home/windlass/objects", False),
        (replace(POOL, silence=timedelta(minutes=5)), "file:///home/windlass/objects", False),
    ],
)
def test_a_pool_whose_jobs_may_be_unable_to_reach_the_object_store_is_reported(
    row: PoolRow, url: str | None, is_named: bool
) -> None:
    findings = list(judge_object_store([row], url))
    assert [(finding.level, finding.check) for finding in findings] == [(Level.WARNING, "object store")] * is_named
    assert all("pool gpu: its jobs may run on other machines" in finding.message for finding in findings)
    assert all(finding.fix and "WINDLASS_OBJECTS_URL" in finding.fix for finding in findings)
