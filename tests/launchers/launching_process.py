"""A process that starts one job of a pool and then waits to be killed. Reads its arguments, JSON, from stdin."""

import asyncio
import json
import sys

from windlass.effects.launchers import LaunchRequest, PoolOptions, Resources, open_launcher


async def main() -> None:
    arguments = json.loads(sys.stdin.readline())
    pool = {**arguments["pool"], "resources": Resources()}
    launcher = open_launcher(PoolOptions(**pool))
    await launcher.list()  # connected
    report("ready")
    await launcher.start(LaunchRequest(**arguments["request"]))
    report("started")
    await asyncio.Event().wait()


def report(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main())
