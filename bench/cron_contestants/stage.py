"""What every scheduler's process has in common: what it is given, its event loop, its stopwatch and its report.

    python -m bench.cron_contestants.NAME VERB --count N

A verb answers the seconds of CPU it took: nothing here waits for anybody, and a busy machine tells the same. What comes
before the stopwatch is not counted. The report is one line of JSON.
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
MOMENT = datetime(2030, 3, 30, 12, 34, 56, tzinfo=UTC)  # the clocks change that night
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
PATIENCE = 60.0

Verb = Callable[[int], Coroutine[Any, Any, float]]


def lines(count: int) -> list[str]:
    """Different cron lines that everybody reads the same way; days have names, for numbers are not agreed upon."""
    return [f"{n % 60} {n // 60 % 24} * * {DAYS[n // 1440 % 7]}" for n in range(count)]


def minutes(count: int) -> list[int]:
    """Different intervals."""
    return [60 + n for n in range(count)]


class Stopwatch:
    seconds = 0.0


@contextmanager
def stopwatch() -> Iterator[Stopwatch]:
    """Garbage of the preparation is collected before, not during."""
    watch = Stopwatch()
    gc.collect()
    started = time.process_time()
    yield watch
    watch.seconds = time.process_time() - started


class Tally:
    """Counts the calls of a job, and tells when the last one began."""

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
        await asyncio.wait_for(self._all.wait(), PATIENCE)


def perform(verbs: Mapping[str, Verb]) -> None:
    """The `main` of a contestant."""
    parser = argparse.ArgumentParser()
    parser.add_argument("verb", choices=sorted(verbs))
    parser.add_argument("--count", type=int, required=True)
    args = parser.parse_args()
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        print(json.dumps({"seconds": runner.run(verbs[args.verb](args.count))}))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop for everybody, or for nobody if it is not installed."""
    if importlib.util.find_spec("uvloop") is None:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = importlib.import_module("uvloop").new_event_loop
    return factory
