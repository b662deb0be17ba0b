"""What every contestant's process has in common: its arguments, its event loop, its stopwatch and its report.

A contestant is a set of verbs. `prepare` and `prepare_...` make the tables and fill them, the others are measured:

    python -m bench.contestants.NAME VERB --url URL --count N [--set NAME=NUMBER ...]

The report is one line of JSON. `--set` changes a setting, which is how the best ones were found.
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
WARM_UP = 20  # latency samples thrown away: connections, plans and caches come to be
PAUSE = 0.03  # seconds between latency samples: the worker is idle again
FAN_OUTS = 5  # runs timed in one process, after WARM_FAN_OUTS others
WARM_FAN_OUTS = 2
TASKS = 32  # that submit one job at a time each
POOL = 10  # connections they share; Windlass's default
LOOK_AGAIN = 0.002
TELL_EVERY = 0.02
PATIENCE = 900.0

Settings = Mapping[str, int]
Verb = Callable[["Turn"], Coroutine[Any, Any, dict[str, Any]]]


@dataclass(frozen=True, kw_only=True)
class Turn:
    """What one process is asked to do."""

    url: str
    count: int
    settings: Settings

    def batches(self) -> list[int]:
        full, rest = divmod(self.count, BATCH)
        return [BATCH] * full + [rest] * bool(rest)


class Tally:
    """Counts handler calls, and knows when the last of them is also recorded."""

    def __init__(self, goal: int) -> None:
        self.count, self._goal = 0, goal
        self._all = asyncio.Event()

    def add(self) -> None:
        self.count += 1
        if self.count == self._goal:
            self._all.set()

    async def recorded(self, conn: "asyncpg.Connection[Any]", done: str) -> None:
        """Until every handler ran and `done`, asked of the database, says yes. It is not asked before: it costs."""
        await self._all.wait()
        while not await conn.fetchval(done):
            await asyncio.sleep(LOOK_AGAIN)


async def clock_drain(
    turn: Turn,
    work: Callable[[], Coroutine[Any, Any, object]],
    tally: Tally,
    done: str,
    stop: Callable[[], object] = lambda: None,
) -> float:
    """Seconds from the start of `work` until all is recorded. Then it is told to stop, unless it ends by itself."""
    conn = await asyncpg.connect(turn.url)
    try:
        await conn.fetchval(done)
        started = time.perf_counter()
        working = asyncio.create_task(work())
        recorded = asyncio.create_task(tally.recorded(conn, done))
        await asyncio.wait([working, recorded], return_when=asyncio.FIRST_COMPLETED, timeout=PATIENCE)
        if working.done():
            working.result()
        await asyncio.wait_for(recorded, PATIENCE)
        seconds = time.perf_counter() - started
        stop()
        await working
        return seconds
    finally:
        await conn.close()


async def share(
    work: Callable[[], Coroutine[Any, Any, object]], tally: Tally, done: str, stop: Callable[[], object] = lambda: None
) -> None:
    """Work beside other processes on one queue; `bench.processes` is at the other end of stdin and stdout.

    Says that it is ready, begins with the first line of stdin and ends with the second, or with the end of stdin.
    Meanwhile it prints how many handlers have begun.
    """
    print(json.dumps({"done": done}), flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    working = asyncio.create_task(work())
    told_to_stop = asyncio.create_task(asyncio.to_thread(sys.stdin.readline))
    shown = 0
    while not told_to_stop.done():
        if tally.count != shown:
            shown = tally.count
            print(shown, flush=True)
        if working.done():
            working.result()
        await asyncio.sleep(TELL_EVERY)
    stop()
    await working


async def clock_singles(turn: Turn, submit: Callable[[], Awaitable[object]]) -> float:
    """Seconds in which concurrent tasks submit one job at a time, the next as soon as the last is recorded."""

    async def task(left: Iterator[int]) -> None:
        for _ in left:
            await submit()

    async def all_of(count: int) -> None:
        left = iter(range(count))
        await asyncio.gather(*(task(left) for _ in range(TASKS)))

    await all_of(4 * TASKS)  # connections are open, statements prepared
    started = time.perf_counter()
    await all_of(turn.count)
    return time.perf_counter() - started


async def clock_latency(
    turn: Turn, submit: Callable[[], Awaitable[object]], begun: "asyncio.Queue[float]"
) -> list[float]:
    """Milliseconds from the call of `submit` to the handler's first line, one job at a time on an idle worker.

    The handler puts the time of its start into `begun`.
    """
    samples: list[float] = []
    for _ in range(WARM_UP + turn.count):
        await asyncio.sleep(PAUSE)
        started = time.perf_counter()
        await submit()
        samples.append((await asyncio.wait_for(begun.get(), PATIENCE) - started) * 1000)
    return samples[WARM_UP:]


async def clock_fan_out(once: Callable[[], Awaitable[object]]) -> list[float]:
    """Seconds that each of a few runs took, one at a time on an idle, warm worker."""
    samples: list[float] = []
    for _ in range(WARM_FAN_OUTS + FAN_OUTS):
        await asyncio.sleep(PAUSE)
        started = time.perf_counter()
        await asyncio.wait_for(once(), PATIENCE)
        samples.append(time.perf_counter() - started)
    return samples[WARM_FAN_OUTS:]


def perform(verbs: Mapping[str, Verb], settings: Settings) -> None:
    """The `main` of a contestant."""
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
    """uvloop for everybody, or for nobody if it is not installed."""
    if importlib.util.find_spec("uvloop") is None:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = importlib.import_module("uvloop").new_event_loop
    return factory
