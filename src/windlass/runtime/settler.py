"""Tells runs what no worker of ours told them, and begins those that waited for a place; at once when woken."""

import asyncio
from dataclasses import dataclass
from datetime import timedelta

from windlass.engine import strays
from windlass.engine.unit import Unit
from windlass.runtime.beat import beat


@dataclass(frozen=True, kw_only=True)
class SettlerOptions:
    every: timedelta = timedelta(milliseconds=500)
    batch: int = 500


class Settler:
    def __init__(self, unit: Unit, options: SettlerOptions | None = None) -> None:
        self.options = options or SettlerOptions()
        self._unit = unit
        self._wake = asyncio.Event()

    async def tick(self) -> int:
        """One round; how many runs moved."""
        begun = await strays.begin_held(self._unit, batch=self.options.batch)
        return begun + await strays.settle_strays(self._unit, batch=self.options.batch)

    async def run(self, stop: asyncio.Event) -> None:
        async def round_() -> timedelta | None:
            return timedelta() if await self.tick() else None

        with self._unit.subscribe(self._woken):
            await beat(round_, every=self.options.every, stop=stop, wake=self._wake)

    def _woken(self, topic: str) -> None:
        if topic in ("settle", ""):
            self._wake.set()
