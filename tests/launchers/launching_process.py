"""Starts one job of a pool and waits until it is killed. Reads its arguments from stdin, as JSON."""

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
