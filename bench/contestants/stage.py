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
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

import asyncpg

BATCH = 1000  # rows in one submission
WARM_UP = 20  # latency samples thrown away: connections, plans and caches come to be
PAUSE = 0.03  # seconds between latency samples: the worker is idle again
FAN_OUTS = 5  # runs timed in one process, after WARM_FAN_OUTS others
WARM_FAN_OUTS = 2
LOOK_AGAIN = 0.002
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
        self._left = goal
        self._all = asyncio.Event()

    def add(self) -> None:
        self._left -= 1
        if self._left == 0:
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
