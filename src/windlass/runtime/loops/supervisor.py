"""Runs a process's loops in one task group: they start and stop together, and a loop that raises cancels the others."""

import asyncio
from datetime import timedelta

from windlass.engine.database import Database
from windlass.runtime.loops.deliveries import Deliveries
from windlass.runtime.loops.scheduler import Scheduler
from windlass.runtime.loops.sweeper import Sweeper
from windlass.runtime.loops.timers import Timers
from windlass.runtime.loops.upkeep import Upkeep, UpkeepOptions
from windlass.runtime.worker.worker import Worker


class Supervisor:
    def __init__(
        self, db: Database, *, holder: str, keep: timedelta | None, lease: timedelta = UpkeepOptions.term
    ) -> None:
        """`lease` is the lease of this process's worker: if the process dies, its leader terms must not outlast it."""
        self._timers = Timers(db)
        self._sweeper = Sweeper(db)
        self._scheduler = Scheduler(db)
        self._deliveries = Deliveries(db, holder)
        self._upkeep = Upkeep(db, holder, UpkeepOptions(keep=keep, term=min(lease, UpkeepOptions.term)))

    async def run(
        self, stop: asyncio.Event, *, worker: Worker | None = None, at_once: asyncio.Event | None = None
    ) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._timers.run(stop), name="windlass-timers")
            group.create_task(self._sweeper.run(stop), name="windlass-settler")
            group.create_task(self._scheduler.run(stop), name="windlass-scheduler")
            group.create_task(self._upkeep.run(stop), name="windlass-upkeep")
            group.create_task(self._deliveries.run(stop), name="windlass-deliveries")
            if worker is not None:
                group.create_task(worker.run(stop, at_once=at_once), name="windlass-worker")
