"""Large fan-outs with templates are expanded by Python in chunks: neither the event loop nor the database session is
blocked, whatever the number of instances."""

import asyncio
import gc
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import pytest

from tests.engine.harness import letters
from windlass.engine import workflows
from windlass.engine.database import Tenant
from windlass.engine.runs import start, sweep
from windlass.engine.runs.start import RunSpec

Connection = Any
TASKS: dict[str, dict[str, Any]] = {
    "discover": {"job": "discover.items.v1"},
    "process": {
        "needs": ["discover"],
        "foreach": "discover",
        "job": "process.item.v1",
        "input": {"number": "{{item}}", "label": "item {{item}}"},
    },
}
LONGEST = 0.05  # seconds of CPU between two turns of the loop


class Lag:
    """The most CPU time that the loop's thread spent between two turns of this task: unlike wall time it does not
    depend on what else the machine does."""

    def __init__(self) -> None:
        self.longest = 0.0

    async def watch(self) -> None:
        while True:
            before = time.thread_time()
            await asyncio.sleep(0)
            self.longest = max(self.longest, time.thread_time() - before)


@asynccontextmanager
async def watched() -> AsyncIterator[Lag]:
    """The garbage collector is off because its cost depends on everything the test process has in memory."""
    lag = Lag()
    gc.disable()
    task = asyncio.create_task(lag.watch())
    try:
        yield lag
    finally:
        gc.enable()
        task.cancel()


async def discovered(db: Tenant, conn: Connection, count: int) -> UUID:
    """Return a run whose first step returned `count` items, recorded by plain SQL."""
    await workflows.publish_many(db, [{"name": "fan", "tasks": TASKS}])
    [run] = await start.start(db, "fan", [RunSpec()])
    await conn.execute(
        """update workflow.workflow_run set status = 'succeeded',
           result = (select jsonb_agg(n) from generate_series(0, $1::int - 1) as n)""",
        count,
    )
    return run


async def expand(db: Tenant, conn: Connection, count: int) -> Lag:
    run = await discovered(db, conn, count)
    async with watched() as lag:
        assert await sweep.sweep_runs(db) == 1
    assert await letters(db, run) == "sa"
    made, first, last = await conn.fetchrow(
        """select count(*), min(payload ->> 'label'), max((payload ->> 'number')::int) from workflow.workflow_run
            where step = 1"""
    )
    assert (made, first, last) == (count, "item 0", count - 1)
    return lag


@pytest.mark.exclusive
async def test_a_fan_out_with_templates_does_not_block_the_event_loop(db: Tenant, conn: Connection) -> None:
    assert (await expand(db, conn, 30_000)).longest < LONGEST


@pytest.mark.soak
@pytest.mark.timeout(1200)
async def test_a_fan_out_over_a_million_items_does_not_block_the_event_loop(db: Tenant, conn: Connection) -> None:
    assert (await expand(db, conn, 1_000_000)).longest < LONGEST


async def test_instances_whose_templates_have_no_value_get_no_job(db: Tenant, conn: Connection) -> None:
    tasks = {**TASKS, "process": {**TASKS["process"], "input": {"x": "{{item.missing}}"}}}
    await workflows.publish_many(db, [{"name": "fan", "tasks": tasks}])
    [run] = await start.start(db, "fan", [RunSpec()])
    await conn.execute(
        """update workflow.workflow_run set status = 'succeeded',
           result = (select jsonb_agg(case when n % 2 = 0 then jsonb_build_object('missing', n) else '{}' end)
                       from generate_series(0, 2999) as n)"""
    )
    await sweep.sweep_runs(db)
    assert await letters(db, run) == "sa"  # half of them run
    assert await conn.fetchval("select count(*) from workflow.workflow_run where step = 1") == 1500
