"""Runs with a real worker: the context of handlers, cancellation, timeouts, sleeps, and cases that must not hang."""

import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest

from tests.keys import KEYS
from tests.runtime.conftest import Working, eventually
from windlass import Context, Retry, Windlass
from windlass.errors import Invalid
from windlass.settings import Settings

Connection = Any
SOON = 10.0


async def test_the_context_exposes_workflow_step_instance_and_upstream_results(app: Windlass, working: Working) -> None:
    told: list[tuple[Any, ...]] = []

    @app.job("discover.v1")
    async def discover(ctx: Context) -> dict[str, Any]:
        told.append((ctx.workflow, ctx.step_name, ctx.index, ctx.count, ctx.item, dict(ctx.upstream)))
        return {"files": ["x", "y"]}

    @app.job("process.v1")
    async def process(ctx: Context, item: str) -> str:
        told.append((ctx.step_name, ctx.index, ctx.count, ctx.item, item, ctx.upstream["discover"], ctx.attempt))
        return item.upper()

    @app.job("report.v1")
    def report(ctx: Context) -> Any:
        assert (ctx.parallel_index, ctx.parallel_count) == (0, 1)
        assert (ctx.task_id, ctx.task_name, ctx.workflow_name) == (ctx.id, "report", "w")
        return ctx.upstream["process"]

    flow = app.workflow("w")
    first = flow.step("discover", discover)
    each = flow.step("process", process).foreach(first["files"])
    flow.step("report", report, needs=each)
    run = await app.start("w")
    async with working(app):
        result = await run.wait(timeout=SOON)
    assert result.value == ["X", "Y"]
    assert told[0] == ("w", "discover", 0, 1, None, {})
    assert sorted(told[1:]) == [
        ("process", 0, 2, "x", "x", {"files": ["x", "y"]}, 1),
        ("process", 1, 2, "y", "y", {"files": ["x", "y"]}, 1),
    ]


async def test_too_many_upstream_instances_are_an_error_only_when_their_results_are_read(
    app: Windlass, working: Working, conn: Connection
) -> None:
    asked: list[str] = []

    @app.job("last.v1")
    async def last(ctx: Context) -> list[str]:
        try:
            ctx.upstream["a"]
        except Invalid as error:
            asked.append(str(error))
        return list(ctx.upstream)

    flow = app.workflow("w")
    many = flow.step("a", "nobody.serves.v1").parallel(10_001)
    flow.step("b", last, needs=many)
    run = await app.start("w")
    await conn.execute("update workflow.workflow_run set status = 'succeeded', result = '1'")
    async with working(app):
        result = await run.wait(timeout=30)
    assert result.value == ["a"]
    assert asked == ["a has 10001 instances, a list holds 10000 at most: read them page by page"]


async def test_cancel_reaches_a_running_async_handler_and_its_end_is_recorded(app: Windlass, working: Working) -> None:
    begun, stopped = asyncio.Event(), asyncio.Event()

    @app.job("long.v1")
    async def long() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    flow = app.workflow("w")
    flow.step("b", "never.v1", needs=flow.step("a", long))
    run = await app.start("w")
    async with working(app):
        await asyncio.wait_for(begun.wait(), SOON)
        await run.cancel(reason="enough")
        await asyncio.wait_for(stopped.wait(), SOON)

        async def heard() -> bool:
            return (await run.view()).states == {"a": "cancelled", "b": "cancelled"}

        await eventually(heard)
    assert (await run.result()).state == "cancelled"


async def test_cancelling_a_run_signals_a_sync_handler_and_its_result_is_recorded(
    app: Windlass, working: Working
) -> None:
    begun = threading.Event()

    @app.job("long.v1")
    def long(ctx: Context) -> str:
        begun.set()
        return "stopped in time" if ctx.wait_cancelled(SOON) else "never told"

    flow = app.workflow("w")
    flow.step("a", long)
    run = await app.start("w")
    async with working(app):
        await asyncio.to_thread(begun.wait, SOON)
        await run.cancel()

        async def heard() -> bool:
            return (await run.view()).states == {"a": "succeeded"}

        await eventually(heard)
    assert (await run.result()).state == "cancelled"
    assert [one.result for one in await run.instances("a")] == ["stopped in time"]


async def test_a_cancelled_parent_stops_the_handler_of_its_child(app: Windlass, working: Working) -> None:
    begun, stopped = asyncio.Event(), asyncio.Event()

    @app.job("long.v1")
    async def long() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    kid = app.workflow("kid")
    kid.step("x", long)
    app.workflow("w").child("sub", kid)
    await app.publish()
    run = await app.start("w")
    async with working(app):
        await asyncio.wait_for(begun.wait(), SOON)
        await run.cancel()
        await asyncio.wait_for(stopped.wait(), SOON)

        async def heard() -> bool:
            return (await run.view()).states == {"sub": "cancelled"}

        await eventually(heard)


async def test_a_run_that_exceeds_its_maximum_duration_times_out(app: Windlass, working: Working) -> None:
    @app.job("long.v1")
    async def long() -> None:
        await asyncio.Event().wait()

    app.workflow("w").step("a", long)
    run = await app.start("w", max_duration=1.0)
    async with working(app):
        assert (await run.wait(timeout=30)).state == "timeout"


async def test_a_sleep_survives_reopening_the_app(database: str, working: Working) -> None:
    async with Windlass(database, settings=Settings(master_keys=KEYS)) as first:
        first.workflow("w").sleep("s", timedelta(milliseconds=300))
        run = (await first.start("w")).id
    async with Windlass(database, settings=Settings(master_keys=KEYS)) as second, working(second):
        assert (await (await second.run(run)).wait(timeout=30)).state == "completed"


async def test_a_run_started_in_the_callers_transaction_is_found_by_polling(
    app: Windlass, working: Working, conn: Connection
) -> None:
    app.workflow("w").step("a", lambda: "done")
    async with working(app):
        async with conn.transaction():
            run = await app.start("w", connection=conn)
        assert (await run.wait(timeout=SOON)).value == "done"


# The cases of C3 and D2 item 7, in which the pseudo-code hangs, with a real worker. Five seconds each.


def flow_of(app: Windlass, case: str) -> dict[str, str]:
    """Define a workflow that must end, and return the expected states of its steps."""
    flow, now = app.workflow("w"), Retry(base=0)
    a = flow.step("a", _slow if case == "time-out" else _fails).retry(max_attempts=3, retry=now)
    if case == "time-out":
        a.timeout(0.1)
    bad = "timed out" if case == "time-out" else "failed"
    if case == "on_failure":
        flow.step("b", _fine).after(a, on="complete")
        return {"a": bad, "b": "succeeded"}
    if case == "fan-out":
        flow.step("b", _fine).foreach(a["files"])
        return {"a": bad, "b": "skipped"}
    b = flow.step("b", _fine, needs=a)
    flow.step("c", _fine, needs=b)
    return {"a": bad, "b": "skipped", "c": "skipped"}


calls: list[int] = []


async def _fails(ctx: Context) -> None:
    calls.append(ctx.attempt)
    raise ValueError("boom")


async def _slow(ctx: Context) -> None:
    calls.append(ctx.attempt)
    await asyncio.Event().wait()


async def _fine() -> str:
    return "fine"


@pytest.mark.exclusive
@pytest.mark.parametrize("case", ["failure", "time-out", "on_failure", "fan-out"])
async def test_a_run_with_a_failing_step_ends_within_five_seconds(app: Windlass, working: Working, case: str) -> None:
    calls.clear()
    states = flow_of(app, case)
    async with working(app):
        result = await (await app.start("w")).wait(timeout=5)
    assert (result.state, result.steps) == ("failed", states)
    assert calls == [1, 2, 3]  # three executions, whatever the failure
