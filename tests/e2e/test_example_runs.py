"""The workflow files in examples/, unmodified, run to their ends against the example shop."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from examples.shop import Shop

from tests.e2e.shop import LOOPBACK
from tests.keys import KEYS
from windlass import Run, Windlass
from windlass.effects.documents import read
from windlass.settings import Settings
from windlass.testing import Clock
from windlass.web import server
from windlass.web.middleware.guard import GuardOptions
from windlass.web.server import listen, serving

EXAMPLES = Path(__file__).parents[2] / "examples"


@asynccontextmanager
async def running_example(database: str, name: str, clock: Clock) -> AsyncIterator[Windlass]:
    """Yield an app with this example deployed; its server and its worker are running."""
    async with Windlass(database, settings=Settings(http_allow=LOOPBACK, master_keys=KEYS), clock=clock.now) as app:
        await app.deploy(*read(EXAMPLES / f"{name}.yaml"))
        listener = listen("127.0.0.1", 0)
        await app.listen_at(listener.url)
        stop = asyncio.Event()
        async with serving(server.build(app, GuardOptions(host=listener.host)), listener):
            work = asyncio.create_task(app.work(stop=stop))
            try:
                yield app
            finally:
                stop.set()
                await work


async def becomes(run: Run, step: str, state: str) -> None:
    async with asyncio.timeout(30):
        while (await run.view()).states[step] != state:
            await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    ("card", "ends"),
    [
        ("visa", {"charge": "succeeded", "receipt": "succeeded", "parcel": "succeeded", "no-money": "skipped"}),
        ("declined", {"charge": "failed", "receipt": "skipped", "parcel": "skipped", "no-money": "succeeded"}),
    ],
)
async def test_an_order_is_shipped_or_its_failed_charge_is_handled(
    database: str, shop: Shop, clock: Clock, card: str, ends: dict[str, str]
) -> None:
    async with running_example(database, "order-processing", clock) as app:
        run = await app.start("order-processing", {"shop": shop.url, "order": "A-1", "card": card})
        result = await run.wait(timeout=60)
    assert (result.state, result.steps) == ("completed", ends)


async def test_a_trial_sends_a_reminder_after_thirteen_days_and_closes_a_day_later(
    database: str, shop: Shop, clock: Clock
) -> None:
    async with running_example(database, "trial-expiry", clock) as app:
        run = await app.start("trial-expiry", {"shop": shop.url, "user": "ada"})
        for nap, days in (("thirteen-days", 13), ("one-more-day", 1)):
            await becomes(run, nap, "active")
            clock.move(timedelta(days=days))
        result = await run.wait(timeout=60)
    assert result.state == "completed"
    assert [call.path for call in shop.calls] == ["/trials/open", "/mails", "/trials/close"]


@pytest.mark.parametrize("paid", [True, False], ids=["paid", "never paid"])
async def test_a_checkout_is_delivered_if_paid_and_given_up_otherwise(
    database: str, shop: Shop, clock: Clock, paid: bool
) -> None:
    async with running_example(database, "checkout-flow", clock) as app:
        run = await app.start("checkout-flow", {"shop": shop.url, "order": "A-2", "amount": 5})
        await becomes(run, "payment", "active")
        if paid:
            assert await shop.pay("A-2") == 200
        else:
            clock.move(timedelta(hours=1))
        result = await run.wait(timeout=60)
    last = "deliver" if paid else "give-up"
    assert result.state == "completed"
    assert {name for name in ("deliver", "give-up") if result.steps[name] == "succeeded"} == {last}
