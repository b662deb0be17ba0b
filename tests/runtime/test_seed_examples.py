"""The examples of seed 001 as real runs against a shop on loopback, line by line."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import timedelta

import httpx
import pytest

from tests.effects.server import ClientConnection, Received
from tests.runtime.conftest import Working
from tests.runtime.seed_harness import START, at, becomes, reachable, settled
from tests.runtime.shop import app_for, ok, opened
from tests.unit.test_definition_examples import ORDER_PROCESSING, TRIAL_EXPIRY
from windlass import Windlass
from windlass.runtime.handle import Run
from windlass.testing import Clock


@pytest.fixture
async def app(database: str) -> AsyncIterator[Windlass]:
    async with app_for(database) as made:
        yield made


async def word(run: Run, step: str) -> str:
    return (await run.view()).states[step]


async def test_a_paid_order_is_processed(app: Windlass, working: Working) -> None:
    charging, charged = asyncio.Event(), asyncio.Event()
    together = asyncio.Barrier(2)

    async def charge(_: Received, connection: ClientConnection) -> None:
        charging.set()
        await charged.wait()
        await connection.send(ok({"amount": 42.5}))

    async def meet(_: Received, connection: ClientConnection) -> None:
        await asyncio.wait_for(together.wait(), 20)  # who is alone never passes
        await connection.send(ok())

    async with opened(charge=charge, ship=meet, **{"send-receipt": meet}) as shop, working(app):
        await app.deploy(at(shop, ORDER_PROCESSING))
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


async def test_an_order_whose_charge_fails_is_handled_and_completes(app: Windlass, working: Working) -> None:
    """A workflow where `charge` failed but `handle-failure` succeeded is `completed`."""
    async with opened(charge=ok({"error": "declined"}, status=402)) as shop, working(app):
        await app.deploy(at(shop, ORDER_PROCESSING))
        result = await (await app.start("order-processing", {"order_id": 123})).wait(timeout=30)
        assert shop.paths() == ["/charge", "/payment-failed"]
    assert result.steps == {
        "charge": "failed",
        "send-receipt": "skipped",
        "notify-warehouse": "skipped",
        "handle-failure": "succeeded",
    }
    assert result.state == "completed"


async def test_a_trial_sends_a_reminder_after_13_days_and_expires_after_14(
    database: str, working: Working, clock: Clock
) -> None:
    clock.set(START)
    async with app_for(database, clock) as app, opened() as shop, working(app):
        await app.deploy(at(shop, TRIAL_EXPIRY))
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


async def test_a_checkout_is_fulfilled_when_the_provider_calls_back(app: Windlass, working: Working) -> None:
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


async def test_a_checkout_is_fulfilled_when_the_callback_precedes_the_response_of_the_shop(
    app: Windlass, working: Working
) -> None:
    """The callback arrives before the step waits: it is stored."""

    async def create(request: Received, connection: ClientConnection) -> None:
        async with httpx.AsyncClient() as provider:
            paid = {"status": "paid", "payment_id": "p1"}
            assert (await provider.post(json.loads(request.body)["callback_url"], json=paid)).status_code == 200
        await connection.send(ok())

    async with opened(**{"create-checkout": create}) as shop, working(app), reachable(app):
        await app.deploy(at(shop, CHECKOUT))
        result = await (await app.start("checkout-flow", DETAILS)).wait(timeout=30)
        assert shop.body("/fulfill") == {"order_id": "o1", "payment_id": "p1"}
    assert result.state == "completed"


async def test_a_checkout_without_payment_expires_after_an_hour(database: str, working: Working, clock: Clock) -> None:
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
