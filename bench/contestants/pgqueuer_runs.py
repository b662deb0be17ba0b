"""Chains of PgQueuer, which has no workflows: each handler enqueues the next job.

This is not atomic: the next job is recorded before the end of the current one, so a crash in between executes a step
twice, and there is no record of the run. It is how its users emulate chains, with weaker guarantees at a lower cost.
"""

import importlib
from contextlib import AsyncExitStack
from typing import Any

import asyncpg

from bench.contestants import pgqueuer
from bench.contestants.stage import Tally, Turn, clock_drain, perform

# Smaller batches than in the drain, because each job enqueues the next; the handlers also need connections.
SETTINGS = {"batch": 100, "concurrent": 4000, "pool": 10}
CHAIN = ("first", "second", "third")


async def prepare_chains(turn: Turn) -> dict[str, Any]:
    conn = await asyncpg.connect(turn.url)
    queries = importlib.import_module("pgqueuer.queries").Queries.from_asyncpg_connection(conn)
    await queries.install()
    await queries.optimize_autovacuum()
    for size in turn.batches():
        await queries.enqueue([CHAIN[0]] * size, [b"{}"] * size, [0] * size)
    await conn.close()
    return {}


async def chains(turn: Turn) -> dict[str, Any]:
    tally = Tally(turn.count * len(CHAIN))
    async with AsyncExitStack() as stack:
        manager = await pgqueuer.open_manager(turn.url, turn.settings["pool"], stack)
        for name, following in zip(CHAIN, (*CHAIN[1:], None), strict=True):
            manager.entrypoint(name)(_handler(manager.queries, following, tally))

        async def work() -> None:
            limit = turn.settings["concurrent"] or None
            await manager.run(**pgqueuer.run_options(turn.settings["batch"]), max_concurrent_tasks=limit)

        return {"seconds": await clock_drain(turn, work, tally, pgqueuer.DONE, manager.shutdown.set)}


def _handler(queries: Any, following: str | None, tally: Tally) -> Any:
    async def handle(_job: object) -> None:
        if following is not None:
            await queries.enqueue(following, b"{}")
        tally.add()

    return handle


if __name__ == "__main__":
    perform({"prepare_chains": prepare_chains, "chains": chains}, SETTINGS)
