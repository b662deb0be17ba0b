"""A clock that stands still until a test moves it: a year of ticks takes as long as the jobs of that year.

`advance` passes through time, so every timer rings at its own moment; `set` jumps, as a laptop does that was asleep,
and timers ring late. Neither waits for the jobs that begin; `play` does. Timers ring in the thread that moves time.
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
from windlass.cron.clock import Timer
from windlass.errors import Invalid

START = datetime(2030, 1, 1, tzinfo=UTC)
PATIENCE = 5.0


class Player(Protocol):
    """A scheduler that can say when the jobs of the moment are done."""

    async def settled(self) -> None: ...


class FakeClock:
    def __init__(self, start: datetime = START) -> None:
        self._now = _aware(start)
        self._order = count()
        self._timers: list[_FakeTimer] = []
        self._cancelled = 0  # of those in the heap
        self._watchers: list[Callable[[], object]] = []
        self._changed = threading.Condition(threading.RLock())

    def now(self) -> datetime:
        return self._now

    def call_at(self, when: datetime, call: Callable[[], object]) -> Timer:
        return self._add(when, call, wall=True)

    def call_later(self, delay: float, call: Callable[[], object]) -> Timer:
        return self._add(self._now + timedelta(seconds=delay), call, wall=False)

    def advance(self, span: Duration) -> None:
        """Let time pass: every timer that becomes due meanwhile, also one set by another, rings at its moment."""
        end = self._now + _span(span)
        while self._ring_next(end):
            pass
        self._now = end

    def set(self, moment: datetime) -> None:
        """Jump. Forward: what is due rings late. Back: who waits for a wall time is told to look again."""
        moment = _aware(moment)
        back = moment - self._now
        self._now = moment
        if back >= timedelta():
            while self._ring_next(moment):
                pass
        else:
            self._go_back(back)

    async def play(self, span: Duration, *players: Player) -> None:
        """Let time pass, and at each moment let these schedulers' jobs end before the clock goes on.

        Jobs that wait for the clock, or in a wrapper for other jobs, are left waiting. A job that waits for anything
        else holds up the time: use `advance` for those.
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
        """For threads: block until so many timers wait."""
        with self._changed:
            if not self._changed.wait_for(lambda: self.timer_count >= wanted, timeout):
                raise TimeoutError(f"{self.timer_count} timers wait after {timeout} s, not {wanted}")

    async def until_timers(self, wanted: int, timeout: float = PATIENCE) -> None:
        """For event loops: go on when so many timers wait."""
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
        """Ring the first timer that is due by `end`; whether there was one."""
        with self._changed:
            self._drop_cancelled()
            if not self._timers or self._timers[0].when > end:
                return False
            timer = heapq.heappop(self._timers)
            timer.waiting = False
            self._now = max(self._now, timer.when)
        timer.call()  # outside the lock: it sets the next timer
        return True

    def _go_back(self, by: timedelta) -> None:
        """Waits of so many seconds still last as long; wall timers ring."""
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
        """Time limits that were kept leave cancelled timers far in the future."""
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
        raise Invalid(f"span is {span!r}; time does not pass backwards: use set() to turn the clock back", field="span")
    return passed


def _aware(moment: datetime) -> datetime:
    if moment.utcoffset() is None:
        raise Invalid(f"{moment} has no time zone; a clock needs an aware datetime")
    return moment.astimezone(UTC)
