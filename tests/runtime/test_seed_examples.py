"""The examples of seed 001 as real runs against a shop on this machine, line by line; then its edge cases."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import httpx
import pytest

from tests.effects.server import Received, Talk
from tests.runtime.conftest import Working, eventually
from tests.runtime.shop import Shop, app_for, ok, opened
from windlass import Windlass
from windlass.engine import hooks
from windlass.engine.runs import sweep
from windlass.errors import InvalidWorkflow
from windlass.runtime.handle import Run
from windlass.testing import Clock
from windlass.web import server
from windlass.web.middleware.guard import GuardOptions
from windlass.web.server import listen, serving

START = datetime(2031, 3, 1, 10, tzinfo=UTC)


@pytest.fixture
async def app(database: str) -> AsyncIterator[Windlass]:
    async with app_for(database) as made:
        yield made


def at(shop: Shop, document: str) -> dict[str, Any]:
    """The seed's words, with the shop in the place of myapp.com."""
    found: dict[str, Any] = json.loads(document.replace("https://myapp.com/api", shop.url))
    return found


async def word(run: Run, step: str) -> str:
    return (await run.view()).states[step]


async def becomes(run: Run, **steps: str) -> None:
    """Wait until these steps are that."""
    wanted = {name.replace("__", "-"): state for name, state in steps.items()}

    async def look() -> bool:
        states = (await run.view()).states
        return all(states[name] == state for name, state in wanted.items())

    await eventually(look, seconds=30)


ORDER = """
{
  "name": "order-processing",
  "trigger": "api",
  "tasks": {
    "charge": {
      "url": "https://myapp.com/api/charge",
      "method": "POST",
      "body": { "order_id": "{{trigger.body.order_id}}" }
    },
    "send-receipt": {
      "needs": ["charge"],
      "if": "tasks.charge.status_code == 200",
      "url": "https://myapp.com/api/send-receipt",
      "method": "POST",
      "body": {
        "order_id": "{{trigger.body.order_id}}",
        "amount": "{{tasks.charge.body.amount}}"
      }
    },
    "notify-warehouse": {
      "needs": ["charge"],
      "if": "tasks.charge.status_code == 200",
      "url": "https://myapp.com/api/ship",
      "method": "POST"
    },
    "handle-failure": {
      "needs": ["charge"],
      "if": "tasks.charge.status_code != 200",
      "url": "https://myapp.com/api/payment-failed",
      "method": "POST"
    }
  }
}
"""


async def test_order_processing_that_is_paid(app: Windlass, working: Working) -> None:
    charging, charged = asyncio.Event(), asyncio.Event()
    together = asyncio.Barrier(2)

    async def charge(_: Received, talk: Talk) -> None:
        charging.set()
        await charged.wait()
        await talk.send(ok({"amount": 42.5}))

    async def meet(_: Received, talk: Talk) -> None:
        await asyncio.wait_for(together.wait(), 20)  # who is alone never passes
        await talk.send(ok())

    async with opened(charge=charge, ship=meet, **{"send-receipt": meet}) as shop, working(app):
        await app.deploy(at(shop, ORDER))
        run = await app.start("order-processing", {"order_id": 123})  # 1.
        await asyncio.wait_for(charging.wait(), 20)  # 2. and 3.: the task with no needs, and a worker does it
        assert (await run.view()).row.letters == "a..."
        assert shop.paths() == ["/charge"]
        assert shop.body("/charge") == {"order_id": 123}
        charged.set()
        result = await run.wait(timeout=30)  # 4.: in parallel, or they would not meet
        assert sorted(shop.paths()) == ["/charge", "/send-receipt", "/ship"]
        assert shop.body("/send-receipt") == {"order_id": 123, "amount": 42.5}
        assert shop.asked("/ship")[0].body == b""
        assert result.steps == {
            "charge": "succeeded",
            "send-receipt": "succeeded",
            "notify-warehouse": "succeeded",
            "handle-failure": "skipped",
        }
        assert result.state == "completed"  # 5.


async def test_order_processing_that_is_not_paid(app: Windlass, working: Working) -> None:
    """A workflow where `charge` failed but `handle-failure` succeeded is `completed`."""
    async with opened(charge=ok({"error": "declined"}, status=402)) as shop, working(app):
        await app.deploy(at(shop, ORDER))
        result = await (await app.start("order-processing", {"order_id": 123})).wait(timeout=30)
        assert shop.paths() == ["/charge", "/payment-failed"]
    assert result.steps == {
        "charge": "failed",
        "send-receipt": "skipped",
        "notify-warehouse": "skipped",
        "handle-failure": "succeeded",
    }
    assert result.state == "completed"


TRIAL = """
{
  "name": "trial-expiry",
  "trigger": "api",
  "tasks": {
    "start-trial": {
      "url": "https://myapp.com/api/activate-trial",
      "method": "POST",
      "body": { "user_id": "{{trigger.body.user_id}}" }
    },
    "wait-13-days": {
      "needs": ["start-trial"],
      "sleep": "13d"
    },
    "send-reminder": {
      "needs": ["wait-13-days"],
      "url": "https://myapp.com/api/send-email",
      "method": "POST",
      "body": { "template": "trial-ending-soon", "user_id": "{{trigger.body.user_id}}" }
    },
    "wait-1-day": {
      "needs": ["send-reminder"],
      "sleep": "1d"
    },
    "expire-trial": {
      "needs": ["wait-1-day"],
      "url": "https://myapp.com/api/expire-trial",
      "method": "POST",
      "body": { "user_id": "{{trigger.body.user_id}}" }
    }
  }
}
"""


async def test_trial_expiry_over_fourteen_days(database: str, working: Working, clock: Clock) -> None:
    clock.set(START)
    async with app_for(database, clock) as app, opened() as shop, working(app):
        await app.deploy(at(shop, TRIAL))
        run = await app.start("trial-expiry", {"user_id": "u1"})
        await becomes(run, start__trial="succeeded", wait__13__days="active")
        assert shop.body("/activate-trial") == {"user_id": "u1"}
        clock.set(START + timedelta(days=13, seconds=-1))
        await settled(app)
        assert await word(run, "wait-13-days") == "active"
        clock.set(START + timedelta(days=13))
        await becomes(run, wait__13__days="succeeded", send__reminder="succeeded", wait__1__day="active")
        assert shop.body("/send-email") == {"template": "trial-ending-soon", "user_id": "u1"}
        assert shop.asked("/expire-trial") == []
        clock.set(START + timedelta(days=14))
        result = await run.wait(timeout=30)
        assert shop.paths() == ["/activate-trial", "/send-email", "/expire-trial"]
        assert shop.body("/expire-trial") == {"user_id": "u1"}
    assert (result.state, set(result.steps.values())) == ("completed", {"succeeded"})


async def settled(app: Windlass) -> None:
    """The timer loop looks at least once a second: give it the time to do something wrong."""
    assert await sweep.wake(await app.open()) == 0


CHECKOUT = """
{
  "name": "checkout-flow",
  "trigger": "api",
  "tasks": {
    "create-checkout": {
      "url": "https://myapp.com/api/create-checkout",
      "method": "POST",
      "body": {
        "amount": "{{trigger.body.amount}}",
        "callback_url": "{{wait.payment-result.url}}"
      }
    },
    "payment-result": {
      "needs": ["create-checkout"],
      "wait_for_webhook": { "timeout": "1h" }
    },
    "fulfill-order": {
      "needs": ["payment-result"],
      "if": "tasks.payment-result.body.status == 'paid'",
      "url": "https://myapp.com/api/fulfill",
      "method": "POST",
      "body": {
        "order_id": "{{trigger.body.order_id}}",
        "payment_id": "{{tasks.payment-result.body.payment_id}}"
      }
    },
    "handle-timeout": {
      "needs": ["payment-result"],
      "if": "tasks.payment-result.status == 'timeout'",
      "url": "https://myapp.com/api/checkout-expired",
      "method": "POST"
    }
  }
}
"""
DETAILS = {"order_id": "o1", "amount": 9900}


@asynccontextmanager
async def reachable(app: Windlass) -> AsyncIterator[str]:
    """The app with its door for callbacks open; where that is."""
    listener = listen("127.0.0.1", 0)
    url = await app.listen_at(listener.url)
    async with serving(server.build(app, GuardOptions(host=listener.host)), listener):
        yield url


async def test_checkout_that_is_paid_by_an_external_provider(app: Windlass, working: Working) -> None:
    async with opened() as shop, working(app), reachable(app) as door:
        await app.deploy(at(shop, CHECKOUT))
        run = await app.start("checkout-flow", DETAILS)  # 1.
        await becomes(run, create__checkout="succeeded", payment__result="active")  # 4.: it waits
        sent = shop.body("/create-checkout")  # 2.
        assert sent["amount"] == 9900
        assert sent["callback_url"].startswith(f"{door}/wh/")
        async with httpx.AsyncClient() as provider:  # 3. and 5.
            answer = await provider.post(sent["callback_url"], json={"status": "paid", "payment_id": "p7"})
        assert answer.status_code == 200
        result = await run.wait(timeout=30)
        assert shop.body("/fulfill") == {"order_id": "o1", "payment_id": "p7"}  # 6. and 7.
        assert shop.paths() == ["/create-checkout", "/fulfill"]
    assert result.state == "completed"
    assert result.steps == {
        "create-checkout": "succeeded",
        "payment-result": "succeeded",
        "fulfill-order": "succeeded",
        "handle-timeout": "skipped",
    }


async def test_checkout_whose_provider_is_quicker_than_the_answer_of_the_shop(app: Windlass, working: Working) -> None:
    """The callback comes before the step waits: it is kept."""

    async def create(request: Received, talk: Talk) -> None:
        async with httpx.AsyncClient() as provider:
            paid = {"status": "paid", "payment_id": "p1"}
            assert (await provider.post(json.loads(request.body)["callback_url"], json=paid)).status_code == 200
        await talk.send(ok())

    async with opened(**{"create-checkout": create}) as shop, working(app), reachable(app):
        await app.deploy(at(shop, CHECKOUT))
        result = await (await app.start("checkout-flow", DETAILS)).wait(timeout=30)
        assert shop.body("/fulfill") == {"order_id": "o1", "payment_id": "p1"}
    assert result.state == "completed"


async def test_checkout_that_nobody_pays_within_the_hour(database: str, working: Working, clock: Clock) -> None:
    clock.set(START)
    async with app_for(database, clock) as app, opened() as shop, working(app):  # 8.
        await app.deploy(at(shop, CHECKOUT))
        run = await app.start("checkout-flow", DETAILS)
        await becomes(run, payment__result="active")
        clock.set(START + timedelta(minutes=59, seconds=59))
        await settled(app)
        assert await word(run, "payment-result") == "active"
        clock.set(START + timedelta(hours=1))
        result = await run.wait(timeout=30)
        assert shop.paths() == ["/create-checkout", "/checkout-expired"]
    assert result.state == "completed"
    assert result.steps == {
        "create-checkout": "succeeded",
        "payment-result": "timed out",
        "fulfill-order": "skipped",
        "handle-timeout": "succeeded",
    }


# Edge cases that have no test elsewhere


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
async def test_circles_and_misspelled_needs_are_refused_when_the_workflow_is_made(
    app: Windlass, tasks: Any, told: str
) -> None:
    with pytest.raises(InvalidWorkflow, match=told):
        await app.deploy({"name": "w", "tasks": tasks})


async def test_runs_of_one_workflow_do_not_see_each_other(app: Windlass, working: Working) -> None:
    async def echo(request: Received, talk: Talk) -> None:
        await talk.send(ok(json.loads(request.body)))

    async with opened(x=echo, y=echo) as shop, working(app):
        tasks = {
            "a": {"url": f"{shop.url}/x", "body": "{{input}}"},
            "b": {"needs": ["a"], "url": f"{shop.url}/y", "body": ["{{tasks.a.body.n}}", "{{run.id}}"]},
        }
        await app.deploy({"name": "w", "tasks": tasks})
        started = [await app.start("w", {"n": n}) for n in range(50)]
        results = await asyncio.gather(*(run.wait(timeout=60) for run in started))
    assert [result.output for result in results] == [[n, str(run.id)] for n, run in enumerate(started)]


async def test_a_run_ends_as_timeout_after_its_longest_duration_which_is_30_days(
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
async def test_a_sleep_ends_at_a_time_that_is_fixed_when_it_begins(
    database: str, clock: Clock, conn: Any, sleep: Any, wait: timedelta
) -> None:
    clock.set(START)
    async with app_for(database, clock) as app:
        await app.deploy({"name": "w", "tasks": {"a": {"sleep": sleep}}})
        await app.start("w")
    assert await conn.fetchval("select due_at from windlass.timer") == START + wait


async def test_steps_that_end_at_once_on_two_nodes_advance_the_run_once(database: str, working: Working) -> None:
    """Each node does one of them, and both answers come at the same moment."""
    together = asyncio.Barrier(2)

    async def meet(_: Received, talk: Talk) -> None:
        await together.wait()
        await talk.send(ok())

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


async def test_without_any_events_polling_finds_everything(database: str, working: Working) -> None:
    """NOTIFY is off: callbacks, sleeps, answers and runs below are found all the same."""
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


async def test_a_process_that_starts_anew_goes_on_where_the_last_one_was(
    database: str, working: Working, clock: Clock
) -> None:
    """Nothing is kept in memory: a sleep, a wait and a run of the first process end in the second."""
    clock.set(START)
    async with app_for(database, clock) as first, opened() as shop:
        await first.deploy(at(shop, TRIAL))
        run: UUID = (await first.start("trial-expiry", {"user_id": "u1"})).id
        async with working(first):
            await becomes(await first.run(run), wait__13__days="active")
    clock.set(START + timedelta(days=20))
    async with app_for(database, clock) as second, opened() as shop:
        handle = await second.run(run)
        async with working(second):
            await becomes(handle, wait__13__days="succeeded")
