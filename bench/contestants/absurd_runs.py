"""Workflows of Absurd: a task with three steps, each a checkpoint in its own transaction."""

from typing import Any

from bench.contestants import absurd
from bench.contestants.stage import Tally, Turn, perform

CHAIN = ("first", "second", "third")


async def prepare_chains(turn: Turn) -> dict[str, Any]:
    await absurd.install(turn)
    await absurd.spawn(turn, "chain")
    return {}


async def chains(turn: Turn) -> dict[str, Any]:
    tally = Tally(turn.count * len(CHAIN))

    async def step() -> None:
        tally.add()

    async def chain(_params: object, context: Any) -> None:
        for name in CHAIN:
            await context.step(name, step)

    return {"seconds": await absurd.clock_workers(turn, {"chain": chain}, tally)}


if __name__ == "__main__":
    perform({"prepare_chains": prepare_chains, "chains": chains}, absurd.SETTINGS)
