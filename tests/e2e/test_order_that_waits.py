"""The code of the tutorial "an order that waits for its payment" does what the tutorial says."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from tests.keys import KEYS
from windlass import Windlass
from windlass.settings import Settings
from windlass.testing import Clock, run_to_end

TEXT = (Path(__file__).parents[2] / "docs/tutorial/an-order-that-waits.md").read_text("utf-8")


def block(language: str) -> str:
    [code] = re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)
    return str(code)


@asynccontextmanager
async def orders(database: str, clock: Clock) -> AsyncIterator[Windlass]:
    """Yield the app of the tutorial on a test database."""
    module = ModuleType("orders")
    exec(block("python"), module.__dict__)
    async with Windlass(database, settings=Settings(master_keys=KEYS), clock=clock.now) as app:
        app.handlers = module.app.handlers
        yield app


@pytest.mark.parametrize("paid", [True, False], ids=["paid", "not paid in time"])
async def test_the_order_as_a_function_ships_when_paid_and_expires_otherwise(
    database: str, clock: Clock, paid: bool
) -> None:
    async with orders(database, clock) as app:
        job = await app.submit("order.fulfil.v1", {"order": "o-7"})
        if paid:
            await app.publish_event("paid", {"eur": "12.50"}, key="o-7")
        row = await run_to_end(app, job, clock)
    expected = {"parcel": "parcel of o-7", "paid": "12.50"} if paid else {"expired": "o-7 is back on its shelf"}
    assert (row.status, row.result) == ("succeeded", expected)


@pytest.mark.parametrize("paid", [True, False], ids=["paid", "not paid in time"])
async def test_the_order_as_a_graph_ships_when_paid_and_expires_otherwise(
    database: str, clock: Clock, conn: Any, paid: bool
) -> None:
    async with orders(database, clock) as app:
        await app.deploy(yaml.safe_load(block("yaml")))
        stop = asyncio.Event()
        work = asyncio.create_task(app.work(stop=stop))
        run = await app.start("paid-order", {"order": "o-8"})
        if paid:
            await app.publish_event("paid", {"eur": "12.50"}, key="o-8")
        else:
            await until_waiting(conn)
            clock.move(timedelta(days=2))
        result = await run.wait(timeout=60)
        stop.set()
        await work
    assert result.state == "completed"
    other = {"paid": "succeeded", "ship": "succeeded", "release": "skipped"}
    expired = {"paid": "timed out", "ship": "skipped", "release": "succeeded"}
    assert result.steps == {"reserve": "succeeded", **(other if paid else expired)}


async def until_waiting(conn: Any) -> None:
    async with asyncio.timeout(60):
        while not await conn.fetchval("select count(*) from windlass.waiter where state = 'open'"):
            await asyncio.sleep(0.02)
