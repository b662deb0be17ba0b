"""Server-sent events: a response that ends when the client disconnects, the server stops or its source ends."""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

MEDIA_TYPE = "text/event-stream"
ALIVE = 15.0  # seconds without events after which a comment is sent, to keep the connection alive
PATIENCE = 30.0  # seconds in which a client must read what was sent
RETRY = 2000  # milliseconds after which a client should reconnect
HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}  # the second header disables buffering in nginx


def event(name: str, data: Any, *, id_: str | None = None) -> bytes:
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return (f"id: {id_}\n" if id_ else "").encode() + f"event: {name}\ndata: {text}\n\n".encode()


def place(id_: str) -> bytes:
    """Return an id without an event: the position from which the client would resume."""
    return f"id: {id_}\n\n".encode()


class EventStream(Response):
    """Sends what a generator yields: bytes immediately; a `str` is a position, sent with the next keep-alive comment if
    no event follows."""

    media_type = MEDIA_TYPE

    def __init__(self, parts: AsyncGenerator[bytes | str, None]) -> None:
        super().__init__(headers=HEADERS)
        del self.headers["content-length"]
        self._parts = parts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        stopping: asyncio.Event | None = scope.get("state", {}).get("stopping")
        sending, gone = asyncio.create_task(self._send(send)), asyncio.create_task(_gone(receive))
        ends: set[asyncio.Task[Any]] = {sending, gone}
        if stopping is not None:
            ends.add(asyncio.create_task(stopping.wait()))
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in ends:
                task.cancel()
            await asyncio.gather(*ends, return_exceptions=True)
            await self._parts.aclose()
        if not sending.cancelled():
            sending.result()
        if gone.cancelled():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1):
                    await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        with contextlib.suppress(TimeoutError, OSError):  # the client reads nothing or is gone: it will reconnect
            async with contextlib.aclosing(_alive(self._parts)) as parts:
                async for part in parts:
                    async with asyncio.timeout(PATIENCE):
                        await send({"type": "http.response.body", "body": part, "more_body": True})


async def _alive(parts: AsyncIterator[bytes | str]) -> AsyncGenerator[bytes, None]:
    """Yield the parts, and a comment with the last position if there are none for ALIVE seconds."""
    loop = asyncio.get_running_loop()
    at, due = "", loop.time() + ALIVE
    upcoming = asyncio.ensure_future(anext(parts, None))
    try:
        while True:
            await asyncio.wait({upcoming}, timeout=max(due - loop.time(), 0))
            if upcoming.done():
                part = upcoming.result()
                if part is None:
                    return
                upcoming = asyncio.ensure_future(anext(parts, None))
                if isinstance(part, bytes):
                    at, due = "", loop.time() + ALIVE
                    yield part
                    continue
                at = part
            if loop.time() >= due:
                due = loop.time() + ALIVE
                yield b": still here\n" + (place(at) if at else b"\n")
    finally:
        upcoming.cancel()
        await asyncio.gather(upcoming, return_exceptions=True)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
