"""The timer loop: makes scheduled jobs due, ends sleeps and expires runs. It waits until the next due time, at most a
second."""

import asyncio
from dataclasses import dataclass
from datetime import timedelta

from windlass.engine import upkeep
from windlass.engine.database import Database
from windlass.engine.runs import sweep
from windlass.runtime.loops.loop import Duties, run_periodically

UNKNOWN: tuple[timedelta | None, timedelta | None, timedelta | None] = (timedelta(), timedelta(), timedelta())


@dataclass(frozen=True, kw_only=True)
class TimerOptions:
    every: timedelta = timedelta(seconds=1)  # plain SQL inserts send no notification
    again: timedelta = timedelta(milliseconds=50)  # when another session holds what is due
    batch: int = 1000


class Timers:
    def __init__(self, db: Database, options: TimerOptions | None = None) -> None:
        self.options = options or TimerOptions()
        self._db = db
        self._duties = Duties(db, "timers")
        self._wake = asyncio.Event()

    async def tick(self) -> timedelta:
        """Handle the timers that are due; return the wait until the next. One query if nothing is due."""
        # If the query for due times fails, treat everything as due.
        job, sleep, expiry = await self._duties.run("look", lambda: sweep.next_due(self._db), UNKNOWN)
        waits = [wait for wait in (job, sleep, expiry) if wait is not None]
        if not waits or min(waits) > timedelta():
            return min(waits, default=self.options.every)
        moved, batch = 0, self.options.batch
        if job is not None and job <= timedelta():
            moved += await self._duties.run("due", lambda: upkeep.become_due(self._db, batch=batch), 0)
        if sleep is not None and sleep <= timedelta():
            moved += await self._duties.run("sleeps", lambda: sweep.wake(self._db, batch=batch), 0)
        if expiry is not None and expiry <= timedelta():
            moved += await self._duties.run("expiry", lambda: sweep.expire(self._db, batch=batch), 0)
        return timedelta() if moved else self.options.again

    async def run(self, stop: asyncio.Event) -> None:
        with self._db.subscribe(self._woken):
            await run_periodically(self.tick, every=self.options.every, stop=stop, wake=self._wake)

    def _woken(self, topic: str) -> None:
        if topic == "timer":
            self._wake.set()
