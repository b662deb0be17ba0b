"""Shared by the processes of all contestants: arguments, event loop, stopwatches and report.

A contestant is a set of verbs. `prepare` and `prepare_...` create and fill the tables, the other verbs are measured:

    python -m bench.contestants.NAME VERB --url URL --count N [--set NAME=NUMBER ...]

The report is one line of JSON. `--set` changes a setting: the best settings were found with it.
"""

import argparse
import asyncio
import importlib
import importlib.util
import json
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import asyncpg

BATCH = 1000  # rows in one submission
WARM_UP = 20  # discarded latency samples, in which connections, plans and caches are created
PAUSE = 0.03  # seconds between latency samples, until the worker is idle again
FAN_OUTS = 5  # runs timed in one process, after WARM_FAN_OUTS discarded runs
WARM_FAN_OUTS = 2
TASKS = 32  # each submits one job at a time
POOL = 10  # connections they share; Windlass's default
POLL_INTERVAL = 0.002  # seconds
REPORT_INTERVAL = 0.02
TIMEOUT = 900.0

Settings = Mapping[str, int]
Verb = Callable[["Turn"], Coroutine[Any, Any, dict[str, Any]]]


@dataclass(frozen=True, kw_only=True)
class Turn:
    """The options of one process."""

    url: str
    count: int
    settings: Settings

    def batches(self) -> list[int]:
        full, rest = divmod(self.count, BATCH)
        return [BATCH] * full + [rest] * bool(rest)


class Tally:
    """Counts handler calls and waits until all of the jobs are recorded as ended."""

    def __init__(self, goal: int) -> None:
        self.count, self._goal = 0, goal
        self._all = asyncio.Event()

    def add(self) -> None:
        self.count += 1
        if self.count == self._goal:
            self._all.set()

    async def recorded(self, conn: "asyncpg.Connection[Any]", done: str) -> None:
        """Wait until all handlers have begun, then until the query `done` returns true; earlier queries cost time."""
        await self._all.wait()
        while not await conn.fetchval(done):
            await asyncio.sleep(POLL_INTERVAL)


async def clock_drain(
    turn: Turn,
    work: Callable[[], Coroutine[Any, Any, object]],
    tally: Tally,
    done: str,
    stop: Callable[[], object] = lambda: None,
) -> float:
    """Return the seconds from the start of `work` until all jobs are recorded; then stop it and wait for its end."""
    conn = await asyncpg.connect(turn.url)
    try:
        await conn.fetchval(done)
        started = time.perf_counter()
        working = asyncio.create_task(work())
        recorded = asyncio.create_task(tally.recorded(conn, done))
        await asyncio.wait([working, recorded], return_when=asyncio.FIRST_COMPLETED, timeout=TIMEOUT)
        if working.done():
            working.result()
        await asyncio.wait_for(recorded, TIMEOUT)
        seconds = time.perf_counter() - started
        stop()
        await working
        return seconds
    finally:
        await conn.close()


async def share(
    work: Callable[[], Coroutine[Any, Any, object]], tally: Tally, done: str, stop: Callable[[], object] = lambda: None
) -> None:
    """Drain a queue together with other processes, controlled by `bench.processes` over stdin and stdout.

    Reports that it is ready, starts at the first line of stdin and stops at the second, or at the end of stdin.
    Meanwhile it prints how many handlers have begun.
    """
    print(json.dumps({"done": done}), flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    working = asyncio.create_task(work())
    stop_requested = asyncio.create_task(asyncio.to_thread(sys.stdin.readline))
    shown = 0
    while not stop_requested.done():
        if tally.count != shown:
            shown = tally.count
            print(shown, flush=True)
        if working.done():
            working.result()
        await asyncio.sleep(REPORT_INTERVAL)
    stop()
    await working


async def clock_singles(turn: Turn, submit: Callable[[], Awaitable[object]]) -> float:
    """Return the seconds in which concurrent tasks submit the jobs; each task submits one job at a time."""

    async def task(left: Iterator[int]) -> None:
        for _ in left:
            await submit()

    async def submit_all(count: int) -> None:
        left = iter(range(count))
        await asyncio.gather(*(task(left) for _ in range(TASKS)))

    await submit_all(4 * TASKS)  # opens connections and prepares statements
    started = time.perf_counter()
    await submit_all(turn.count)
    return time.perf_counter() - started


async def clock_latency(
    turn: Turn, submit: Callable[[], Awaitable[object]], begun: "asyncio.Queue[float]"
) -> list[float]:
    """Return the milliseconds from the call of `submit` to the start of the handler, for single jobs on an idle worker.

    The handler puts the time of its start into `begun`.
    """
    samples: list[float] = []
    for _ in range(WARM_UP + turn.count):
        await asyncio.sleep(PAUSE)
        started = time.perf_counter()
        await submit()
        samples.append((await asyncio.wait_for(begun.get(), TIMEOUT) - started) * 1000)
    return samples[WARM_UP:]


async def clock_fan_out(once: Callable[[], Awaitable[object]]) -> list[float]:
    """Return the seconds that each of a few runs took, one after the other on an idle, warm worker."""
    samples: list[float] = []
    for _ in range(WARM_FAN_OUTS + FAN_OUTS):
        await asyncio.sleep(PAUSE)
        started = time.perf_counter()
        await asyncio.wait_for(once(), TIMEOUT)
        samples.append(time.perf_counter() - started)
    return samples[WARM_FAN_OUTS:]


def perform(verbs: Mapping[str, Verb], settings: Settings) -> None:
    """Run the verb of the command line and print its report: the `main` of a contestant."""
    parser = argparse.ArgumentParser()
    parser.add_argument("verb", choices=sorted(verbs))
    parser.add_argument("--url", required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=NUMBER")
    args = parser.parse_args()
    chosen = {**settings, **{name: int(value) for name, value in (pair.split("=") for pair in args.set)}}
    if unknown := chosen.keys() - settings.keys():
        parser.error(f"no such setting: {', '.join(sorted(unknown))}; there are: {', '.join(settings)}")
    turn = Turn(url=args.url, count=args.count, settings=chosen)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        report = runner.run(verbs[args.verb](turn))
    print(json.dumps(report | {"settings": chosen}))


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return the loop factory of all contestants: that of uvloop if it is installed."""
    if importlib.util.find_spec("uvloop") is None:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = importlib.import_module("uvloop").new_event_loop
    return factory
