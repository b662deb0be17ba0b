"""Runs a process's loops together: they start together, stop together, and a loop that dies takes the others down."""

import asyncio
from datetime import timedelta

from windlass.engine.unit import Unit
from windlass.runtime.deliveries import Deliveries
from windlass.runtime.scheduler import Scheduler
from windlass.runtime.settler import Settler
from windlass.runtime.timers import Timers
from windlass.runtime.upkeep import Upkeep, UpkeepOptions
from windlass.runtime.worker import Worker


class Supervisor:
    def __init__(
        self, unit: Unit, *, holder: str, keep: timedelta | None, lease: timedelta = UpkeepOptions.term
    ) -> None:
        """`lease` is that of the worker here: if this process dies, others must not wait longer for its terms."""
        self._timers = Timers(unit)
        self._settler = Settler(unit)
        self._scheduler = Scheduler(unit)
        self._deliveries = Deliveries(unit, holder)
        self._upkeep = Upkeep(unit, holder, UpkeepOptions(keep=keep, term=min(lease, UpkeepOptions.term)))

    async def run(
        self, stop: asyncio.Event, *, worker: Worker | None = None, at_once: asyncio.Event | None = None
    ) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._timers.run(stop), name="windlass-timers")
            group.create_task(self._settler.run(stop), name="windlass-settler")
            group.create_task(self._scheduler.run(stop), name="windlass-scheduler")
            group.create_task(self._upkeep.run(stop), name="windlass-upkeep")
            group.create_task(self._deliveries.run(stop), name="windlass-deliveries")
            if worker is not None:
                group.create_task(worker.run(stop, at_once=at_once), name="windlass-worker")
