"""Recovers expired leases, ends what is too late, and removes old rows and old events.

Recovery has a loop of its own: what the other duties cost (removing many rows may take seconds) or raise must not
delay it, and its rounds tell whether the database answers (see `core.continuity`).
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta

from windlass.core.continuity import Continuity
from windlass.engine import claims, reports, upkeep
from windlass.engine.unit import Unit
from windlass.engine.upkeep import Swept
from windlass.errors import Unavailable
from windlass.runtime.beat import beat
from windlass.runtime.leader import Term

SOON = timedelta(milliseconds=20)  # when there is more to do than one batch


@dataclass(frozen=True, kw_only=True)
class UpkeepOptions:
    every: timedelta = timedelta(milliseconds=500)
    prune_every: timedelta = timedelta(seconds=30)
    tend_every: timedelta = timedelta(minutes=10)
    term: timedelta = timedelta(seconds=10)  # how long recovery may stop when its process dies; no longer than a lease
    keep: timedelta | None = timedelta(days=30)  # how long finished jobs and their events are kept; None: for ever
    batch: int = 500


class Upkeep:
    def __init__(self, unit: Unit, holder: str, options: UpkeepOptions | None = None) -> None:
        self.options = options or UpkeepOptions()
        self._unit = unit
        self._term = Term(unit, "upkeep", holder, length=self.options.term)
        self._continuity = Continuity()
        self._mine = False
        self._prune_at = self._tend_at = float("-inf")

    async def recover(self) -> Swept:
        """Release expired leases; nothing if another process holds the term."""
        answer = await self._term.renew()
        self._mine = answer.held
        self._continuity.answered(answer.now, before=answer.renewed_before)
        if not answer.held:
            return Swept()
        return await upkeep.release_expired(self._unit, batch=self.options.batch, continuity=self._continuity)

    async def clear(self) -> Swept:
        """Do what else is due. A duty that fails does not keep the others from being done."""
        if not self._mine:
            return Swept()
        failed: list[Exception] = []

        async def attempt(duty: Callable[[], Awaitable[int]]) -> int:
            try:
                return await duty()
            except Exception as error:
                failed.append(error)
                return 0

        batch = self.options.batch
        late = await attempt(lambda: claims.expire(self._unit, batch=batch))
        overdue = await attempt(lambda: reports.end_overdue(self._unit, batch=batch))
        pruned = await attempt(self._prune)
        await attempt(self._tend)
        if failed:
            raise failed[0]
        return Swept(failed=late + overdue, pruned=pruned)

    async def _prune(self) -> int:
        now, keep, pruned = time.monotonic(), self.options.keep, 0
        if keep is not None and now >= self._prune_at:
            pruned = await upkeep.prune(self._unit, age=keep, batch=self.options.batch)
            if pruned < self.options.batch:
                self._prune_at = now + self.options.prune_every.total_seconds()
        return pruned

    async def _tend(self) -> int:
        now, keep = time.monotonic(), self.options.keep
        if now >= self._tend_at:
            self._tend_at = now + self.options.tend_every.total_seconds()  # also if it fails: it takes heavy locks
            await upkeep.tend(self._unit, age=keep if keep is not None else timedelta(days=36500))
        return 0

    async def run(self, stop: asyncio.Event) -> None:
        async def recover() -> timedelta | None:
            swept = await self.recover()
            return SOON if swept.released + swept.failed == self.options.batch else None

        async def clear() -> timedelta | None:
            swept = await self.clear()
            return SOON if max(swept.failed, swept.pruned) >= self.options.batch else None

        await asyncio.gather(
            beat(recover, every=self.options.every, stop=stop), beat(clear, every=self.options.every, stop=stop)
        )
        with contextlib.suppress(Unavailable):
            await self._term.resign()
