"""Oban for Python with the best settings found for one process, without its paid edition (bulk inserts and bulk ends).

It needs Python 3.12. It keeps finished jobs as rows and has no table of events.
"""

import asyncio
import importlib
import time
from typing import Any

from bench.contestants.stage import Tally, Turn, clock_drain, perform

SETTINGS = {"pool": 10, "limit": 1000}
DONE = "select not exists (select from oban_jobs where state in ('available', 'executing', 'scheduled', 'retryable'))"


async def prepare(turn: Turn) -> dict[str, Any]:
    pool = await _pool(turn)
    await importlib.import_module("oban.schema").install(pool)
    await _submit(pool, turn)
    await pool.close()
    return {}


async def submit(turn: Turn) -> dict[str, Any]:
    pool = await _pool(turn)
    started = time.perf_counter()
    await _submit(pool, turn)
    seconds = time.perf_counter() - started
    await pool.close()
    return {"seconds": seconds}


async def drain(turn: Turn) -> dict[str, Any]:
    tally, stop = Tally(turn.count), asyncio.Event()
    _job(tally)
    pool = await _pool(turn)
    oban = importlib.import_module("oban").Oban(pool=pool, queues={"default": turn.settings["limit"]})

    async def work() -> None:
        async with oban:
            await stop.wait()

    seconds = await clock_drain(turn, work, tally, DONE, stop.set)
    await pool.close()
    return {"seconds": seconds}


def _job(tally: Tally) -> Any:
    @importlib.import_module("oban").job(queue="default")  # type: ignore[untyped-decorator]  # not installed where mypy runs
    async def noop() -> None:
        tally.add()

    return noop


async def _pool(turn: Turn) -> Any:
    size = turn.settings["pool"]
    return await importlib.import_module("oban").Oban.create_pool(turn.url, min_size=size, max_size=size)


async def _submit(pool: Any, turn: Turn) -> None:
    noop = _job(Tally(turn.count))
    oban = importlib.import_module("oban").Oban(pool=pool)
    for size in turn.batches():
        await oban.enqueue_many([noop.new() for _ in range(size)])


if __name__ == "__main__":
    perform({"prepare": prepare, "submit": submit, "drain": drain}, SETTINGS)
