"""Runs the documents of seed 001 against a test server and waits for the states of their steps."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from tests.runtime.conftest import eventually
from tests.runtime.shop import Shop
from windlass import Windlass
from windlass.engine.runs import sweep
from windlass.runtime.handle import Run
from windlass.web import server
from windlass.web.middleware.guard import GuardOptions
from windlass.web.server import listen, serving

START = datetime(2031, 3, 1, 10, tzinfo=UTC)


def at(shop: Shop, document: str) -> dict[str, Any]:
    """Return a document of the seed with the URL of the shop in place of https://myapp.com/api."""
    parsed: dict[str, Any] = json.loads(document.replace("https://myapp.com/api", shop.url))
    return parsed


async def becomes(run: Run, **steps: str) -> None:
    """Wait until these steps have these states."""
    expected = {name.replace("__", "-"): state for name, state in steps.items()}

    async def look() -> bool:
        states = (await run.view()).states
        return all(states[name] == state for name, state in expected.items())

    await eventually(look, seconds=30)


async def settled(app: Windlass) -> None:
    """Run the timer loop once and check that it ends no sleep."""
    assert await sweep.wake(await app.open()) == 0


@asynccontextmanager
async def reachable(app: Windlass) -> AsyncIterator[str]:
    """Serve the app's callback addresses and yield their base URL."""
    listener = listen("127.0.0.1", 0)
    url = await app.listen_at(listener.url)
    async with serving(server.build(app, GuardOptions(host=listener.host)), listener):
        yield url
