"""Run an app's worker until nothing is left to do."""

import asyncio
from dataclasses import replace
from datetime import timedelta

from windlass.app import Windlass
from windlass.engine.jobs import control as jobs
from windlass.runtime.loops.loop import until
from windlass.runtime.worker.worker import WorkerOptions


async def run_until_idle(app: Windlass, options: WorkerOptions | None = None, *, timeout: float = 30) -> None:
    """Work off every due job of the app's types, then stop. Jobs whose time has not come are left waiting."""
    db = await app.open()
    stop = asyncio.Event()
    chosen = replace(options or WorkerOptions(), poll=timedelta(milliseconds=20))
    working = asyncio.create_task(app.work(chosen, stop=stop))
    try:
        async with asyncio.timeout(timeout):
            while any(queue in chosen.queues and app.handlers.find(type_) for queue, type_ in await jobs.live(db)):
                await until(stop, timedelta(milliseconds=10))
    finally:
        stop.set()
        await working
