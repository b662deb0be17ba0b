"""Edge cases of seed 001 as real runs against a shop on loopback."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.effects.server import ClientConnection, Received
from tests.runtime.conftest import Working
from tests.runtime.seed_harness import START, at, becomes, reachable, settled
from tests.runtime.shop import app_for, ok, opened
from tests.unit.test_definition_examples import TRIAL_EXPIRY
from windlass import Windlass
from windlass.engine import hooks
from windlass.errors import InvalidWorkflow
from windlass.testing import Clock


@pytest.fixture
async def app(database: str) -> AsyncIterator[Windlass]:
    async with app_for(database) as made:
        yield made


async def test_dependents_of_a_failed_task_are_skipped_after_its_last_retry_and_not_before(
    app: Windlass, working: Working
) -> None:
    async with opened(x=ok(status=500)) as shop, working(app):
        tasks = {
            "a": {"url": f"{shop.url}/x", "retries": 2, "retry": {"base": 0.001, "jitter": 0}},
            "b": {"needs": ["a"], "url": f"{shop.url}/b"},
            "c": {"needs": ["b"], "url": f"{shop.url}/c"},
        }
        await app.deploy({"name": "w", "tasks": tasks})
        result = await (await app.start("w")).wait(timeout=30)
        assert shop.paths() == ["/x"] * 3
    assert (result.state, result.steps) == ("failed", {"a": "failed", "b": "skipped", "c": "skipped"})


@pytest.mark.parametrize(
    ("tasks", "told"),
    [
        ({"a": {"needs": ["b"], "sleep": 1}, "b": {"needs": ["a"], "sleep": 1}}, "cycle|circle|each other|itself"),
        ({"a": {"needs": ["a"], "sleep": 1}}, "cycle|circle|each other|itself"),
        ({"charge": {"sleep": 1}, "b": {"needs": ["chrage"], "sleep": 1}}, "charge"),
    ],
)
async def test_cycles_and_misspelled_needs_are_refused_at_deployment(app: Windlass, tasks: Any, told: str) -> None:
    with pytest.raises(InvalidWorkflow, match=told):
        await app.deploy({"name": "w", "tasks": tasks})


async def test_concurrent_runs_of_one_workflow_are_isolated(app: Windlass, working: Working) -> None:
    async def echo(request: Received, connection: ClientConnection) -> None:
        await connection.send(ok(json.loads(request.body)))

    async with opened(x=echo, y=echo) as shop, working(app):
        tasks = {
            "a": {"url": f"{shop.url}/x", "body": "{{input}}"},
            "b": {"needs": ["a"], "url": f"{shop.url}/y", "body": ["{{tasks.a.body.n}}", "{{run.id}}"]},
        }
        await app.deploy({"name": "w", "tasks": tasks})
        started = [await app.start("w", {"n": n}) for n in range(50)]
        results = await asyncio.gather(*(run.wait(timeout=60) for run in started))
    assert [result.output for result in results] == [[n, str(run.id)] for n, run in enumerate(started)]


async def test_a_run_times_out_after_its_maximum_duration_which_is_30_days_by_default(
    database: str, working: Working, clock: Clock
) -> None:
    clock.set(START)
    async with app_for(database, clock) as app, working(app):
        await app.deploy({"name": "w", "tasks": {"a": {"sleep": "40d"}, "b": {"needs": ["a"], "sleep": 1}}})
        await app.deploy({"name": "v", "max_duration_seconds": 3600, "tasks": {"a": {"wait_for_webhook": True}}})
        long, short = await app.start("w"), await app.start("v")
        await becomes(long, a="active")
        clock.set(START + timedelta(hours=1))
        assert (await short.wait(timeout=30)).state == "timeout"
        clock.set(START + timedelta(days=30, seconds=-1))
        await settled(app)
        assert (await long.view()).row.state == "running"
        clock.set(START + timedelta(days=30))
        result = await long.wait(timeout=30)
    assert (result.state, result.steps) == ("timeout", {"a": "cancelled", "b": "cancelled"})


@pytest.mark.parametrize(
    ("sleep", "wait"),
    [
        ("30s", timedelta(seconds=30)),
        ("5m", timedelta(minutes=5)),
        ("2h", timedelta(hours=2)),
        ("1d", timedelta(days=1)),
        (90, timedelta(seconds=90)),
        (0.5, timedelta(milliseconds=500)),
        (0, timedelta()),
    ],
)
async def test_the_end_of_a_sleep_is_fixed_when_the_sleep_starts(
    database: str, clock: Clock, conn: Any, sleep: Any, wait: timedelta
) -> None:
    clock.set(START)
    async with app_for(database, clock) as app:
        await app.deploy({"name": "w", "tasks": {"a": {"sleep": sleep}}})
        await app.start("w")
    assert await conn.fetchval("select due_at from windlass.timer") == START + wait


async def test_steps_that_end_simultaneously_on_two_workers_advance_the_run_once(
    database: str, working: Working
) -> None:
    """Each worker runs one of the steps, and both responses arrive at the same moment."""
    together = asyncio.Barrier(2)

    async def meet(_: Received, connection: ClientConnection) -> None:
        await together.wait()
        await connection.send(ok())

    async with app_for(database) as one, app_for(database) as two, opened(a=meet, b=meet) as shop:
        tasks = {
            "a": {"url": f"{shop.url}/a"},
            "b": {"url": f"{shop.url}/b"},
            "c": {"needs": ["a", "b"], "url": f"{shop.url}/c"},
        }
        await one.deploy({"name": "w", "tasks": tasks})
        async with working(one, id="one", concurrency=1), working(two, id="two", concurrency=1):
            for _ in range(10):
                assert (await (await one.start("w")).wait(timeout=30)).state == "completed"
        assert len(shop.asked("/c")) == 10
        assert len({request.headers["idempotency-key"] for request in shop.asked("/c")}) == 10


async def test_polling_finds_all_work_without_notifications(database: str, working: Working) -> None:
    """NOTIFY is off: callbacks, sleeps, results and child runs are found by polling."""
    async with (
        app_for(database, notify=False) as app,
        app_for(database, notify=False) as elsewhere,
        opened() as shop,
        working(app),
        reachable(elsewhere),
    ):
        await app.listen_at("http://127.0.0.1:1")
        below = {"z": {"url": f"{shop.url}/z"}}
        tasks = {
            "a": {"url": f"{shop.url}/a", "body": "{{wait.paid.url}}"},
            "paid": {"needs": ["a"], "wait_for_webhook": {"timeout": "1h"}},
            "nap": {"needs": ["paid"], "sleep": 0.05},
            "sub": {"needs": ["nap"], "workflow": "below"},
        }
        await elsewhere.deploy({"name": "below", "tasks": below}, {"name": "w", "tasks": tasks})
        run = await elsewhere.start("w")
        await becomes(run, paid="active")
        token = shop.asked("/a")[0].body.decode().rpartition("/")[2]  # a text is sent as it is
        await hooks.receive(await elsewhere.open(), token, b"{}", {})
        assert (await run.wait(timeout=60)).state == "completed"


async def test_a_new_process_resumes_the_runs_of_the_previous_one(
    database: str, working: Working, clock: Clock
) -> None:
    """No state is kept in memory: a sleep that began in the first process ends in the second."""
    clock.set(START)
    async with app_for(database, clock) as first, opened() as shop:
        await first.deploy(at(shop, TRIAL_EXPIRY))
        run: UUID = (await first.start("trial-expiry", {"user_id": "u1"})).id
        async with working(first):
            await becomes(await first.run(run), wait__13__days="active")
    clock.set(START + timedelta(days=20))
    async with app_for(database, clock) as second, opened() as shop:
        handle = await second.run(run)
        async with working(second):
            await becomes(handle, wait__13__days="succeeded")
