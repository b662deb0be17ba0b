"""A reader of server-sent events, like that of a browser."""

import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx


@dataclass(frozen=True)
class Event:
    id: str
    name: str
    data: Any


@contextlib.asynccontextmanager
async def reading(
    base: httpx.URL, path: str, *, last: str | None = None, headers: dict[str, str] | None = None, **params: Any
) -> AsyncIterator[AsyncIterator[Event]]:
    """Yield the events of a stream until the server ends it."""
    headers = (headers or {}) | ({} if last is None else {"last-event-id": last})
    async with (
        httpx.AsyncClient(base_url=base, timeout=30) as http,
        http.stream("GET", path, headers=headers, params=params) as answer,
    ):
        assert answer.status_code == 200, await answer.aread()
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield events(answer)


async def events(answer: httpx.Response) -> AsyncIterator[Event]:
    found: dict[str, str] = {}
    async for line in answer.aiter_lines():
        if line:
            name, _, value = line.partition(": ")
            found[name] = value
        elif "data" in found:
            yield Event(found.get("id", ""), found["event"], json.loads(found["data"]))
            found = {}
        else:
            found = {}
