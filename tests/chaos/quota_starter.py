"""Starts runs concurrently with another process: `python -m tests.chaos.quota_starter WORKFLOW COUNT`.

Prints `ready`, waits for a line, starts the runs, and prints how many were started and how many refused.
"""

import asyncio
import sys

from windlass import Windlass
from windlass.errors import QuotaExceeded


async def main(workflow: str, count: int) -> None:
    async with Windlass() as app:
        await app.open()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.readline)
        answers = await asyncio.gather(*(app.start(workflow) for _ in range(count)), return_exceptions=True)
    refused = sum(isinstance(answer, QuotaExceeded) for answer in answers)
    errors = [
        answer for answer in answers if isinstance(answer, BaseException) and not isinstance(answer, QuotaExceeded)
    ]
    if errors:
        raise errors[0]
    sys.stdout.write(f"{count - refused} {refused}\n")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
