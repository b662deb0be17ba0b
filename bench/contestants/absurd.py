"""Absurd with the best settings found for one process: several of its async workers, each with its own connection.

Its tables come from the package `absurdctl`, which contains the SQL; the SDK has only the client. It records one task
per statement, so it gets fewer of them. It keeps finished tasks with their results and has no table of events.
"""

import asyncio
import importlib
import time
from contextlib import AsyncExitStack
from typing import Any

import asyncpg

from bench.contestants.stage import Tally, Turn, clock_drain, perform

SETTINGS = {"workers": 16, "concurrency": 10, "clients": 16, "poll_ms": 10}
QUEUE = "bench"
DONE = f"select not exists (select from absurd.t_{QUEUE} where state in ('pending', 'running', 'sleeping'))"


async def prepare(turn: Turn) -> dict[str, Any]:
    await install(turn)
    await spawn(turn, "noop")
    return {}


async def submit(turn: Turn) -> dict[str, Any]:
    started = time.perf_counter()
    await spawn(turn, "noop")
    return {"seconds": time.perf_counter() - started}


async def drain(turn: Turn) -> dict[str, Any]:
    tally = Tally(turn.count)

    async def noop(_params: object, _context: object) -> None:
        tally.add()

    return {"seconds": await clock_workers(turn, {"noop": noop}, tally)}


async def install(turn: Turn) -> None:
    conn = await asyncpg.connect(turn.url)
    await conn.execute(importlib.import_module("absurdctl").BUNDLED_SCHEMA_SQL)
    await conn.close()
    async with AsyncExitStack() as stack:
        await _client(turn, stack).create_queue(QUEUE)


async def spawn(turn: Turn, task: str) -> None:
    """Record the tasks with several clients concurrently, because each records one task per statement."""
    left = iter(range(turn.count))

    async def feed(client: Any) -> None:
        for _ in left:
            await client.spawn(task, {})

    async with AsyncExitStack() as stack:
        clients = [_client(turn, stack, {task: None}) for _ in range(turn.settings["clients"])]
        await asyncio.gather(*(feed(client) for client in clients))


async def clock_workers(turn: Turn, handlers: dict[str, Any], tally: Tally) -> float:
    async with AsyncExitStack() as stack:
        workers = [_client(turn, stack, handlers) for _ in range(turn.settings["workers"])]

        async def work() -> None:
            options = {"concurrency": turn.settings["concurrency"], "poll_interval": turn.settings["poll_ms"] / 1000}
            await asyncio.gather(
                *(worker.start_worker(worker_id=f"bench {n}", **options) for n, worker in enumerate(workers))
            )

        def stop() -> None:
            for worker in workers:
                worker.stop_worker()

        return await clock_drain(turn, work, tally, DONE, stop)


def _client(turn: Turn, stack: AsyncExitStack, handlers: dict[str, Any] | None = None) -> Any:
    client = importlib.import_module("absurd_sdk").AsyncAbsurd(turn.url, queue_name=QUEUE)
    stack.push_async_callback(client.close)
    for name, handler in (handlers or {}).items():
        client.register_task(name)(handler)
    return client


if __name__ == "__main__":
    perform({"prepare": prepare, "submit": submit, "drain": drain}, SETTINGS)
