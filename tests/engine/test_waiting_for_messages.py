"""Handlers that wait for messages: signals to their job or run, and published events."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.keys import KEYS
from windlass import Context, RunState, WaitTimeout, Windlass
from windlass.core.explain.activity import Activity, activity_of
from windlass.engine import messages
from windlass.engine.database import Tenant
from windlass.engine.jobs import control as jobs
from windlass.settings import Settings
from windlass.store.jobs import FAR
from windlass.testing import Clock, run_to_end, run_until_idle

START = datetime(2031, 5, 1, tzinfo=UTC)


@pytest.fixture
async def app(database: str, clock: Clock) -> AsyncIterator[Windlass]:
    clock.set(START)
    async with Windlass(database, settings=Settings(master_keys=KEYS), clock=clock.now) as opened:
        yield opened


@pytest.fixture
async def db(app: Windlass) -> Tenant:
    return await app.open()


async def test_a_handler_receives_the_signals_to_its_job_in_order(app: Windlass, db: Tenant, clock: Clock) -> None:
    @app.job("order.pay.v1")
    async def pay(ctx: Context) -> Any:
        return [await ctx.wait_for("paid"), await ctx.wait_for("paid"), await ctx.wait_for("done", count=2)]

    job = await app.submit("order.pay.v1")
    await messages.signal(db, job, "paid", payload={"cents": 1})  # early: kept
    row = await run_to_end(app, job, clock)
    assert (row.status, row.run_at, row.leased_by, row.attempt) == ("pending", FAR, None, 0)
    await messages.signal(db, job, "paid", payload={"cents": 2})
    await messages.signal(db, job, "done", payload=None)
    await messages.signal(db, job, "done", payload="x")
    row = await run_to_end(app, job, clock)
    assert (row.status, row.result) == ("succeeded", [{"cents": 1}, {"cents": 2}, [None, "x"]])


async def test_a_published_event_reaches_all_handlers_that_wait_for_its_key(
    app: Windlass, db: Tenant, clock: Clock
) -> None:
    @app.job("order.pay.v1", max_attempts=1)
    def pay(ctx: Context, order: str) -> Any:
        return ctx.wait_for_sync("paid", key=order, timeout="1h")

    first, second, other = [await app.submit("order.pay.v1", {"order": order}) for order in ("a", "a", "b")]
    await messages.publish(db, "paid", key="a", payload=7)
    assert [(await run_to_end(app, job, clock)).result for job in (first, second)] == [7, 7]
    row = await run_to_end(app, other, clock)
    assert (row.status, row.last_error) == ("failed", "no message 'paid' arrived in time")


async def test_a_message_after_the_timeout_of_a_wait_is_received_by_the_next_wait(
    app: Windlass, db: Tenant, clock: Clock
) -> None:
    @app.job("order.pay.v1")
    async def pay(ctx: Context) -> Any:
        try:
            return await ctx.wait_for("paid", timeout="1h")
        except WaitTimeout as error:
            await ctx.step("remind", lambda: None)
            return [error.name, await ctx.wait_for("paid")]

    job = await app.submit("order.pay.v1")
    row = await run_to_end(app, job, clock)
    assert (row.status, row.run_at, clock.now()) == ("pending", FAR, START + timedelta(hours=1))
    await messages.signal(db, job, "paid", payload="late")
    assert (await run_to_end(app, job, clock)).result == ["paid", "late"]


async def test_a_message_that_arrived_in_time_is_received_even_if_the_handler_resumes_later(
    app: Windlass, db: Tenant, clock: Clock
) -> None:
    @app.job("order.pay.v1")
    async def pay(ctx: Context) -> Any:
        return await ctx.wait_for("paid", timeout="1h")

    job = await app.submit("order.pay.v1")
    await messages.signal(db, job, "paid", payload="in time")
    # The job is executed again after the timeout, before the router has processed the message.
    await run_until_idle(app)
    clock.move(timedelta(hours=1))
    assert (await run_to_end(app, job, clock)).result == "in time"


async def test_a_reopened_job_waits_again_for_one_message(app: Windlass, db: Tenant, clock: Clock, conn: Any) -> None:
    @app.job("order.pay.v1")
    async def pay(ctx: Context) -> Any:
        return await ctx.wait_for("paid")

    job = await app.submit("order.pay.v1")
    await run_to_end(app, job, clock)
    await app.cancel(job)
    await app.retry(job)
    await run_to_end(app, job, clock)
    assert await conn.fetchval("select count(*) from windlass.waiter where state in ('new', 'open')") == 1
    await messages.signal(db, job, "paid", payload=1)
    assert (await run_to_end(app, job, clock)).result == 1


async def test_a_signal_to_a_run_is_received_by_the_handler_of_its_step(
    app: Windlass, db: Tenant, clock: Clock
) -> None:
    @app.job("order.pay.v1")
    async def pay(ctx: Context) -> Any:
        return await ctx.wait_for("paid")

    await app.deploy({"name": "order", "tasks": [{"name": "pay", "job": "order.pay.v1"}]})
    run = await app.start("order")
    [job] = (await jobs.list_(db, run=run.id)).jobs
    await run_to_end(app, job.id, clock)
    await messages.signal(db, run.id, "paid", payload="thanks")
    await run_to_end(app, job.id, clock)
    assert (await run.result()).value == "thanks"


@pytest.mark.parametrize(
    ("arguments", "mistake"),
    [
        ({"name": ""}, "name is empty"),
        ({"name": "x", "key": "k" * 401}, "key is 401 characters long"),
        ({"name": "x", "timeout": 0}, "timeout is 0: it must be positive"),
        ({"name": "x", "count": 0}, "count is 0: it must be 1 to 1000"),
    ],
    ids=["name", "key", "timeout", "count"],
)
async def test_an_invalid_argument_fails_the_job_without_a_retry(
    app: Windlass, clock: Clock, arguments: dict[str, Any], mistake: str
) -> None:
    @app.job("order.pay.v1")
    async def pay(ctx: Context) -> Any:
        return await ctx.wait_for(**arguments)

    row = await run_to_end(app, await app.submit("order.pay.v1"), clock)
    assert (row.status, row.attempt) == ("failed", 1)
    assert mistake in (row.last_error or "")


async def test_the_explanation_of_a_run_contains_what_its_handlers_wait_for(app: Windlass, clock: Clock) -> None:
    @app.job("order.wait.v1")
    async def wait(ctx: Context, how: str) -> None:
        match how:
            case "sleep":
                await ctx.sleep("1d")
            case "wait":
                await ctx.wait_for("paid")
            case _:
                await ctx.run("child")

    await app.deploy({"name": "child", "tasks": [{"name": "nap", "sleep": "2d"}]})
    tasks = [{"name": how, "job": "order.wait.v1", "input": {"how": how}} for how in ("sleep", "wait", "run")]
    await app.deploy({"name": "waits", "tasks": tasks})
    run = await app.start("waits")
    await run_until_idle(app)
    texts = {step.step: " ".join(step.sentences) for step in (await run.explain()).steps}
    assert "Its handler waits in `sleep`, until 2031-05-02 00:00:00Z at the latest" in texts["sleep"]
    assert "Its handler waits in `wait_for paid`: `windlass jobs steps " in texts["wait"]
    assert "Its handler waits in `run child`: " in texts["run"]
    snapshot = await run.account()
    found = [activity_of(step, RunState.RUNNING, snapshot.now) for step in snapshot.steps]
    assert [step.activity for step in found if step is not None] == [
        Activity.SLEEPING, Activity.WAITING_FOR_MESSAGE, Activity.WAITING_FOR_CHILD,
    ]  # fmt: skip


async def test_a_signal_is_not_delivered_to_a_handler_that_no_longer_waits(
    app: Windlass, db: Tenant, clock: Clock
) -> None:
    @app.job("order.pay.v1")
    async def pay(ctx: Context) -> Any:
        return await ctx.wait_for("paid")

    await app.deploy({"name": "order", "tasks": [{"name": name, "job": "order.pay.v1"} for name in ("a", "b")]})
    run = await app.start("order")
    await run_until_idle(app)
    [second, first] = (await app.list(run=run.id)).jobs
    async with db.begin() as conn:
        await conn.execute("update workflow.workflow_run set status = 'cancelled' where id = $1", first.id)
    await messages.signal(db, run.id, "paid", payload=1)
    assert (await run_to_end(app, second.id, clock)).result == 1
