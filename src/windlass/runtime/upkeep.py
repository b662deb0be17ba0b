"""Keeps the inbox honest: leases that ran out go back into line, what is too late ends, old rows and old events go."""

import asyncio
import contextlib
import time
from dataclasses import dataclass
from datetime import timedelta

from windlass.engine import claims, rates, reports, upkeep
from windlass.engine.unit import Unit
from windlass.engine.upkeep import Swept
from windlass.errors import Unavailable
from windlass.runtime.beat import beat
from windlass.runtime.leader import Term

REST, LONGEST_REST = 10, 30.0


@dataclass(frozen=True, kw_only=True)
class UpkeepOptions:
    every: timedelta = timedelta(milliseconds=500)
    prune_every: timedelta = timedelta(seconds=30)
    tend_every: timedelta = timedelta(minutes=10)
    term: timedelta = timedelta(seconds=10)
    keep: timedelta | None = timedelta(days=30)  # how long finished jobs and their events are kept; None: for ever
    batch: int = 500


class Upkeep:
    def __init__(self, unit: Unit, holder: str, options: UpkeepOptions | None = None) -> None:
        self.options = options or UpkeepOptions()
        self._unit = unit
        self._term = Term(unit, "upkeep", holder, length=self.options.term)
        self._release_at = self._prune_at = self._tend_at = self._leases_at = float("-inf")

    async def tick(self) -> Swept:
        """One round of all duties that are due; nothing if another process holds the term."""
        if not await self._term.held():
            return Swept()
        swept = await self._release(time.monotonic())
        await rates.call_waiting(self._unit)
        late = await claims.expire(self._unit, batch=self.options.batch)
        overdue = await reports.end_overdue(self._unit, batch=self.options.batch)
        return Swept(swept.released, swept.failed + late + overdue, await self._clear_away(time.monotonic()))

    async def _release(self, now: float) -> Swept:
        """Look for lost leases.

        While an old snapshot keeps dead index entries alive a look can take long. One that found nothing is followed by
        a rest of ten times its length, so that looks do not cost more than a tenth of the time.
        """
        if now < self._release_at:
            return Swept()
        swept = await upkeep.release_expired(self._unit, batch=self.options.batch)
        took = time.monotonic() - now
        self._release_at = now + (min(LONGEST_REST, REST * took) if swept == Swept() else 0.0)
        return swept

    async def _clear_away(self, now: float) -> int:
        keep, pruned = self.options.keep, 0
        if keep is not None and now >= self._prune_at:
            pruned = await upkeep.prune(self._unit, age=keep, batch=self.options.batch)
            if pruned < self.options.batch:
                self._prune_at = now + self.options.prune_every.total_seconds()
        if now >= self._leases_at:
            await upkeep.date_open_leases(self._unit)
            self._leases_at = now + self.options.prune_every.total_seconds()
        if now >= self._tend_at:
            await upkeep.tend(self._unit, age=keep if keep is not None else timedelta(days=36500))
            self._tend_at = now + self.options.tend_every.total_seconds()
        return pruned

    async def run(self, stop: asyncio.Event) -> None:
        async def round_() -> timedelta | None:
            swept = await self.tick()
            full = max(swept.released + swept.failed, swept.pruned) == self.options.batch
            return timedelta(milliseconds=20) if full else None

        await beat(round_, every=self.options.every, stop=stop)
        with contextlib.suppress(Unavailable):
            await self._term.resign()
