"""A clock that tests can move, and a worker that runs until no due job is left."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from windlass.app import Windlass
from windlass.engine.jobs import control as jobs
from windlass.runtime.loops.loop import until
from windlass.runtime.worker.worker import WorkerOptions


class Clock:
    """A clock that tests can move: pass `now` to DatabaseOptions, and windlass.now() follows it.

    It stands still until moved. Before the first move the database uses its own time.
    """

    def __init__(self) -> None:
        self._now: datetime | None = None

    def now(self) -> datetime | None:
        return self._now

    def set(self, moment: datetime) -> None:
        self._now = moment

    def move(self, by: timedelta) -> None:
        self._now = (self._now or datetime.now(UTC)) + by


async def run_until_idle(app: Windlass, options: WorkerOptions | None = None, *, timeout: float = 30) -> None:
    """Run all due jobs of the app's types, then stop. Jobs that are due later are left waiting."""
    db = await app.open()
    stop = asyncio.Event()
    options = replace(options or WorkerOptions(), poll=timedelta(milliseconds=20))
    working = asyncio.create_task(app.work(options, stop=stop))
    try:
        async with asyncio.timeout(timeout):
            while any(queue in options.queues and app.handlers.find(type_) for queue, type_ in await jobs.live(db)):
                await until(stop, timedelta(milliseconds=10))
    finally:
        stop.set()
        await working
