"""Messages with the loops of a real process: they are delivered without calls by the test."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from windlass import Windlass
from windlass.testing import run_until_idle

PATIENCE = 60.0  # a deadline, not a pause
ORDER = {
    "name": "order",
    "tasks": {
        "paid": {"wait_for_event": {"name": "paid", "key": "{{input.id}}", "timeout": "1h"}},
        "sent": {"needs": ["paid"], "wait_for_event": "sent"},
    },
}


@pytest.fixture
async def tended(app: Windlass) -> AsyncIterator[Windlass]:
    """An app whose loops run."""
    stop = asyncio.Event()
    loops = asyncio.create_task(app.tend(stop=stop))
    yield app
    stop.set()
    await loops


async def test_a_run_completes_after_an_event_and_a_signal(tended: Windlass) -> None:
    await tended.deploy(ORDER)
    run = await tended.start("order", {"id": "42"})
    await tended.publish_event("paid", key="42")
    await tended.signal(run.id, "sent", {"parcel": 7})
    async with asyncio.timeout(PATIENCE):
        assert (await run.wait()).output == {"parcel": 7}


async def test_the_test_kit_delivers_messages(app: Windlass) -> None:
    received: list[Any] = []

    @app.job("order.notify.v1")
    async def notify(paid: Any) -> None:
        received.append(paid)

    tasks = {
        "paid": {"wait_for_event": "paid"},
        "notify": {"needs": ["paid"], "job": "order.notify.v1", "input": {"paid": "{{tasks.paid.output}}"}},
    }
    await app.deploy({"name": "order", "tasks": tasks})
    run = await app.start("order")
    await run_until_idle(app)
    await app.signal(run.id, "paid", 995)
    await run_until_idle(app)
    assert received == [995]
