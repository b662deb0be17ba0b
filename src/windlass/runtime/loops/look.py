"""Finds out, with one query, what all loops of a process have to do, and wakes those that have something to do.

Notifications wake the loops sooner, but plain SQL sends none and a notification can be lost: this query is why
everything is found within a second. A loop that is woken looks for itself: if this query fails, all loops are woken and
only the part that failed is affected.
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
        """Wake the loop if it has something to do before the next look, `within` this time; return whether it has."""


@dataclass(frozen=True, kw_only=True)
class LookOptions:
    every: timedelta = timedelta(milliseconds=500)  # while there is something to do, or a job is leased
    idle: timedelta = timedelta(milliseconds=750)  # what it finds must be done within a second
    rest: int = REST  # times the duration of a look without leased jobs, until they are looked for again


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
        """`duty` is the one whose leader the loops want to know, `kinds` are the entries of the quarantine that one of
        them retries."""
        self.options = options or LookOptions()
        self._db = db
        self._loops = loops
        self._duty = duty
        self._kinds = kinds
        self._duties = Duties(db, "loops")
        self._leases_at = float("-inf")  # until then jobs count as leased

    async def tick(self) -> timedelta:
        """Look once; return the wait until the next look."""
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
        """Let a loop notice its work; return whether it has any. One that fails is woken, like all if the query fails:
        the other loops are not affected."""

        async def notice() -> bool | None:
            return loop.notice(work, self.options.idle)

        has_work = await self._duties.run(type(loop).__name__.lower(), notice, None)
        if has_work is None:
            loop.wake()
        return has_work is not False

    async def _look(self) -> PendingWork | None:
        """While an old snapshot keeps dead index entries alive, looking for leased jobs in vain can be slow: then they
        are looked for less often, and lease recovery limits the time of its own queries."""
        now = time.monotonic()
        work = await upkeep.pending_work(
            self._db, duty=self._duty, kinds=self._kinds, looks_for_leases=now >= self._leases_at
        )
        if not work.process.leased:
            self._leases_at = now + min(LONGEST_REST, self.options.rest * (time.monotonic() - now))
        return work
