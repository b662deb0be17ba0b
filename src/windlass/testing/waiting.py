"""Runs a handler that waits to its end: moves the clock instead of waiting."""

from uuid import UUID

from windlass.app import Windlass
from windlass.core.jobs.job import TERMINAL
from windlass.engine import messages, upkeep
from windlass.engine.database import Database
from windlass.engine.jobs import control as jobs
from windlass.runtime.worker.worker import WorkerOptions
from windlass.store.jobs import FAR, Job
from windlass.testing.kit import Clock, run_until_idle

MOST_WAITS = 10_000


async def run_to_end(
    app: Windlass, job: UUID, clock: Clock, options: WorkerOptions | None = None, *, timeout: float = 30
) -> Job:
    """Run a job until it has ended and return it. Whenever it waits, for a sleep, a timeout or a retry, the clock moves
    to the end of that wait.

    `app` must have been created with `clock=clock.now`. Return the job as it is if it waits for something that only
    the test can do, such as a message without a timeout.
    """
    db = await app.open()
    for _ in range(MOST_WAITS):
        await upkeep.become_due(db.database)
        await _receive(db.database)
        await run_until_idle(app, options, timeout=timeout)
        row = await jobs.get(db, job)
        if row.status in TERMINAL:
            return row
        if row.run_at != FAR:
            clock.set(max(row.run_at, await db.now()))
        elif not await _receive(db.database):
            return row
    raise AssertionError(f"job {job} has waited {MOST_WAITS} times and has not ended")


async def _receive(db: Database) -> int:
    """Give messages to the handlers that wait for them; return the number of handlers."""
    while await messages.route(db):
        pass
    return await messages.wake_handlers(db)
