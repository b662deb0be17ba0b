"""Puts work into line when its time has come: sleeps until the next due row, exactly, and after a restart too."""

import asyncio
from dataclasses import dataclass
from datetime import timedelta

from windlass.engine import upkeep
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

    async def tick(self) -> timedelta:
        """Put what is due into line; answers how long until the next. One question a beat while nothing is due."""
        wait = await upkeep.next_due(self._unit)
        if wait is None or wait > timedelta():
            return self.options.every if wait is None else wait
        await upkeep.become_due(self._unit, batch=self.options.batch)
        return timedelta()

    async def run(self, stop: asyncio.Event) -> None:
        await beat(self.tick, every=self.options.every, stop=stop)
