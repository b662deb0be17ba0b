"""Starts runs with one call and exits: `python -m tests.chaos.starter WORKFLOW COUNT KEY`, keys KEY-0, KEY-1, ..."""

import asyncio
import sys

from windlass import Windlass
from windlass.engine.runs.start import RunSpec


async def main(workflow: str, count: int, key: str) -> None:
    async with Windlass() as app:
        await app.start_many(workflow, [RunSpec(idempotency_key=f"{key}-{n}") for n in range(count)])


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
