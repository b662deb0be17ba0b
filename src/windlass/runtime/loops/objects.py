"""Deletes the objects of artifacts whose jobs were deleted.

A loop of its own: an object store that answers slowly, or not at all, must not delay any other duty.
"""

import asyncio
from dataclasses import dataclass
from datetime import timedelta

from windlass.engine import artifacts
from windlass.engine.database import Database
from windlass.runtime.loops.loop import Duties, run_periodically
from windlass.runtime.loops.upkeep import SOON, LeaseRecovery


@dataclass(frozen=True, kw_only=True)
class RemovalOptions:
    every: timedelta = timedelta(seconds=30)
    batch: int = 500


class ObjectRemoval:
    """Deletes objects while `recovery` holds the leader term of recovery and upkeep."""

    def __init__(self, db: Database, recovery: LeaseRecovery, options: RemovalOptions | None = None) -> None:
        self.options = options or RemovalOptions()
        self._db = db
        self._recovery = recovery
        self._duties = Duties(db, "objects")

    async def tick(self) -> int:
        """Delete a batch of objects; return the number of artifacts processed, including failed ones."""
        if not self._recovery.leading:
            return 0
        batch = self.options.batch
        return await self._duties.run("artifacts", lambda: artifacts.remove_objects(self._db, batch=batch), 0)

    async def run(self, stop: asyncio.Event) -> None:
        async def tick() -> timedelta | None:
            return SOON if await self.tick() == self.options.batch else None

        await run_periodically(tick, every=self.options.every, stop=stop)
