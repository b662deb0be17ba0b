"""Chancy with the best settings found for one process: the async executor, eager polling, its default plugins.

It keeps finished jobs as rows and has no table of events. It records ends in batches, by default once per second; its
documentation names `send_outgoing_interval` to change that, which is short here.
"""

import asyncio
import importlib
import logging
import time
from typing import Any

from bench.contestants.stage import Tally, Turn, clock_drain, perform

SETTINGS = {"pool": 4, "concurrency": 1000, "send_ms": 20}
DONE = "select not exists (select from chancy_jobs where state in ('pending', 'running', 'retrying'))"
_tally = Tally(0)  # global, because a job is an importable function and cannot be a closure


async def noop() -> None:
    _tally.add()


async def prepare(turn: Turn) -> dict[str, Any]:
    async with _app(turn) as app:
        await app.migrate()
        chancy = importlib.import_module("chancy")
        await app.declare(
            chancy.Queue(
                "bench",
                concurrency=turn.settings["concurrency"],
                executor=chancy.Chancy.Executor.Async,
                eager_polling=True,
                polling_interval=1,
            )
        )
        await _submit(app, turn)
    return {}


async def submit(turn: Turn) -> dict[str, Any]:
    async with _app(turn) as app:
        started = time.perf_counter()
        await _submit(app, turn)
        return {"seconds": time.perf_counter() - started}


async def drain(turn: Turn) -> dict[str, Any]:
    global _tally
    _tally = Tally(turn.count)
    async with _app(turn) as app:
        worker = importlib.import_module("chancy").Worker(app, register_signal_handlers=False)
        worker.send_outgoing_interval = turn.settings["send_ms"] / 1000
        stop = asyncio.Event()

        async def work() -> None:
            async with worker:
                await stop.wait()

        return {"seconds": await clock_drain(turn, work, _tally, DONE, stop.set)}


def _app(turn: Turn) -> Any:
    logging.getLogger("chancy").setLevel(logging.ERROR)
    size = turn.settings["pool"]
    return importlib.import_module("chancy").Chancy(
        turn.url, min_connection_pool_size=size, max_connection_pool_size=size, log=logging.getLogger("chancy")
    )


async def _submit(app: Any, turn: Turn) -> None:
    job = importlib.import_module("chancy").Job(func="bench.contestants.chancy.noop", queue="bench", kwargs={})
    for size in turn.batches():
        async for _ in app.push_many([job] * size, batch_size=size):
            pass


if __name__ == "__main__":
    # The worker imports `noop` by its path, so the verbs must use the globals of that module, not of `__main__`.
    module = importlib.import_module("bench.contestants.chancy")
    perform({"prepare": module.prepare, "submit": module.submit, "drain": module.drain}, SETTINGS)
