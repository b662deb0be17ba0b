"""The clock of the scheduler and its wrappers, and a fake one for tests.

`windlass.cron` uses no other clock, so a test controls all of its time.

A wall-time timer may fire early when the wall clock was set back: the callback must check the time again.
"""

import asyncio
import heapq
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from typing import Protocol

from windlass.core import duration
from windlass.core.duration import Duration
from windlass.errors import Invalid

LONGEST_NAP = 60.0  # seconds between checks whether the wall clock was changed
WENT_BACK = 1.0

START = datetime(2030, 1, 1, tzinfo=UTC)
PATIENCE = 5.0


class Timer(Protocol):
    def cancel(self) -> None: ...


class Clock(Protocol):
    def now(self) -> datetime: ...

    def call_at(self, when: datetime, call: Callable[[], object]) -> Timer:
        """Call once when the wall clock reaches `when`."""
        ...

    def call_later(self, delay: float, call: Callable[[], object]) -> Timer:
        """Call after `delay` seconds, unaffected by changes of the wall clock; immediately if zero or negative."""
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
    """A timer for a wall time. Event loops use monotonic time, so the timer checks the wall clock regularly."""

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


class Player(Protocol):
    """A scheduler that can wait until its jobs cannot proceed without the clock."""

    async def settled(self) -> None: ...


class FakeClock:
    """A clock that only moves when a test moves it.

    `advance` passes through time, so every timer fires at its own time. `set` jumps, like a laptop that was suspended,
    and timers fire late. Neither waits for the jobs that start; `play` does. Timers fire in the thread that moves the
    clock.
    """

    def __init__(self, start: datetime = START) -> None:
        self._now = _aware(start)
        self._order = count()
        self._timers: list[_FakeTimer] = []
        self._cancelled = 0  # number of cancelled timers still in the heap
        self._watchers: list[Callable[[], object]] = []
        self._changed = threading.Condition(threading.RLock())

    def now(self) -> datetime:
        return self._now

    def call_at(self, when: datetime, call: Callable[[], object]) -> Timer:
        return self._add(when, call, wall=True)

    def call_later(self, delay: float, call: Callable[[], object]) -> Timer:
        return self._add(self._now + timedelta(seconds=delay), call, wall=False)

    def advance(self, span: Duration) -> None:
        """Advance the clock. Every timer that becomes due, also one set by another timer, fires at its own time."""
        end = self._now + _span(span)
        while self._ring_next(end):
            pass
        self._now = end

    def set(self, moment: datetime) -> None:
        """Jump to a time. Forward: due timers fire late. Back: all `call_at` timers fire, so callers check the time."""
        moment = _aware(moment)
        back = moment - self._now
        self._now = moment
        if back >= timedelta():
            while self._ring_next(moment):
                pass
        else:
            self._go_back(back)

    async def play(self, span: Duration, *players: Player) -> None:
        """Advance the clock by `span`; after each timer, wait until the jobs of these schedulers have ended.

        Jobs that wait for the clock, or in a wrapper for other jobs, are left waiting. A job that waits for anything
        else blocks the clock: use `advance` for those.
        """
        end = self._now + _span(span)
        for player in players:
            await player.settled()
        while self._ring_next(end):
            for player in players:
                await player.settled()
        self._now = end

    @property
    def timer_count(self) -> int:
        return len(self._timers) - self._cancelled

    def wait_for_timers(self, wanted: int, timeout: float = PATIENCE) -> None:
        """Block the calling thread until at least `wanted` timers are waiting."""
        with self._changed:
            if not self._changed.wait_for(lambda: self.timer_count >= wanted, timeout):
                raise TimeoutError(f"{self.timer_count} timers wait after {timeout} s, not {wanted}")

    async def until_timers(self, wanted: int, timeout: float = PATIENCE) -> None:
        """Wait until at least `wanted` timers are waiting: the async form of `wait_for_timers`."""
        bell, loop = asyncio.Event(), asyncio.get_running_loop()
        ring = partial(loop.call_soon_threadsafe, bell.set)
        self._watchers.append(ring)
        try:
            async with asyncio.timeout(timeout):
                while self.timer_count < wanted:
                    await bell.wait()
                    bell.clear()
        finally:
            self._watchers.remove(ring)

    def _add(self, when: datetime, call: Callable[[], object], *, wall: bool) -> Timer:
        timer = _FakeTimer(self, when.astimezone(UTC), next(self._order), call, wall)
        if not wall and timer.when <= self._now:
            call()
            return timer
        with self._changed:
            timer.waiting = True
            heapq.heappush(self._timers, timer)
            self._changed.notify_all()
        for watch in list(self._watchers):
            watch()
        return timer

    def _ring_next(self, end: datetime) -> bool:
        """Fire the first timer that is due by `end`; return whether there was one."""
        with self._changed:
            self._drop_cancelled()
            if not self._timers or self._timers[0].when > end:
                return False
            timer = heapq.heappop(self._timers)
            timer.waiting = False
            self._now = max(self._now, timer.when)
        timer.call()  # outside the lock: the callback may set the next timer
        return True

    def _go_back(self, by: timedelta) -> None:
        """Shift the timers of `call_later`, so that they keep their remaining delay, and fire all wall-time timers."""
        with self._changed:
            self._sweep()
            walls = sorted(timer for timer in self._timers if timer.wall)
            self._timers = [timer for timer in self._timers if not timer.wall]
            for timer in self._timers:
                timer.when += by
            for timer in walls:
                timer.waiting = False
        for timer in walls:
            timer.call()

    def _drop_cancelled(self) -> None:
        while self._timers and self._timers[0].cancelled:
            heapq.heappop(self._timers)
            self._cancelled -= 1

    def _forget(self, timer: "_FakeTimer") -> None:
        with self._changed:
            if timer.waiting and not timer.cancelled:
                timer.cancelled = True
                self._cancelled += 1
            if self._cancelled > 64 and self._cancelled > len(self._timers) // 2:
                self._sweep()

    def _sweep(self) -> None:
        """Drop cancelled timers. Timeouts that did not expire leave cancelled timers far in the future."""
        self._timers = [timer for timer in self._timers if not timer.cancelled]
        heapq.heapify(self._timers)
        self._cancelled = 0


class _FakeTimer:
    __slots__ = ("call", "cancelled", "clock", "order", "waiting", "wall", "when")

    def __init__(self, clock: FakeClock, when: datetime, order: int, call: Callable[[], object], wall: bool) -> None:
        self.clock, self.when, self.order, self.call, self.wall = clock, when, order, call, wall
        self.cancelled = self.waiting = False

    def __lt__(self, other: "_FakeTimer") -> bool:
        return (self.when, self.order) < (other.when, other.order)

    def cancel(self) -> None:
        self.clock._forget(self)


def _span(span: Duration) -> timedelta:
    passed = duration.read(span, field="span")
    if passed < timedelta():
        raise Invalid(f"span is {span!r}; it must not be negative: use set() to turn the clock back", field="span")
    return passed


def _aware(moment: datetime) -> datetime:
    if moment.utcoffset() is None:
        raise Invalid(f"{moment} has no time zone; a clock needs an aware datetime")
    return moment.astimezone(UTC)
