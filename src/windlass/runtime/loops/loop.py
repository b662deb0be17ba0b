"""The common loop: run a tick, then wait for a wake-up, the next due time or the stop event.

During an outage with a recovery event a loop waits for that event and logs nothing: the outage is logged once for the
whole process (store/postgres/outage.py). Other unavailability is logged at the first failure in a row, any other error
at every failure.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from datetime import timedelta

from windlass.errors import Unavailable

_log = logging.getLogger("windlass.runtime")
FIRST_PAUSE = 0.2  # seconds
LONGEST_PAUSE = 1.0  # between retries while the database is unavailable: it may be back at any moment
DEFECT_PAUSE = 10.0  # between retries after an unexpected error
RECOVERY_PAUSE = 10.0  # between retries if a recovery event ends the wait early


async def run_periodically(
    tick: Callable[[], Awaitable[timedelta | None]],
    *,
    every: timedelta,
    stop: asyncio.Event,
    wake: asyncio.Event | None = None,
) -> None:
    """Call `tick` until `stop` is set, with a wait of `every` in between, or less if it returns a shorter one. A tick
    that raises is retried with backoff."""
    pause = 0.0
    while not stop.is_set():
        try:
            wait, recovered = await tick(), None
            pause = 0.0
        except Exception as error:  # of any kind: nothing would restart a loop that has ended
            _say(error, first=not pause)
            recovered = error.recovered if isinstance(error, Unavailable) else None
            pause = min(_longest(error), max(FIRST_PAUSE, pause * 2))
            wait = timedelta(seconds=pause * random.uniform(0.8, 1.2))
        await until(stop, every if wait is None else min(wait, every), wake=wake, recovered=recovered)


def _longest(error: Exception) -> float:
    if not isinstance(error, Unavailable):
        return DEFECT_PAUSE
    return LONGEST_PAUSE if error.recovered is None else RECOVERY_PAUSE


def _say(error: Exception, *, first: bool) -> None:
    if not isinstance(error, Unavailable):
        _log.error("%s; trying again", error, exc_info=error)
    elif error.recovered is None and first:
        _log.warning("%s; trying again", error)


async def until(
    stop: asyncio.Event,
    wait: timedelta,
    *,
    wake: asyncio.Event | None = None,
    recovered: asyncio.Event | None = None,
) -> None:
    """Wait for `stop`, `wake`, `recovered` or the time to pass, whichever is first; clear `wake`."""
    waiters = [asyncio.ensure_future(event.wait()) for event in (stop, wake, recovered) if event is not None]
    try:
        await asyncio.wait(waiters, timeout=max(0.0, wait.total_seconds()), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for waiter in waiters:
            waiter.cancel()
    if wake is not None:
        wake.clear()
