"""Workflows of Windlass as its users run them: defined with the builder, started with the public API, one worker."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import windlass.runtime.loops.background  # noqa: F401 - loaded before the clock starts, as those of others are
from bench.contestants.stage import PAUSE, Tally, Turn, clock_drain, clock_fan_out, perform
from bench.contestants.windlass_history import fill
from windlass import Windlass
from windlass.engine.runs.start import RunSpec
from windlass.runtime.worker.worker import WorkerOptions
from windlass.settings import Settings

SETTINGS = {"concurrency": 1500, "batch": 500, "turns": 3}
TYPE = "bench.step.v1"
CHAIN = 3
SHORT = 40  # steps of the short lone chain; the long one's are the count
DONE = "select not exists (select from windlass.run where state in ('pending', 'running'))"


async def prepare_chains(turn: Turn) -> dict[str, Any]:
    async with app(turn) as client:
        name = chain(client, CHAIN)
        for size in turn.batches():
            await client.start_many(name, [RunSpec()] * size)
    return {}


async def prepare_history(turn: Turn) -> dict[str, Any]:
    async with app(turn) as client:
        name = chain(client, CHAIN)
        await client.publish()
    return {"runs": await fill(turn.url, turn.count, name)}


async def chains(turn: Turn) -> dict[str, Any]:
    worker, tally, stop = app(turn), Tally(turn.count * CHAIN), asyncio.Event()

    @worker.job(TYPE)
    async def step() -> None:
        tally.add()

    async with worker:
        seconds = await clock_drain(turn, lambda: worker.work(options(turn), stop=stop), tally, DONE, stop.set)
    return {"seconds": seconds}


async def fan_out(turn: Turn) -> dict[str, Any]:
    async with _served(turn) as client:
        workflow = client.workflow("bench-fan-out")
        first = workflow.step("first", TYPE)
        many = workflow.step("many", TYPE, needs=first).parallel(turn.count)
        workflow.step("last", TYPE, needs=many)
        return {"seconds": await clock_fan_out(lambda: _once(client, "bench-fan-out"))}


async def lone(turn: Turn) -> dict[str, Any]:
    """Return milliseconds per step of short chains and of a long one with as many steps, run between their halves."""
    async with _served(turn) as client:
        short, long = chain(client, SHORT), chain(client, turn.count)
        await client.publish()
        await _once(client, short)
        half = max(1, turn.count // SHORT // 2)
        seconds = [await _seconds(client, name, times) for name, times in ((short, half), (long, 1), (short, half))]
    steps = 2 * half * SHORT
    return {
        "short": (seconds[0] + seconds[2]) / steps * 1000,
        "long": seconds[1] / turn.count * 1000,
    }


def app(turn: Turn) -> Windlass:
    return Windlass(turn.url, settings=Settings())


def options(turn: Turn) -> WorkerOptions:
    return WorkerOptions(**turn.settings)  # type: ignore[arg-type]  # numbers all


def chain(client: Windlass, steps: int) -> str:
    """Define a chain of `steps` steps; return the name of the workflow."""
    name = f"bench-chain-{steps}"
    workflow, before = client.workflow(name), None
    for number in range(steps):
        before = workflow.step(f"step{number}", TYPE, needs=before)
    return name


@asynccontextmanager
async def _served(turn: Turn) -> AsyncIterator[Windlass]:
    """Run a worker and yield a client with its own connections: they communicate only by the database."""
    worker, client, stop = app(turn), app(turn), asyncio.Event()

    @worker.job(TYPE)
    async def step() -> None:
        pass

    async with worker, client:
        working = asyncio.create_task(worker.work(options(turn), stop=stop))
        try:
            yield client
        finally:
            stop.set()
            await working


async def _once(client: Windlass, workflow: str) -> None:
    (await (await client.start(workflow)).wait()).value  # noqa: B018 - raises if the run did not complete


async def _seconds(client: Windlass, workflow: str, times: int) -> float:
    await asyncio.sleep(PAUSE)
    started = time.perf_counter()
    for _ in range(times):
        await _once(client, workflow)
    return time.perf_counter() - started


if __name__ == "__main__":
    verbs = {"prepare_chains": prepare_chains, "chains": chains, "fan_out": fan_out, "lone": lone}
    perform(verbs | {"prepare_history": prepare_history}, SETTINGS)
