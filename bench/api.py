"""`python -m bench.api`: starting runs over HTTP, beside a bare FastAPI handler that does one insert with asyncpg.

The same server settings, the same kept connections, the same durable Postgres, in turns. A trigger writes a run, its
events and the job of its first step; the bare handler writes one row. The exit code tells breakage, not slowness.
"""

import argparse
import asyncio
import contextlib
import json
import sys
import time
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Any

import asyncpg
from fastapi import FastAPI, Request

from bench.server import Server, own_server
from windlass import Windlass
from windlass.settings import Settings
from windlass.web import server as web_server
from windlass.web.middleware.guard import GuardOptions
from windlass.web.server import listen, serving

CONNECTIONS = (1, 8, 32)
ENTRANTS = {"windlass": "/api/v1/workflows/orders/trigger", "bare": "/insert"}
WORKFLOW: dict[str, Any] = {"name": "orders", "tasks": {"charge": {"job": "orders.charge.v1"}}}
PAYLOAD = json.dumps({"order_id": 123, "email": "alice@example.com", "items": [{"sku": "a-1", "count": 2}]}).encode()
PATIENCE = 60
POOL = 10  # connections to the database; Windlass's default


@dataclass(frozen=True)
class Turn:
    rate: float
    p50: float  # milliseconds
    p99: float


def main() -> int:
    args = _arguments().parse_args()
    if args.serve is not None:
        asyncio.run(_serve(*args.serve))
        return 0
    with own_server() as server:
        found = asyncio.run(_measure(server, args))
    print("Requests a second, and milliseconds each took: medians of the turns")
    for count in CONNECTIONS:
        print(f"\n{count} connection{'s' if count > 1 else ''}")
        for name in ENTRANTS:
            print(f"  {name:<10} {_line(found[name, count])}")
        rates = {name: median(turn.rate for turn in found[name, count]) for name in ENTRANTS}
        print(f"  ratio      {rates['windlass'] / rates['bare']:.2f} of the bare handler")
    return 0


async def _measure(server: Server, args: argparse.Namespace) -> dict[tuple[str, int], list[Turn]]:
    print(f"Postgres {await server.version()}")
    found: dict[tuple[str, int], list[Turn]] = {(name, n): [] for name in ENTRANTS for n in CONNECTIONS}
    for turn in range(args.repeat):
        for name in list(ENTRANTS)[:: 1 if turn % 2 else -1]:
            url = await server.fresh(name)
            async with _started(name, url) as port:
                await _load(port, ENTRANTS[name], 4, args.requests // 10)  # everything is loaded, planned and cached
                for count in CONNECTIONS:
                    await server.settle(url)
                    found[name, count].append(await _load(port, ENTRANTS[name], count, args.requests))
    return found


async def _load(port: int, path: str, connections: int, requests: int) -> Turn:
    """So many requests over so many kept connections, the next as soon as the last is answered."""
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    request = f"{head}Content-Length: {len(PAYLOAD)}\r\n\r\n".encode() + PAYLOAD
    took: list[float] = []
    left = iter(range(requests))

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in left:
            began = time.perf_counter()
            writer.write(request)
            answer = await reader.readuntil(b"\r\n\r\n")
            size = int(answer.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            body = await reader.readexactly(size)
            took.append((time.perf_counter() - began) * 1000)
            if not answer.startswith(b"HTTP/1.1 201"):
                raise RuntimeError(f"{path}: {answer!r} {body!r}")
        writer.close()

    began = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(connections)))
    seconds = time.perf_counter() - began
    return Turn(requests / seconds, median(took), quantiles(took, n=100)[98])


@contextlib.asynccontextmanager
async def _started(name: str, url: str) -> AsyncIterator[int]:
    """The port of a contestant in a process of its own."""
    command = (sys.executable, "-m", "bench.api", "--serve", name, url)
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        yield int(await asyncio.wait_for(process.stdout.readline(), PATIENCE))
    finally:
        with contextlib.suppress(ProcessLookupError):  # it broke, and has said why
            process.terminate()
        await process.wait()


async def _serve(name: str, url: str) -> None:
    listener = listen("127.0.0.1", 0)
    async with _windlass(url) if name == "windlass" else _bare(url) as app, serving(app, listener):
        print(listener.port, flush=True)
        await asyncio.Event().wait()


@contextlib.asynccontextmanager
async def _windlass(url: str) -> AsyncIterator[Any]:
    async with Windlass(url, settings=Settings(pool_size=POOL)) as app:
        await app.deploy(WORKFLOW)
        yield web_server.build(app, GuardOptions(host="127.0.0.1"))


@contextlib.asynccontextmanager
async def _bare(url: str) -> AsyncIterator[Any]:
    """What one would write in five minutes."""
    app = FastAPI()
    async with asyncpg.create_pool(url, min_size=POOL, max_size=POOL) as pool:
        await pool.execute("create table run (id uuid primary key, input jsonb not null, at timestamptz default now())")

        @app.post("/insert", status_code=201)
        async def insert(request: Request) -> dict[str, str]:
            id_, body = uuid.uuid4(), await request.json()
            await pool.execute("insert into run (id, input) values ($1, $2)", id_, json.dumps(body))
            return {"run_id": str(id_)}

        yield app


def _line(turns: list[Turn]) -> str:
    rate, p50, p99 = (median(getattr(turn, name) for turn in turns) for name in ("rate", "p50", "p99"))
    return f"{rate:>7,.0f}/s   p50 {p50:6.2f} ms   p99 {p99:6.2f} ms"


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.api", description=__doc__)
    parser.add_argument("--repeat", type=int, default=5, help="how often each has a turn (5)")
    parser.add_argument("--requests", type=int, default=3000, help="in a turn (3000)")
    parser.add_argument("--serve", nargs=2, metavar=("NAME", "URL"), help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
