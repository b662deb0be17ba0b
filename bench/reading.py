"""Measures reads of the HTTP API: pages of lists with a long history, and streams with many readers.

Run `python -m bench.reading`. It starts a server process on an embedded Postgres. It requests pages of 50 sequentially,
with a million ended runs, their jobs and some live runs. Then a hundred readers follow `/stream` while jobs are
submitted: one of them measures the time from each event to its arrival, the others count events.
"""

import argparse
import asyncio
import json
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from statistics import median, quantiles
from typing import NamedTuple

from bench.contestants.http import ask, get, started
from bench.contestants.stage import Turn
from bench.contestants.windlass_history import STEPS, fill
from bench.idle import Account
from bench.server import Server, own_server
from windlass import Windlass
from windlass.engine.runs.start import RunSpec
from windlass.settings import Settings

WORKFLOW = "bench-reading"
TASKS = {f"step{n}": {"job": "bench.step.v1"} for n in range(STEPS)}
LIVE, BATCH = 10_000, 1000  # live runs; runs started by one call
PAGES = 40  # of each list
LISTS = (
    "/runs?limit=50",
    f"/runs?limit=50&workflow={WORKFLOW}",
    "/runs?limit=50&status=completed",
    "/runs?limit=50&status=running",
    "/runs?limit=50&status=failed",
    "/jobs?limit=50",
    "/jobs?limit=50&status=succeeded",
    "/jobs?limit=50&status=pending",
    "/jobs?limit=50&type=bench.step.v1",
    "/workflows?limit=50",
)
MOST_MILLISECONDS = 5.0
READERS, EVERY = 100, 0.1  # seconds between two submits
SERVER = "bench.contestants.windlass_http"


class Pages(NamedTuple):
    path: str
    p50: float  # milliseconds
    p99: float


class Streamed(NamedTuple):
    lines: int  # received by every reader
    expected: int
    p50: float  # milliseconds from an event to its arrival
    p99: float
    behind: float  # seconds from the last event until all readers had received it
    server_cpu: float  # CPU seconds per second


def main() -> None:
    options = argparse.ArgumentParser(prog="bench.reading", description=__doc__)
    options.add_argument("--runs", type=int, default=1_000_000, help="ended runs (1000000)")
    options.add_argument("--events", type=int, default=500, help="events per second (500)")
    options.add_argument("--seconds", type=float, default=30, help="duration of the stream (30)")
    options.add_argument("--only", choices=("lists", "streams"))
    chosen = options.parse_args()
    before = os.getloadavg()[0]
    with own_server() as server:
        if chosen.only != "streams":
            asyncio.run(show_lists(server, chosen.runs))
        if chosen.only != "lists":
            asyncio.run(show_streams(server, chosen.events, chosen.seconds))
    print(f"{os.cpu_count()} cores, load {before:.1f} before")


async def show_lists(server: Server, runs: int) -> None:
    url = await server.fresh("lists")
    async with Windlass(url, settings=Settings()) as app:
        await app.deploy({"name": WORKFLOW, "tasks": TASKS})
        await fill(url, runs * STEPS, WORKFLOW)
        for _ in range(LIVE // BATCH):
            await app.start_many(WORKFLOW, [RunSpec()] * BATCH)
    await server.settle(url)
    print(f"pages of 50 with {runs:,} ended runs and {LIVE:,} live ones, ms (at most {MOST_MILLISECONDS:g})")
    async with started(SERVER, Turn(url=url, count=0, settings={})) as (port, _):
        for path in LISTS:
            pages = await read(port, path)
            verdict = "" if pages.p99 <= MOST_MILLISECONDS else "  MISSED"
            print(f"  {pages.path:<44} p50 {pages.p50:6.1f}  p99 {pages.p99:6.1f}{verdict}", flush=True)


async def read(port: int, path: str) -> Pages:
    """Page through a list, again from its beginning when it ends. One page is read before the measurement."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    before, took = "", list[float]()
    for number in range(PAGES + 1):
        began = time.perf_counter()
        head, body = await ask(reader, writer, get(f"/api/v1{path}{before}"))
        if number:
            took.append((time.perf_counter() - began) * 1000)
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"{path}: {head!r} {body!r}")
        cursor = json.loads(body).get("next")
        before = f"&before={cursor}" if cursor and number else ""
    writer.close()
    return Pages(path, median(took), quantiles(took, n=100)[98])


async def show_streams(server: Server, events: int, seconds: float) -> None:
    url = await server.fresh("streams")
    turn = Turn(url=url, count=0, settings={})
    async with Windlass(url, settings=Settings()) as app, started(SERVER, turn) as (port, pid):
        streamed = await follow(app, port, pid, events, seconds)
    print(
        f"{READERS} readers, {events} events/s for {seconds:g} s: each received {streamed.lines:,} of "
        f"{streamed.expected:,}; p50 {streamed.p50:.0f} ms and p99 {streamed.p99:.0f} ms after the event; all done "
        f"{streamed.behind:.2f} s after the last event; {streamed.server_cpu:.0%} of a core in the server"
    )


async def follow(app: Windlass, port: int, pid: int, events: int, seconds: float) -> Streamed:
    late = list[float]()

    def measure_delays(part: bytes) -> None:
        now = datetime.now(UTC)
        for line in part.splitlines():
            if line.startswith(b'data: {"event":'):
                late.append((now - datetime.fromisoformat(json.loads(line[6:])["at"])).total_seconds() * 1000)

    counts = [0] * READERS
    connected = [asyncio.Event() for _ in range(READERS)]
    tasks = [
        asyncio.create_task(_follow(port, n, counts, connected[n], measure_delays if n == 0 else None))
        for n in range(READERS)
    ]
    await asyncio.gather(*(event.wait() for event in connected))
    batch = round(events * EVERY)
    expected = batch * round(seconds / EVERY)
    began, cpu = time.monotonic(), Account.of(pid).cpu
    for number in range(round(seconds / EVERY)):
        await asyncio.sleep(began + number * EVERY - time.monotonic())
        await app.submit_many([{"type": "bench.line.v1"}] * batch)
    ended = time.monotonic()
    while min(counts) < expected and time.monotonic() < ended + 60:
        await asyncio.sleep(0.01)
    now = time.monotonic()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    used = (Account.of(pid).cpu - cpu) / (now - began)
    return Streamed(min(counts), expected, median(late), quantiles(late, n=100)[98], now - ended, used)


async def _follow(
    port: int, number: int, counts: list[int], connected: asyncio.Event, on_events: Callable[[bytes], None] | None
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**22)
    writer.write(get("/api/v1/stream"))
    await reader.readuntil(b"event: hello")
    connected.set()
    rest = b""
    while part := await reader.read(2**20):
        text = rest + part
        whole, _, rest = text.rpartition(b"\n\n")
        counts[number] += whole.count(b'data: {"event":')
        if on_events is not None:
            on_events(whole)


if __name__ == "__main__":
    main()
