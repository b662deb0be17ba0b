"""Handlers that sleep: the job waits without a worker and resumes after its recorded steps."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.keys import KEYS
from windlass import Context, Job, Windlass
from windlass.core.jobs.replay import NewRecord, Suspended
from windlass.core.jobs.retry import Backoff, Retry
from windlass.engine import upkeep
from windlass.engine.workers import remote, remote_reports
from windlass.engine.workers.remote import Fetch
from windlass.engine.workers.remote_reports import RemoteReport
from windlass.settings import Settings
from windlass.testing import Clock, run_to_end, run_until_idle

AT_ONCE = Retry(kind=Backoff.CONSTANT, base=0)
START = datetime(2031, 5, 1, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@pytest.fixture
async def app(database: str, clock: Clock) -> AsyncIterator[Windlass]:
    clock.set(START)
    async with Windlass(database, settings=Settings(master_keys=KEYS), clock=clock.now) as opened:
        yield opened


async def resumed(app: Windlass, clock: Clock, job: UUID, *, by: timedelta) -> Job:
    """Move the clock, run what is due and return the job."""
    clock.move(by)
    await upkeep.become_due((await app.open()).database)
    await run_until_idle(app)
    return await app.get(job)


async def test_a_sleeping_handler_holds_no_lease_and_resumes_after_its_last_step(app: Windlass, clock: Clock) -> None:
    calls: list[str] = []

    def count(name: str) -> int:
        calls.append(name)
        return len(calls)

    @app.job("order.v1", max_attempts=1)
    async def order(ctx: Context) -> list[Any]:
        first = await ctx.step("reserve", count, "reserve")
        await ctx.sleep("1d")
        return [first, await ctx.step("ship", count, "ship"), ctx.attempt]

    job = await app.submit("order.v1")
    await run_until_idle(app)
    row = await app.get(job)
    assert (row.status, row.run_at, row.leased_by, row.attempt, row.lost) == ("pending", START + DAY, None, 0, 0)
    row = await resumed(app, clock, job, by=DAY - timedelta(seconds=1))
    assert (row.status, calls) == ("pending", ["reserve"])
    row = await resumed(app, clock, job, by=timedelta(seconds=1))
    assert (row.status, row.result, calls) == ("succeeded", [1, 2, 1], ["reserve", "ship"])
    assert [event.event_type for event in await app.events(job)] == [
        "created", "leased", "retried", "leased", "succeeded",
    ]  # fmt: skip


async def test_a_sync_handler_can_sleep(app: Windlass, clock: Clock) -> None:
    calls: list[int] = []

    @app.job("sync.v1")
    def work(ctx: Context) -> int:
        for n in range(3):
            ctx.step_sync("count", calls.append, n)
            ctx.sleep_sync(HOUR)
        return len(calls)

    job = await app.submit("sync.v1")
    row = await run_to_end(app, job, clock)
    assert (row.result, calls, clock.now()) == (3, [0, 1, 2], START + 3 * HOUR)


async def test_a_sleep_ends_at_its_recorded_time_even_after_a_failed_attempt(app: Windlass, clock: Clock) -> None:
    failures = iter([True, False])

    @app.job("flaky.v1", retry=AT_ONCE)
    async def flaky(ctx: Context) -> None:
        await ctx.sleep("2h")
        if next(failures):
            raise RuntimeError("after the sleep")

    job = await app.submit("flaky.v1")
    row = await run_to_end(app, job, clock)
    assert (row.status, row.attempt, clock.now()) == ("succeeded", 1, START + 2 * HOUR)


async def test_a_handler_with_changed_steps_fails_without_a_retry_and_calls_no_step(
    app: Windlass, clock: Clock
) -> None:
    names = iter([("reserve", "pay"), ("check", "pay")])
    calls: list[str] = []

    @app.job("changed.v1")
    async def changed(ctx: Context) -> None:
        for name in next(names):
            await ctx.step(name, calls.append, name)
        await ctx.sleep("1d")

    job = await app.submit("changed.v1")
    row = await run_to_end(app, job, clock)
    assert (row.status, row.attempt, calls) == ("failed", 1, ["reserve", "pay"])
    assert row.last_error is not None
    assert row.last_error.startswith("the handler reached step 'check', but an earlier attempt recorded step 'reserve'")


async def test_steps_concurrent_to_a_wait_are_recorded_before_the_handler_is_suspended(
    app: Windlass, clock: Clock
) -> None:
    calls: list[str] = []

    async def slow(name: str) -> str:
        await asyncio.sleep(0)
        calls.append(name)
        return name

    @app.job("beside.v1")
    async def beside(ctx: Context) -> Any:
        async def branch() -> list[str]:
            return [await ctx.step("a", slow, "a"), await ctx.step("b", slow, "b")]

        _, names = await asyncio.gather(ctx.sleep("1h"), branch())
        return names

    job = await app.submit("beside.v1")
    row = await run_to_end(app, job, clock)
    assert (row.result, calls) == (["a", "b"], ["a", "b"])


@pytest.mark.parametrize("how", ["gather", "group", "swallowed"])
async def test_the_first_of_several_waits_to_end_resumes_the_handler(app: Windlass, clock: Clock, how: str) -> None:
    ended: list[str] = []

    @app.job("both.v1")
    async def both(ctx: Context) -> None:
        async def nap(length: str) -> None:
            await ctx.sleep(length, name=length)
            await ctx.step(f"after {length}", ended.append, length)

        if how == "group":
            async with asyncio.TaskGroup() as group:
                group.create_task(nap("3h"))
                group.create_task(nap("1h"))
        else:
            await asyncio.gather(nap("3h"), nap("1h"), return_exceptions=how == "swallowed")

    job = await app.submit("both.v1")
    await run_until_idle(app)
    assert (await app.get(job)).run_at == START + HOUR
    row = await resumed(app, clock, job, by=HOUR)
    assert (row.status, row.run_at, ended) == ("pending", START + 3 * HOUR, ["1h"])
    row = await resumed(app, clock, job, by=2 * HOUR)
    assert (row.status, ended) == ("succeeded", ["1h", "3h"])


async def test_a_handler_that_catches_exceptions_is_still_suspended(app: Windlass, clock: Clock) -> None:
    @app.job("careful.v1")
    async def careful(ctx: Context) -> str:
        try:
            await ctx.step("broken", lambda: 1 // 0)
        except ZeroDivisionError:
            try:
                await ctx.sleep("1h")
            except Exception:
                return "swallowed"
        return "slept"

    job = await app.submit("careful.v1")
    assert (await run_to_end(app, job, clock)).result == "slept"


async def test_a_sleeping_job_can_be_cancelled_and_does_not_expire(app: Windlass, clock: Clock, conn: Any) -> None:
    @app.job("nap.v1")
    async def nap(ctx: Context) -> None:
        await ctx.sleep("1d")

    first, second = await app.submit("nap.v1"), await app.submit("nap.v1")
    await conn.execute("update workflow.workflow_run set expires_at = $1", START + HOUR)
    await run_until_idle(app)
    await app.cancel(first)
    clock.move(2 * HOUR)
    assert await upkeep.expire((await app.open()).database) == 0
    assert (await run_to_end(app, second, clock)).status == "succeeded"
    assert (await app.get(first)).status == "cancelled"


async def test_a_run_continues_after_the_sleep_of_a_handler_of_its_step(app: Windlass, clock: Clock) -> None:
    @app.job("slow.step.v1")
    async def slow(ctx: Context) -> str:
        await ctx.sleep("1d")
        return f"{ctx.step_name} after {ctx.attempt}"

    await app.deploy({"name": "sleepy", "tasks": [{"name": "a", "job": "slow.step.v1"}]})
    run = await app.start("sleepy")
    await run_until_idle(app)
    [row] = (await app.list(run=run.id)).jobs
    assert (row.status, row.attempt) == ("pending", 0)
    await run_to_end(app, row.id, clock)
    assert (await run.result()).value == "a after 1"


async def test_log_lines_before_a_sleep_are_stored_once(app: Windlass, clock: Clock) -> None:
    @app.job("talks.v1")
    async def talks(ctx: Context) -> None:
        ctx.log.info("before")
        await ctx.sleep("1h")
        ctx.log.info("after")

    job = await app.submit("talks.v1")
    await run_to_end(app, job, clock)
    assert [line.message for line in await app.logs(job)] == ["before", "after"]


@pytest.mark.parametrize("length", [0, "-1s", "soon", None])
async def test_an_invalid_sleep_duration_fails_the_job_without_a_retry(
    app: Windlass, clock: Clock, length: Any
) -> None:
    @app.job("bad.v1")
    async def bad(ctx: Context) -> None:
        await ctx.sleep(length)

    row = await run_to_end(app, await app.submit("bad.v1"), clock)
    assert (row.status, row.attempt) == ("failed", 1)
    assert row.last_error is not None
    assert row.last_error.startswith("sleep is ")


async def test_a_worker_that_lost_its_lease_cannot_suspend_the_job(app: Windlass, conn: Any) -> None:
    db = await app.open()
    job = await app.submit("far.v1")
    await remote.fetch(db, [Fetch(queues=["default"], count=1, worker="w")])
    nap = Suspended(["sleep"], [NewRecord("sleep", "sleep", 0, waits=True, delay=HOUR)])
    [refused] = await remote_reports.record(db, [RemoteReport(job, nap, worker="w", fence=0)])
    assert isinstance(refused, Exception)
    assert await conn.fetchval("select count(*) from windlass.checkpoint") == 0
    [row] = await remote_reports.record(db, [RemoteReport(job, nap, worker="w", fence=1)])
    assert isinstance(row, Job)
    assert (row.status, row.run_at) == ("pending", START + HOUR)


def test_a_handler_without_a_worker_cannot_wait() -> None:
    ctx = Context(UUID(int=1), "a.b.v1", 1, 3, "default", 100, 1, datetime.now(UTC), {}, lambda _: None)
    with pytest.raises(Exception, match="only a worker can do this"):
        asyncio.run(ctx.sleep("1s"))
