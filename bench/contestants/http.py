"""The measure `http`, shared by both contestants: requests over keep-alive connections to a server in its own process.

Server settings, connections and requests are the same for both. Starting a run writes the run, its events and the job
of its first step; the bare handler writes one row.
"""

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from statistics import median, quantiles
from typing import Any, NamedTuple

import asyncpg

from bench.contestants.stage import Turn
from bench.environment import ROOT
from bench.plan import CONNECTIONS
from windlass.web.server import listen, serving

PAYLOAD = json.dumps({"order_id": 123, "email": "alice@example.com", "items": [{"sku": "a-1", "count": 2}]}).encode()
TIMEOUT = 60  # seconds


class ServerProcess(NamedTuple):
    port: int
    pid: int


async def measure(module: str, path: str, turn: Turn) -> dict[str, Any]:
    """Start the server of a contestant and send `turn.count` requests over each number of connections."""
    values: dict[str, Any] = {}
    async with started(module, turn) as (port, _):
        await _load(port, path, 4, max(8, turn.count // 10))  # warm-up: load modules, plan statements, fill caches
        for connections in CONNECTIONS:
            await _settle(turn.url)
            rate, milliseconds = await _load(port, path, connections, turn.count)
            values[f"{connections} rate"] = rate
            values[f"{connections} p50"] = median(milliseconds)
            values[f"{connections} p99"] = quantiles(milliseconds, n=100)[98]
    return values


async def serve(app: AbstractAsyncContextManager[Any]) -> dict[str, Any]:
    """Serve an app in this process, print the port, and run until the process is terminated."""
    listener = listen("127.0.0.1", 0)
    async with app as asgi, serving(asgi, listener):
        print(listener.port, flush=True)
        await asyncio.Event().wait()
    return {}


async def _load(port: int, path: str, connections: int, requests: int) -> tuple[float, list[float]]:
    """Send requests, one at a time over each connection; return requests per second and the milliseconds of each."""
    request = post(path, PAYLOAD)
    took: list[float] = []
    left = iter(range(requests))

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in left:
            began = time.perf_counter()
            answer, body = await ask(reader, writer, request)
            took.append((time.perf_counter() - began) * 1000)
            if not answer.startswith(b"HTTP/1.1 201"):
                raise RuntimeError(f"{path}: {answer!r} {body!r}")
        writer.close()

    began = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(connections)))
    return requests / (time.perf_counter() - began), took


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> tuple[bytes, bytes]:
    """Send a request over a keep-alive connection; return the head and the body of the response."""
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    return head, await reader.readexactly(size)


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()


def post(path: str, body: bytes) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def _settle(url: str) -> None:
    conn = await asyncpg.connect(url)
    await conn.execute("vacuum analyze")
    await conn.execute("checkpoint")
    await conn.close()


@contextlib.asynccontextmanager
async def started(module: str, turn: Turn) -> AsyncIterator[ServerProcess]:
    command = (sys.executable, "-m", module, "serve", "--url", turn.url, "--count", "0")
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        yield ServerProcess(int(await asyncio.wait_for(process.stdout.readline(), TIMEOUT)), process.pid)
    finally:
        with contextlib.suppress(ProcessLookupError):  # it has failed and printed the error
            process.terminate()
        await process.wait()
