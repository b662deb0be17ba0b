"""Handlers that start a run or a job and wait for its result."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from tests.keys import KEYS
from windlass import Context, Job, NonRetryable, RunFailed, Windlass
from windlass.core.jobs.job import TERMINAL
from windlass.core.jobs.retry import Backoff, Retry
from windlass.engine.database import Tenant
from windlass.engine.runs import sweep
from windlass.settings import Settings
from windlass.store.jobs import FAR
from windlass.testing import Clock, run_to_end

AT_ONCE = Retry(kind=Backoff.CONSTANT, base=0)
START = datetime(2031, 5, 1, tzinfo=UTC)
CHILD = {"name": "child", "tasks": [{"name": "double", "job": "child.double.v1", "input": {"n": "{{input.n}}"}}]}


@pytest.fixture
async def app(database: str, clock: Clock) -> AsyncIterator[Windlass]:
    clock.set(START)
    async with Windlass(database, settings=Settings(master_keys=KEYS), clock=clock.now) as opened:

        @opened.job("child.double.v1")
        def double(n: int) -> int:
            if n < 0:
                raise NonRetryable("negative")
            return 2 * n

        await opened.deploy(CHILD)
        yield opened


@pytest.fixture
async def db(app: Windlass) -> Tenant:
    return await app.open()


async def ended(app: Windlass, job: UUID, clock: Clock) -> Job:
    """Run a job and the runs that it waits for to their ends."""
    db = await app.open()
    for _ in range(50):
        row = await run_to_end(app, job, clock)
        if row.status in TERMINAL:
            return row
        assert row.run_at == FAR
        await sweep.sweep_runs(db.database)
    raise AssertionError("the job did not end")


async def test_a_handler_waits_for_a_run_and_gets_its_output(app: Windlass, clock: Clock, conn: Any) -> None:
    @app.job("parent.run.v1")
    async def parent(ctx: Context) -> Any:
        return [await ctx.run("child", {"n": n}) for n in (1, 2)]

    job = await app.submit("parent.run.v1")
    row = await ended(app, job, clock)
    assert (row.result, row.attempt) == ([2, 4], 0)
    assert await conn.fetchval("select count(*) from windlass.run where job_id = $1", job) == 2


async def test_a_sync_handler_waits_for_a_job_and_gets_its_result(app: Windlass, clock: Clock) -> None:
    @app.job("parent.submit.v1")
    def parent(ctx: Context) -> Any:
        return [ctx.submit_and_wait_sync("child.double.v1", {"n": 4}), ctx.run_sync("child", {"n": 5})]

    assert (await ended(app, await app.submit("parent.submit.v1"), clock)).result == [8, 10]


async def test_a_run_is_started_once_however_often_the_handler_fails(app: Windlass, clock: Clock, conn: Any) -> None:
    @app.job("parent.flaky.v1", retry=AT_ONCE)
    async def parent(ctx: Context) -> Any:
        result = [await ctx.run("child", {"n": 3}), await ctx.submit_and_wait("child.double.v1", {"n": 6})]
        if ctx.attempt < 3:
            raise RuntimeError("again")
        return result

    job = await app.submit("parent.flaky.v1")
    assert (await ended(app, job, clock)).result == [6, 12]
    assert await conn.fetchval("select count(*) from windlass.run") == 2


async def test_a_run_that_failed_raises_in_the_handler(app: Windlass, clock: Clock) -> None:
    @app.job("parent.catch.v1")
    async def parent(ctx: Context) -> str:
        try:
            await ctx.run("child", {"n": -1})
        except Exception as error:
            return f"{type(error).__name__}: {await ctx.submit_and_wait('child.double.v1', {'n': 1})}"
        return "completed"

    assert (await ended(app, await app.submit("parent.catch.v1"), clock)).result == "RunFailed: 2"


async def test_cancelling_the_job_cancels_the_run_that_it_waits_for(
    app: Windlass, db: Tenant, clock: Clock, conn: Any
) -> None:
    @app.job("parent.run.v1")
    async def parent(ctx: Context) -> Any:
        return await ctx.run("slow")

    await app.deploy({"name": "slow", "tasks": [{"name": "nap", "sleep": "1d"}]})
    job = await app.submit("parent.run.v1")
    await run_to_end(app, job, clock)
    await app.cancel(job)
    await sweep.sweep_runs(db.database)
    assert await conn.fetchval("select state from windlass.run") == "cancelled"


async def test_a_workflow_that_does_not_exist_fails_the_handler(app: Windlass, clock: Clock) -> None:
    @app.job("parent.run.v1", max_attempts=1)
    async def parent(ctx: Context) -> Any:
        return await ctx.run("childe")

    row = await ended(app, await app.submit("parent.run.v1"), clock)
    assert row.last_error == "no workflow childe: did you mean child?"


async def test_the_depth_of_runs_started_by_handlers_is_limited(app: Windlass, clock: Clock, conn: Any) -> None:
    @app.job("parent.deep.v1", max_attempts=1)
    async def parent(ctx: Context) -> Any:
        try:
            return await ctx.run("deep")
        except RunFailed:
            raise NonRetryable("below") from None

    await app.deploy({"name": "deep", "tasks": [{"name": "again", "job": "parent.deep.v1"}]})
    row = await ended(app, await app.submit("parent.deep.v1"), clock)
    assert row.status == "failed"
    assert await conn.fetchval("select max(depth) from windlass.run") == 10
    errors = await conn.fetch("select last_error from workflow.workflow_run where last_error like 'child runs can be%'")
    assert len(errors) == 1
