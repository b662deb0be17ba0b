"""The anatomy all loops share: work, then wait for a wake-up, the next due time or the end."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from datetime import timedelta

from windlass.errors import Unavailable

_log = logging.getLogger("windlass.runtime")
LONGEST_PAUSE = 10.0


async def beat(
    tick: Callable[[], Awaitable[timedelta | None]],
    *,
    every: timedelta,
    stop: asyncio.Event,
    wake: asyncio.Event | None = None,
) -> None:
    """Call `tick` every so often, or when it said to, until `stop`. A missing database is waited for."""
    pause = 0.0
    while not stop.is_set():
        try:
            wait = await tick()
            pause = 0.0
        except Exception as error:  # a loop that died would be missed by nobody until it is too late
            pause = min(LONGEST_PAUSE, max(0.2, pause * 2))
            expected = isinstance(error, Unavailable)
            level = logging.WARNING if expected else logging.ERROR
            _log.log(level, "%s; trying again in %.1f s", error, pause, exc_info=not expected)
            wait = timedelta(seconds=pause * random.uniform(0.8, 1.2))
        await until(stop, min(wait if wait is not None else every, every), wake=wake)


async def until(stop: asyncio.Event, wait: timedelta, *, wake: asyncio.Event | None = None) -> None:
    """Wait for `stop`, `wake` or the time to pass, whichever is first."""
    waiters = [asyncio.ensure_future(event.wait()) for event in (stop, wake) if event is not None]
    try:
        await asyncio.wait(waiters, timeout=max(0.0, wait.total_seconds()), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for waiter in waiters:
            waiter.cancel()
    if wake is not None:
        wake.clear()
