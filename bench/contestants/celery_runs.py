"""Workflows of Celery: `chain` of three tasks. The end of a task and the message of the next are two commands."""

import asyncio
import importlib
from typing import Any

from bench.contestants import celery
from bench.contestants.stage import Tally, Turn, perform


async def prepare_chains(_turn: Turn) -> dict[str, Any]:
    """Do nothing: each process has its own Redis, so `chains` sends the chains before its measurement."""
    return {}


async def chains(turn: Turn) -> dict[str, Any]:
    loop, tally = asyncio.get_running_loop(), Tally(turn.count * 3)
    with celery.own_redis() as socket:
        app = celery.make_app(socket, turn)
        noop = celery.noop_task(app, lambda: loop.call_soon_threadsafe(tally.add))
        three = importlib.import_module("celery").chain(noop.si(), noop.si(), noop.si())
        for _ in range(turn.count):
            three.apply_async()
        return {"seconds": await celery.clock_worker(turn, app, tally)}


if __name__ == "__main__":
    perform({"prepare_chains": prepare_chains, "chains": chains}, celery.SETTINGS)
