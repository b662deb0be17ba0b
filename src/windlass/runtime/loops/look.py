"""Polls for the work of all loops of a process with one query, and wakes the loops that have work.

Notifications wake the loops sooner, but plain SQL sends none and a notification can be lost: this query ensures that
all work is found within a second. A loop that is woken runs its own query. So if this query fails, all loops are woken,
and only the loop whose part of the query fails is affected.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from windlass.engine import upkeep
from windlass.engine.database import Database
from windlass.engine.quarantine import Kind
from windlass.engine.upkeep import PendingWork
from windlass.runtime.loops.loop import Duties, run_periodically
from windlass.runtime.loops.upkeep import LONGEST_REST, REST


class Watched(Protocol):
    """A loop that waits to be woken."""

    def wake(self) -> None:
        """Run the next tick now."""

    def notice(self, work: PendingWork, within: timedelta) -> bool:
        """Wake the loop if it has work before the next poll, which is `within` this time; return whether it has."""


@dataclass(frozen=True, kw_only=True)
class LookOptions:
    every: timedelta = timedelta(milliseconds=500)  # while there is work, or a job is leased
    idle: timedelta = timedelta(milliseconds=750)  # work must be found and done within a second
    rest: int = REST  # pause after a search that found no leased jobs, as a multiple of its duration


class Look:
    def __init__(
        self,
        db: Database,
        loops: Sequence[Watched],
        *,
        duty: str,
        kinds: Sequence[Kind],
        options: LookOptions | None = None,
    ) -> None:
        """`duty` is the duty whose leader the loops need to know, `kinds` are the kinds of quarantine entries that one
        of them retries."""
        self.options = options or LookOptions()
        self._db = db
        self._loops = loops
        self._duty = duty
        self._kinds = kinds
        self._duties = Duties(db, "loops")
        self._leases_at = float("-inf")  # when leased jobs are searched for again; until then they are assumed

    async def tick(self) -> timedelta:
        """Poll once; return the wait until the next poll."""
        work = await self._duties.run("look", self._look, None)
        if work is None:
            for loop in self._loops:
                loop.wake()
            return self.options.every
        busy = [await self._notify(loop, work) for loop in self._loops]
        return self.options.every if any(busy) or work.process.leased else self.options.idle

    async def run(self, stop: asyncio.Event) -> None:
        await run_periodically(self.tick, every=self.options.idle, stop=stop)

    async def _notify(self, loop: Watched, work: PendingWork) -> bool:
        """Pass the result to a loop; return whether it has work. A loop that raises is woken, as all loops are if the
        query fails, and does not affect the others."""

        async def notice() -> bool | None:
            return loop.notice(work, self.options.idle)

        has_work = await self._duties.run(type(loop).__name__.lower(), notice, None)
        if has_work is None:
            loop.wake()
        return has_work is not False

    async def _look(self) -> PendingWork | None:
        """Return the pending work. While an old snapshot keeps dead index entries alive, a search for leased jobs that
        finds none can be slow: it is then made less often, and lease recovery limits the time of its own queries."""
        now = time.monotonic()
        work = await upkeep.pending_work(
            self._db, duty=self._duty, kinds=self._kinds, looks_for_leases=now >= self._leases_at
        )
        if not work.process.leased:
            self._leases_at = now + min(LONGEST_REST, self.options.rest * (time.monotonic() - now))
        return work
