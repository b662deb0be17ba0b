"""DBOS with the best settings found for one process: async workflows, dequeued as fast as its queue allows.

Chains are enqueued before the measurement. The fan-out is one workflow that gathers its thousand steps, which is the
cheapest way that DBOS has: a step is one row, a child workflow several.
"""

import asyncio
import importlib
import logging
from collections.abc import Callable
from typing import Any

from bench.contestants.stage import Tally, Turn, clock_drain, clock_fan_out, perform

SETTINGS = {"pool": 20, "concurrency": 100, "poll_ms": 100}
QUEUE = "bench"
DONE = "select not exists (select from dbos.workflow_status where status in ('ENQUEUED', 'PENDING'))"


async def prepare_chains(turn: Turn) -> dict[str, Any]:
    dbos = _open(turn, lambda: None)
    dbos.listen_queues([])
    await asyncio.to_thread(dbos.launch)
    queue = await dbos.register_queue_async(
        QUEUE,
        worker_concurrency=turn.settings["concurrency"],
        polling_interval_sec=turn.settings["poll_ms"] / 1000,
    )
    for _ in range(turn.count):
        await queue.enqueue_async(dbos.chain)
    await asyncio.to_thread(dbos.destroy)
    return {}


async def chains(turn: Turn) -> dict[str, Any]:
    """Measure the chains, including the launch of DBOS, because it begins to dequeue as soon as it is launched."""
    loop, tally, stop = asyncio.get_running_loop(), Tally(turn.count * 3), asyncio.Event()
    dbos = _open(turn, lambda: loop.call_soon_threadsafe(tally.add))

    async def work() -> None:
        await asyncio.to_thread(dbos.launch)
        await stop.wait()

    seconds = await clock_drain(turn, work, tally, DONE, stop.set)
    await asyncio.to_thread(dbos.destroy)
    return {"seconds": seconds}


async def fan_out(turn: Turn) -> dict[str, Any]:
    dbos = _open(turn, lambda: None)
    await asyncio.to_thread(dbos.launch)

    async def once() -> None:
        handle = await dbos.start_workflow_async(dbos.fan_out, turn.count)
        await handle.get_result()

    samples = await clock_fan_out(once)
    await asyncio.to_thread(dbos.destroy)
    return {"seconds": samples}


def _open(turn: Turn, begun: Callable[[], object]) -> Any:
    """Return DBOS with the workflows of the benchmark, not launched yet."""
    dbos = importlib.import_module("dbos").DBOS
    logging.getLogger("dbos").setLevel(logging.ERROR)
    url = turn.url.replace("postgresql://", "postgresql+psycopg://", 1)
    pool = turn.settings["pool"]
    dbos(
        config={
            "name": "bench",
            "system_database_url": url,
            "sys_db_pool_size": pool,
            "log_level": "ERROR",
            "application_version": "1",
            "executor_id": "bench",
        }
    )

    @dbos.step()  # type: ignore[untyped-decorator]  # not installed where mypy runs
    async def noop() -> None:
        begun()

    @dbos.workflow()  # type: ignore[untyped-decorator]
    async def chain() -> None:
        await noop()
        await noop()
        await noop()

    @dbos.workflow()  # type: ignore[untyped-decorator]
    async def fan_out(width: int) -> None:
        await noop()
        await asyncio.gather(*(noop() for _ in range(width)))
        await noop()

    dbos.chain, dbos.fan_out = chain, fan_out
    return dbos


if __name__ == "__main__":
    perform({"prepare_chains": prepare_chains, "chains": chains, "fan_out": fan_out}, SETTINGS)
