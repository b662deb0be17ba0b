"""Many readers of one stream: each line is rendered once for all of them."""

import asyncio
import contextlib
from collections import Counter
from typing import Any

import httpx
import pytest

from tests.web.serving import API
from tests.web.streaming import Event, events
from windlass import Windlass
from windlass.web import server
from windlass.web.api import live
from windlass.web.middleware.guard import GuardOptions
from windlass.web.server import listen, serving

READERS = 100
LINES = 300


async def test_a_line_is_rendered_once_for_all_readers(app: Windlass, monkeypatch: pytest.MonkeyPatch) -> None:
    rendered: Counter[str] = Counter()
    event_data = live.event_data

    def counted(told: Any, **options: Any) -> dict[str, Any]:
        rendered[told.line.type] += 1
        return event_data(told, **options)

    monkeypatch.setattr(live, "event_data", counted)
    listener = listen("127.0.0.1", 0)
    unlimited = httpx.Limits(max_connections=None)
    async with (
        asyncio.timeout(60),
        serving(server.build(app, GuardOptions(host=listener.host)), listener),
        httpx.AsyncClient(base_url=listener.url, limits=unlimited, timeout=60) as http,
        contextlib.AsyncExitStack() as stack,
    ):
        streams = [events(await stack.enter_async_context(http.stream("GET", f"{API}/stream"))) for _ in range(READERS)]
        assert {(await anext(stream)).name for stream in streams} == {"hello"}
        await app.submit("first.line.v1")  # a reader's first batch may overlap with the events it got on connecting
        assert {(await anext(stream)).data["type"] for stream in streams} == {"first.line.v1"}
        await app.submit_many([{"type": "many.lines.v1"}] * LINES)
        read = await asyncio.gather(*(take(stream, LINES) for stream in streams))
    assert rendered["many.lines.v1"] == LINES
    assert all(lines == read[0] for lines in read)  # the same ids, the same order, nothing twice
    assert len({line.id for line in read[0]}) == LINES


async def take(stream: Any, count: int) -> list[Event]:
    return [await anext(stream) for _ in range(count)]
