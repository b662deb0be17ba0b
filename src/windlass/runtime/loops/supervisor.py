"""Runs a process's loops in one task group: they start and stop together, and a loop that raises cancels the others."""

import asyncio
from datetime import timedelta

from windlass.engine.database import Database
from windlass.runtime.loops.deliveries import Deliveries
from windlass.runtime.loops.scheduler import Scheduler
from windlass.runtime.loops.sweeper import Sweeper
from windlass.runtime.loops.timers import Timers
from windlass.runtime.loops.upkeep import LeaseRecovery, Upkeep, UpkeepOptions
from windlass.runtime.worker.worker import Worker


async def run_loops(
    db: Database,
    stop: asyncio.Event,
    *,
    holder: str,
    keep: timedelta | None,
    worker: Worker | None = None,
    at_once: asyncio.Event | None = None,
) -> None:
    """Run the background loops, and the worker if there is one, until `stop`; `at_once` ends the worker's grace."""
    # If the process dies, its leader terms must not outlast the leases of its worker.
    term = min(worker.options.lease, UpkeepOptions.term) if worker is not None else UpkeepOptions.term
    recovery = LeaseRecovery(db, holder, UpkeepOptions(keep=keep, term=term))
    loops = (Timers(db), Sweeper(db), Scheduler(db), recovery, Upkeep(db, recovery), Deliveries(db, holder))
    async with asyncio.TaskGroup() as group:
        for loop in loops:
            group.create_task(loop.run(stop), name=f"windlass-{type(loop).__name__.lower()}")
        if worker is not None:
            group.create_task(worker.run(stop, at_once=at_once), name="windlass-worker")
