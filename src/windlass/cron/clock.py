"""The clock of the scheduler and its wrappers. `windlass.cron` uses no other, so a test controls all of its time.

A wall-time timer may fire early when the wall clock was set back: the callback must check the time again.
"""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

LONGEST_NAP = 60.0  # seconds between checks whether the wall clock was changed
WENT_BACK = 1.0


class Timer(Protocol):
    def cancel(self) -> None: ...


class Clock(Protocol):
    def now(self) -> datetime: ...

    def call_at(self, when: datetime, call: Callable[[], object]) -> Timer:
        """Call once when the wall clock reaches `when`."""
        ...

    def call_later(self, delay: float, call: Callable[[], object]) -> Timer:
        """Call after `delay` seconds, unaffected by changes of the wall clock; at once if zero or negative."""
        ...


class SystemClock:
    """The machine's clock. Timers belong to the event loop on which they are created."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def call_at(self, when: datetime, call: Callable[[], object]) -> Timer:
        return _WallTimer(self, when, call)

    def call_later(self, delay: float, call: Callable[[], object]) -> Timer:
        return asyncio.get_running_loop().call_later(max(delay, 0), call)


class _WallTimer:
    """A timer for a wall time. Event loops count monotonic seconds, so it compares with the wall clock regularly."""

    def __init__(self, clock: Clock, when: datetime, call: Callable[[], object]) -> None:
        self._clock, self._when, self._call = clock, when, call
        self._loop = asyncio.get_running_loop()
        self._arm()

    def cancel(self) -> None:
        self._handle.cancel()

    def _arm(self) -> None:
        self._wall, self._steady = self._clock.now(), self._loop.time()
        left = (self._when - self._wall).total_seconds()
        self._handle = self._loop.call_later(min(max(left, 0), LONGEST_NAP), self._look)

    def _look(self) -> None:
        now = self._clock.now()
        lag = self._loop.time() - self._steady - (now - self._wall).total_seconds()
        if now >= self._when or lag > WENT_BACK:
            self._call()
        else:
            self._arm()
