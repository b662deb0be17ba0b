"""Connections that are silent, slow, or do not read: they are closed and do not block others."""

import asyncio
import contextlib
import logging
import resource
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from windlass.web.middleware import connections
from windlass.web.middleware.connections import most_connections
from windlass.web.server import Listener, listen, serving

PATIENCE = 10.0  # seconds
PROGRAM = """
import asyncio, logging, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (60, 60))
logging.basicConfig(level="INFO", stream=sys.stderr)
from windlass.web.middleware import connections
from windlass.web.server import listen, serving
connections.FREE_SHARE = {share}

async def app(scope, receive, send):
    await send({{"type": "http.response.start", "status": 204, "headers": []}})
    await send({{"type": "http.response.body", "body": b""}})

async def main():
    listener = listen("127.0.0.1", 0)
    async with serving(app, listener):
        print(listener.port, flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)

asyncio.run(main())
"""


async def app(_scope: Any, _receive: Any, send: Any) -> None:
    """Respond without reading the body."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@contextlib.asynccontextmanager
async def server(answering: Any = app) -> AsyncIterator[Listener]:
    listener = listen("127.0.0.1", 0)
    async with serving(answering, listener):
        yield listener


async def ended(reader: asyncio.StreamReader) -> bool:
    """Wait until the other side has closed the connection."""
    with contextlib.suppress(ConnectionError):
        await asyncio.wait_for(reader.read(), PATIENCE)
    return True


@pytest.mark.parametrize("said", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nhost: x\r\n"], ids=["nothing", "half", "head"])
async def test_a_connection_that_does_not_complete_a_request_head_is_closed(
    said: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEAD_WITHIN", 0.05)
    async with server() as listener:
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        writer.write(said)
        assert await ended(reader)
        writer.close()


async def test_a_partial_head_after_a_response_has_the_same_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    async with server() as listener:
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        await reader.readuntil(b"ok")
        monkeypatch.setattr(connections, "HEAD_WITHIN", 0.05)
        writer.write(b"GET / HT")
        assert await ended(reader)
        writer.close()


async def test_an_idle_keep_alive_connection_has_a_longer_deadline_than_a_request_head(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It exceeds the keep-alive of clients, so that no request is sent on a connection the server is closing."""
    monkeypatch.setattr(connections, "HEAD_WITHIN", 0.05)
    async with server() as listener:
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        for _ in range(2):
            writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            await reader.readuntil(b"ok")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(reader.read(1), 0.2)
        writer.close()


async def test_a_body_that_continues_after_its_response_does_not_keep_the_connection_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "HEAD_WITHIN", 0.2)
    async with server() as listener:
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        writer.write(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\n")
        assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200")

        async def trickle() -> None:
            with contextlib.suppress(ConnectionError):
                while True:
                    writer.write(b"x")
                    await writer.drain()
                    await asyncio.sleep(0.01)  # the pace of the slow sender, not a wait for something

        slow = asyncio.create_task(trickle())
        assert await ended(reader)
        slow.cancel()
        writer.close()


async def test_a_client_that_does_not_read_its_response_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "WRITE_WITHIN", 0.05)
    over = asyncio.Event()

    async def endless(_scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(1000):
            await send({"type": "http.response.body", "body": b"x" * 65_536, "more_body": True})
            if (await _soon(receive)) == "http.disconnect":
                break
        over.set()

    async with server(endless) as listener:
        with socket.create_connection(("127.0.0.1", listener.port)) as silent:
            silent.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            await asyncio.wait_for(over.wait(), PATIENCE)


async def _soon(receive: Any) -> str | None:
    with contextlib.suppress(TimeoutError):
        message: dict[str, str] = await asyncio.wait_for(receive(), 0.001)
        if message["type"] == "http.disconnect":
            return message["type"]
    return None


async def test_sequential_requests_share_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """The deadline of a head ends with the head."""
    monkeypatch.setattr(connections, "HEAD_WITHIN", 0.2)
    released = asyncio.Event()

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/slow":
            await released.wait()
        await app(scope, receive, send)

    async with server(slow) as listener, httpx.AsyncClient(base_url=listener.url) as http:
        asyncio.get_running_loop().call_later(0.5, released.set)
        for path in ("/", "/slow", "/"):
            assert (await http.get(path)).status_code == 200


async def test_at_the_connection_limit_the_longest_idle_connection_is_closed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(connections, "most_connections", lambda: 3)
    async with server() as listener, httpx.AsyncClient(base_url=listener.url) as http:
        silent = [await asyncio.open_connection("127.0.0.1", listener.port) for _ in range(5)]
        assert (await http.get("/")).status_code == 200
        for reader, _ in silent[:3]:
            assert await ended(reader)
        for _, writer in silent:
            writer.close()
    assert len([record for record in caplog.records if record.levelno >= logging.WARNING]) == 1


def test_the_connection_limit_is_below_the_limit_of_open_files() -> None:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert 0 < most_connections() <= limit * 3 // 4


@pytest.mark.parametrize("share", [4, 1000], ids=["room is kept", "out of files"])
async def test_a_process_short_of_file_descriptors_keeps_serving_and_logs_one_line(share: int, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", PROGRAM.format(share=share),
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=errors,
        )  # fmt: skip
    assert process.stdout is not None
    port = int(await process.stdout.readline())
    silent = [socket.create_connection(("127.0.0.1", port), timeout=5) for _ in range(100)]
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30) as http:
        for _ in range(3):
            assert (await http.get("/")).status_code == 204
    for one in silent:
        one.close()
    await process.communicate(b"")
    assert log.read_text().count("connection limit reached") == 1
    assert len(log.read_text().splitlines()) < 10
