"""Windlass as its users run it: an app, one worker with its loops, jobs submitted with the public API."""

import asyncio
import time
from typing import Any

import windlass.runtime.loops.background  # noqa: F401 - loaded before the clock starts, as those of others are
from bench.contestants.stage import POOL, Tally, Turn, clock_drain, clock_latency, clock_singles, perform
from bench.contestants.stage import share as share_queue
from windlass import Windlass
from windlass.runtime.worker.worker import WorkerOptions
from windlass.settings import Settings

SETTINGS = {"concurrency": 1500, "batch": 500, "turns": 3}
TYPE = "bench.noop.v1"
DONE = "select not exists (select from workflow.workflow_run where status in ('pending', 'leased'))"


async def prepare(turn: Turn) -> dict[str, Any]:
    async with _app(turn) as app:
        await _submit(app, turn)
    return {}


async def submit(turn: Turn) -> dict[str, Any]:
    async with _app(turn) as app:
        started = time.perf_counter()
        await _submit(app, turn)
        return {"seconds": time.perf_counter() - started}


async def singles(turn: Turn) -> dict[str, Any]:
    async with Windlass(turn.url, settings=Settings(pool_size=POOL)) as app:
        return {"seconds": await clock_singles(turn, lambda: app.submit(TYPE))}


async def drain(turn: Turn) -> dict[str, Any]:
    app, tally, stop = _worker(turn)
    async with app:
        seconds = await clock_drain(turn, lambda: app.work(_options(turn), stop=stop), tally, DONE, stop.set)
    return {"seconds": seconds}


async def share(turn: Turn) -> dict[str, Any]:
    app, tally, stop = _worker(turn)
    async with app:
        await share_queue(lambda: app.work(_options(turn), stop=stop), tally, DONE, stop.set)
    return {}


async def latency(turn: Turn) -> dict[str, Any]:
    """Measure with a client that is another app with its own connections: they communicate only by the database."""
    app, client = _app(turn), _app(turn)
    begun: asyncio.Queue[float] = asyncio.Queue()
    stop = asyncio.Event()

    @app.job(TYPE)
    async def noop() -> None:
        begun.put_nowait(time.perf_counter())

    async with app, client:
        working = asyncio.create_task(app.work(_options(turn), stop=stop))
        samples = await clock_latency(turn, lambda: client.submit(TYPE), begun)
        stop.set()
        await working
    return {"milliseconds": samples}


def _worker(turn: Turn) -> tuple[Windlass, Tally, asyncio.Event]:
    app, tally = _app(turn), Tally(turn.count)

    @app.job(TYPE)
    async def noop() -> None:
        tally.add()

    return app, tally, asyncio.Event()


def _app(turn: Turn) -> Windlass:
    return Windlass(turn.url, settings=Settings())


def _options(turn: Turn) -> WorkerOptions:
    return WorkerOptions(**turn.settings)  # type: ignore[arg-type]  # numbers all


async def _submit(app: Windlass, turn: Turn) -> None:
    for size in turn.batches():
        await app.submit_many({"type": TYPE, "payload": {}} for _ in range(size))


if __name__ == "__main__":
    verbs = {
        "prepare": prepare,
        "submit": submit,
        "singles": singles,
        "drain": drain,
        "share": share,
        "latency": latency,
    }
    perform(verbs, SETTINGS)
