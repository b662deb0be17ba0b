"""Fires schedules when they are due: sleeps until the next one, looks every second for rows that plain SQL changed."""

import asyncio
from dataclasses import dataclass
from datetime import timedelta

from windlass.engine import schedules
from windlass.engine.unit import Unit
from windlass.runtime.beat import beat


@dataclass(frozen=True, kw_only=True)
class SchedulerOptions:
    every: timedelta = timedelta(seconds=1)
    batch: int = 100


class Scheduler:
    def __init__(self, unit: Unit, options: SchedulerOptions | None = None) -> None:
        self.options = options or SchedulerOptions()
        self._unit = unit

    async def tick(self) -> timedelta:
        """Fire what is due; answers how long until the next. One question a beat while nothing is due."""
        wait = await schedules.next_due(self._unit)
        if wait is None or wait > timedelta():
            return self.options.every if wait is None else wait
        await schedules.tick(self._unit, batch=self.options.batch)
        return timedelta()

    async def run(self, stop: asyncio.Event) -> None:
        await beat(self.tick, every=self.options.every, stop=stop)
