"""A proxy between a worker and Windlass that can delay, reject or corrupt requests and lose responses."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

BUSY = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 0\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"


class Proxy:
    """Forwards requests, one per connection: `Connection: close` marks the end of a response."""

    def __init__(self, upstream: str) -> None:
        parts = urlsplit(upstream)
        self._upstream = parts.hostname, parts.port
        self._delay = 0.0
        self._unavailable = 0
        self._forgotten: dict[str, int] = {}  # path -> number of responses to lose
        self._open: set[asyncio.StreamWriter] = set()
        self._corrupted = ""  # name of a list in requests to which bad entries are added
        self.url = ""

    def behave(self, how: str, *, times: int = 1, ms: int = 0, path: str = "", of: str = "") -> None:
        self._delay, self._unavailable, self._forgotten, self._corrupted = 0.0, 0, {}, ""
        match how:
            case "slow":
                self._delay = ms / 1000
            case "unavailable":
                self._unavailable = times
            case "forgetful":
                self._forgotten = {path: times}
            case "corrupting":
                self._corrupted = of
            case "well":
                pass
            case _:
                raise AssertionError(f"unknown behaviour {how!r}")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                await self._answer(reader, writer)
        finally:
            writer.close()
            self._open.discard(writer)

    def close(self) -> None:
        """Abort the connections of workers that have gone away: their requests may still wait for the server."""
        for writer in self._open:
            writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        names = dict(line.lower().split(b":", 1) for line in head.split(b"\r\n")[1:] if b":" in line)
        if names.get(b"transfer-encoding", b"").strip() == b"chunked":
            raise AssertionError("the proxy does not read chunked requests")
        body = await reader.readexactly(int(names.get(b"content-length", b"0")))
        await asyncio.sleep(self._delay)
        if self._unavailable:
            self._unavailable -= 1
            writer.write(BUSY)
            await writer.drain()
            return
        if self._corrupted:
            head, body = _corrupted(head, body, self._corrupted)
        answer = await self._pass_on(head, body, reader)
        path = head.split(b" ", 2)[1].decode()
        for lost in [end for end, times in self._forgotten.items() if times and path.endswith(end)]:
            self._forgotten[lost] -= 1
            return
        writer.write(answer)
        await writer.drain()

    async def _pass_on(self, head: bytes, body: bytes, client: asyncio.StreamReader) -> bytes:
        """Forward a request and return the response. If the client disconnects, close the connection to the server."""
        lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"connection:")]
        upstream, to_upstream = await asyncio.open_connection(*self._upstream)
        try:
            to_upstream.write(b"\r\n".join([lines[0], b"Connection: close", *lines[1:]]) + body)
            answer, gone = asyncio.ensure_future(upstream.read(-1)), asyncio.ensure_future(client.read(1))
            await asyncio.wait([answer, gone], return_when=asyncio.FIRST_COMPLETED)
            if not answer.done() and gone.done():
                answer.cancel()
                raise ConnectionResetError
            gone.cancel()
            return await answer
        finally:
            to_upstream.close()


def _corrupted(head: bytes, body: bytes, name: str) -> tuple[bytes, bytes]:
    """Return a request with a bad entry before each entry of the list with this name."""
    document = json.loads(body or b"{}")
    if name not in document:
        return head, body
    document[name] = [entry for good in document[name] for entry in ({"bad": "entry"}, good)]
    changed = json.dumps(document).encode()
    return re.sub(rb"(?i)(content-length: *)\d+", rb"\g<1>%d" % len(changed), head), changed


@asynccontextmanager
async def proxied(upstream: str) -> AsyncIterator[Proxy]:
    proxy = Proxy(upstream)
    server: Any = await asyncio.start_server(proxy._serve, "127.0.0.1", 0)
    proxy.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield proxy
        proxy.close()
