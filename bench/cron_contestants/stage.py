"""Shared by all contestants: arguments, inputs, event loop, stopwatch and report.

    python -m bench.cron_contestants.NAME VERB --count N

A verb returns the CPU seconds of what it measures: no contestant waits for I/O, and CPU time hardly depends on the load
of the machine. Setup before the stopwatch is not counted. The report is one line of JSON.
"""

import argparse
import asyncio
import gc
import importlib
import importlib.util
import json
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

ZONE = "Europe/Berlin"
MOMENT = datetime(2030, 3, 30, 12, 34, 56, tzinfo=UTC)  # before the change to daylight saving time in ZONE
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
TIMEOUT = 60.0  # seconds

Verb = Callable[[int], Coroutine[Any, Any, float]]


def lines(count: int) -> list[str]:
    """Return different cron expressions. Days are written as names, because contestants number them differently."""
    return [f"{n % 60} {n // 60 % 24} * * {DAYS[n // 1440 % 7]}" for n in range(count)]


def minutes(count: int) -> list[int]:
    """Return different intervals."""
    return [60 + n for n in range(count)]


class Stopwatch:
    seconds = 0.0


@contextmanager
def stopwatch() -> Iterator[Stopwatch]:
    """Measure the CPU time of the block. Garbage of the setup is collected before."""
    watch = Stopwatch()
    gc.collect()
    started = time.process_time()
    yield watch
    watch.seconds = time.process_time() - started


class Tally:
    """Counts the calls of a job; `full` waits until the last call has begun."""

    def __init__(self, goal: int) -> None:
        self._left = goal
        self._all = asyncio.Event()

    def add(self) -> None:
        self._left -= 1
        if self._left == 0:
            self._all.set()

    async def job(self) -> None:
        self.add()

    async def full(self) -> None:
        await asyncio.wait_for(self._all.wait(), TIMEOUT)


def perform(verbs: Mapping[str, Verb]) -> None:
    """Run the verb of the command line and print its report: the `main` of a contestant."""
    parser = argparse.ArgumentParser()
    parser.add_argument("verb", choices=sorted(verbs))
    parser.add_argument("--count", type=int, required=True)
    args = parser.parse_args()
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        print(json.dumps({"seconds": runner.run(verbs[args.verb](args.count))}))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return the loop factory of all contestants: that of uvloop if it is installed."""
    if importlib.util.find_spec("uvloop") is None:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = importlib.import_module("uvloop").new_event_loop
    return factory
