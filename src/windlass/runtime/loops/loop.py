"""The building blocks of background loops: the loop itself, duties that fail independently, and leader terms.

A loop runs a tick, then waits for a wake-up, the next due time or the stop event.

During an outage with a recovery event a loop waits for that event and logs nothing: the outage is logged once for the
whole process (store/postgres/outage.py). Other unavailability is logged at the first failure in a row, any other error
at every failure.
"""

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeVar

from windlass.engine import quarantine, upkeep
from windlass.engine.database import Database
from windlass.engine.quarantine import Kind
from windlass.engine.upkeep import TermAnswer
from windlass.errors import Unavailable

_log = logging.getLogger("windlass.runtime")
FIRST_PAUSE = 0.2  # seconds
LONGEST_PAUSE = 1.0  # between retries while the database is unavailable: it may be back at any moment
DEFECT_PAUSE = 10.0  # between retries after an unexpected error
RECOVERY_PAUSE = 10.0  # between retries if a recovery event ends the wait early
LONGEST_DUTY_PAUSE = 60.0  # between retries of a failing duty
SELDOM = timedelta(seconds=30)  # between the ticks of a loop that is woken when there is work: see look.py
Done = TypeVar("Done")


async def run_periodically(
    tick: Callable[[], Awaitable[timedelta | None]],
    *,
    every: timedelta,
    stop: asyncio.Event,
    wake: asyncio.Event | None = None,
    waits_first: bool = False,
) -> None:
    """Call `tick` until `stop` is set, and wait `every` after each call, or less if it returns a shorter wait. A tick
    that raises is retried with backoff. With `waits_first` there is such a wait before the first call, too."""
    pause = 0.0
    if waits_first:
        await until(stop, every, wake=wake)
    while not stop.is_set():
        try:
            wait, recovered = await tick(), None
            pause = 0.0
        except Exception as error:  # of any kind: nothing would restart a loop that has ended
            _log_failure(error, first=not pause)
            recovered = error.recovered if isinstance(error, Unavailable) else None
            pause = min(_longest(error), max(FIRST_PAUSE, pause * 2))
            wait = timedelta(seconds=pause * random.uniform(0.8, 1.2))
        await until(stop, every if wait is None else min(wait, every), wake=wake, recovered=recovered)


def _longest(error: Exception) -> float:
    if not isinstance(error, Unavailable):
        return DEFECT_PAUSE
    return LONGEST_PAUSE if error.recovered is None else RECOVERY_PAUSE


def _log_failure(error: Exception, *, first: bool) -> None:
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
    if wake is None and recovered is None:  # most waits of an idle process: no tasks are needed
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, wait.total_seconds())):
                await stop.wait()
        return
    waiters = [asyncio.ensure_future(event.wait()) for event in (stop, wake, recovered) if event is not None]
    try:
        await asyncio.wait(waiters, timeout=max(0.0, wait.total_seconds()), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for waiter in waiters:
            waiter.cancel()
    if wake is not None:
        wake.clear()


class Duties:
    """The duties of one loop. A failing duty is recorded in the quarantine and retried with backoff."""

    def __init__(self, db: Database, loop: str) -> None:
        self._db = db
        self._loop = loop
        self._pauses: dict[str, float] = {}
        self._resting: dict[str, float] = {}  # end of the pause, monotonic time
        self._known_good: set[str] = set()
        self._left: set[str] | None = None  # keys in the quarantine, as first read by this process

    async def run(
        self, name: str, duty: Callable[[], Awaitable[Done]], default: Done, *, is_needed: bool = True
    ) -> Done:
        """Run a duty and return its result; return `default` if it fails or is still in its pause after a failure.

        A duty that is not needed runs only if its last run failed, or if it has not run yet, so that its entry in the
        quarantine is removed. `Unavailable` is raised, not recorded: the caller's loop waits for the database.
        """
        if not is_needed and name in self._known_good:
            return default
        if time.monotonic() < self._resting.get(name, 0.0):
            return default
        try:
            done = await duty()
        except Unavailable:
            raise
        except Exception as error:
            self._known_good.discard(name)
            pause = self._pauses[name] = min(LONGEST_DUTY_PAUSE, max(1.0, 2 * self._pauses.get(name, 0.0)))
            self._resting[name] = time.monotonic() + pause
            await quarantine.set_aside(self._db, Kind.DUTY, f"{self._loop}.{name}", error, retry=False)
            return default
        if name not in self._known_good:
            await self._release(name)
            self._known_good.add(name)
            self._pauses.pop(name, None)
        return done

    async def _release(self, name: str) -> None:
        """Remove the entry of a duty from the quarantine, if this process or an earlier one has put it there."""
        key = f"{self._loop}.{name}"
        if self._left is None:
            self._left = await quarantine.keys(self._db, Kind.DUTY)
        if name in self._pauses or key in self._left:
            await quarantine.release(self._db, Kind.DUTY, key)


class LeaderTerm:
    """Elects the process that carries out a duty: the holder of its leader term.

    A term is a lease on a row. Its holder renews it; if the holder dies, the term expires and another process takes
    over. Duties are safe when two processes carry them out concurrently (locked rows are skipped), so a holder that was
    paused past its term does no damage: the term saves work, correctness does not depend on it.
    """

    def __init__(self, db: Database, duty: str, holder: str, *, length: timedelta) -> None:
        self._db = db
        self._duty = duty
        self._holder = holder
        self._length = length
        self._good_until = float("-inf")

    async def held(self) -> bool:
        """Take the term, or renew it in its second half; return False while another process holds it."""
        now = time.monotonic()
        if now >= self._good_until:
            mine = (await self.renew()).held
            self._good_until = now + self._length.total_seconds() / 2 if mine else float("-inf")
        return now < self._good_until

    async def renew(self) -> TermAnswer:
        """Take or renew the term now."""
        return await upkeep.take_term(self._db, duty=self._duty, holder=self._holder, term=self._length)

    async def resign(self) -> None:
        self._good_until = float("-inf")
        await upkeep.resign_term(self._db, duty=self._duty, holder=self._holder)
