"""What happens by the clock: rows come into line, sleeps end, runs run out of time. Sleeps until the next due moment,
exactly, and after a restart too."""

import asyncio
from dataclasses import dataclass
from datetime import timedelta

from windlass.engine import strays, upkeep
from windlass.engine.unit import Unit
from windlass.runtime.beat import beat


@dataclass(frozen=True, kw_only=True)
class TimerOptions:
    every: timedelta = timedelta(seconds=1)  # rows that plain SQL inserted announce themselves to nobody
    batch: int = 1000


class Timers:
    def __init__(self, unit: Unit, options: TimerOptions | None = None) -> None:
        self.options = options or TimerOptions()
        self._unit = unit
        self._wake = asyncio.Event()

    async def tick(self) -> timedelta:
        """Do what is due; answers how long until the next. One question a beat while nothing is due."""
        job, sleep, expiry = await strays.next_due(self._unit)
        waits = [wait for wait in (job, sleep, expiry) if wait is not None]
        if not waits or min(waits) > timedelta():
            return min(waits, default=self.options.every)
        if job is not None and job <= timedelta():
            await upkeep.become_due(self._unit, batch=self.options.batch)
        if sleep is not None and sleep <= timedelta():
            await strays.wake(self._unit, batch=self.options.batch)
        if expiry is not None and expiry <= timedelta():
            await strays.expire(self._unit, batch=self.options.batch)
        return timedelta()

    async def run(self, stop: asyncio.Event) -> None:
        with self._unit.subscribe(self._woken):
            await beat(self.tick, every=self.options.every, stop=stop, wake=self._wake)

    def _woken(self, topic: str) -> None:
        if topic == "timer":
            self._wake.set()
