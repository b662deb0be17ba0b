"""PgQueuer with the best settings found for one process; docs/explanation/performance.md lists what was tried.

Its audit trail is the log table (queued, picked, successful); a finished job is deleted from the queue table. Both are
logged tables here (`durable`), with the autovacuum settings that its documentation recommends.
"""

import asyncio
import importlib
import time
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any

import asyncpg

from bench.contestants.stage import POOL, Tally, Turn, clock_drain, clock_latency, clock_singles, perform
from bench.contestants.stage import share as share_queue

# A pool and large batches (also the size of its status buffer) drain fastest; one connection has the lowest latency.
SETTINGS = {"managers": 1, "batch": 1000, "concurrent": 4000, "pool": 4, "latency_batch": 10, "latency_pool": 0}
ENTRYPOINT = "noop"
DONE = "select not exists (select from pgqueuer)"


async def prepare(turn: Turn) -> dict[str, Any]:
    conn = await asyncpg.connect(turn.url)
    queries = _queries(conn)
    await queries.install()
    await queries.optimize_autovacuum()
    await _submit(queries, turn)
    await conn.close()
    return {}


async def submit(turn: Turn) -> dict[str, Any]:
    conn = await asyncpg.connect(turn.url)
    queries = _queries(conn)
    started = time.perf_counter()
    await _submit(queries, turn)
    seconds = time.perf_counter() - started
    await conn.close()
    return {"seconds": seconds}


async def singles(turn: Turn) -> dict[str, Any]:
    async with asyncpg.create_pool(turn.url, min_size=POOL, max_size=POOL) as pool:
        queries = importlib.import_module("pgqueuer.queries").Queries(_drivers().AsyncpgPoolDriver(pool))
        return {"seconds": await clock_singles(turn, lambda: queries.enqueue(ENTRYPOINT, b"{}"))}


async def drain(turn: Turn) -> dict[str, Any]:
    tally = Tally(turn.count)
    async with AsyncExitStack() as stack:
        work = await _draining(turn, tally, stack)
        return {"seconds": await clock_drain(turn, work, tally, DONE)}


async def share(turn: Turn) -> dict[str, Any]:
    tally = Tally(turn.count)
    async with AsyncExitStack() as stack:
        await share_queue(await _draining(turn, tally, stack), tally, DONE)
    return {}


async def _draining(turn: Turn, tally: Tally, stack: AsyncExitStack) -> Callable[[], Coroutine[Any, Any, None]]:
    """Return a drain. `mode=drain` is faster than `continuous`: it records the last batch at once, not by a timer."""
    mode = importlib.import_module("pgqueuer.types").QueueExecutionMode.drain
    managers = [await open_manager(turn.url, turn.settings["pool"], stack) for _ in range(turn.settings["managers"])]
    for manager in managers:

        @manager.entrypoint(ENTRYPOINT)  # type: ignore[untyped-decorator]  # not installed where mypy runs
        async def noop(_job: object) -> None:
            tally.add()

    async def work() -> None:
        chosen = run_options(turn.settings["batch"]) | {"max_concurrent_tasks": turn.settings["concurrent"] or None}
        await asyncio.gather(*(manager.run(mode=mode, **chosen) for manager in managers))

    return work


async def latency(turn: Turn) -> dict[str, Any]:
    begun: asyncio.Queue[float] = asyncio.Queue()
    async with AsyncExitStack() as stack:
        manager = await open_manager(turn.url, turn.settings["latency_pool"], stack)

        @manager.entrypoint(ENTRYPOINT)  # type: ignore[untyped-decorator]  # not installed where mypy runs
        async def noop(_job: object) -> None:
            begun.put_nowait(time.perf_counter())

        conn = await asyncpg.connect(turn.url)
        client = _queries(conn)
        working = asyncio.create_task(manager.run(**run_options(turn.settings["latency_batch"])))
        samples = await clock_latency(turn, lambda: client.enqueue(ENTRYPOINT, b"{}"), begun)
        manager.shutdown.set()
        await working
        await conn.close()
    return {"milliseconds": samples}


async def open_manager(url: str, size: int, stack: AsyncExitStack) -> Any:
    """Return a queue manager on a pool of this size, or on one connection if the size is 0."""
    drivers = _drivers()
    if size:
        pool = await stack.enter_async_context(asyncpg.create_pool(url, min_size=size, max_size=size))
        driver = drivers.AsyncpgPoolDriver(pool)
    else:
        conn = await asyncpg.connect(url)
        stack.push_async_callback(conn.close)
        driver = drivers.AsyncpgDriver(conn)
    queries = importlib.import_module("pgqueuer.queries").Queries(driver)
    return importlib.import_module("pgqueuer.qm").QueueManager(queries)


def run_options(batch: int) -> dict[str, Any]:
    """Return the options of a run, with the statistics loop off."""
    return {"batch_size": batch, "log_aggregation_interval": timedelta(0)}


def _drivers() -> Any:
    return importlib.import_module("pgqueuer.db")


def _queries(conn: "asyncpg.Connection[Any]") -> Any:
    return importlib.import_module("pgqueuer.queries").Queries.from_asyncpg_connection(conn)


async def _submit(queries: Any, turn: Turn) -> None:
    for size in turn.batches():
        await queries.enqueue([ENTRYPOINT] * size, [b"{}"] * size, [0] * size)


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
