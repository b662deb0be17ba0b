"""Large fan-outs: the memory of a worker does not grow with the number of items, and its window is never exceeded.

The worker runs in a separate process, whose memory is measured: `python -m tests.runtime.test_run_volume URL COUNT`.
"""

import asyncio
import json
import resource
import sys
from typing import Any

import pytest

from windlass import Windlass, WorkerOptions
from windlass.settings import Settings

Connection = Any
WINDOW = 50
LIVE = "select count(*) from workflow.workflow_run where step = 1 and status in ('pending', 'leased')"


def peak() -> int:
    """Return the peak memory of this process in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


class Tally:
    """Counters that the handlers update."""

    def __init__(self, count: int) -> None:
        self.count, self.done, self.total, self.busy, self.most, self.early = count, 0, 0, 0, 0, 0

    async def process(self, item: int) -> int:
        self.busy += 1
        self.most = max(self.most, self.busy)
        await asyncio.sleep(0)
        self.busy -= 1
        self.done += 1
        self.total += item
        if self.done == self.count // 10:
            self.early = peak()
        return item


async def main(url: str, count: int) -> dict[str, Any]:
    """Execute a run with `count` items; return its result and the memory use of this process."""
    tally, stop = Tally(count), asyncio.Event()
    async with Windlass(url, settings=Settings()) as app:
        app.job("process.v1")(tally.process)
        flow = app.workflow("w")
        items = flow.step("discover", lambda: list(range(count)))
        each = flow.step("process", tally.process).foreach(items, concurrency=WINDOW)
        flow.step("last", lambda: "done", needs=each)
        working = asyncio.create_task(app.work(WorkerOptions(concurrency=200), stop=stop))
        result = await (await app.start("w")).wait(timeout=900)
        stop.set()
        await working
    told = {"state": result.state, "done": tally.done, "total": tally.total, "most": tally.most}
    return told | {"early": tally.early, "peak": peak()}


async def trial(database: str, conn: Connection, count: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.runtime.test_run_volume", database, str(count)]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    ended = asyncio.create_task(process.communicate())
    windows = [0]
    while not ended.done():
        windows.append(await conn.fetchval(LIVE))
        await asyncio.wait([ended], timeout=0.05)
    out, _ = await ended
    assert process.returncode == 0
    told: dict[str, Any] = json.loads(out.splitlines()[-1])
    return told | {"window": max(windows)}


def check(told: dict[str, Any], count: int) -> None:
    assert (told["state"], told["done"], told["total"]) == ("completed", count, sum(range(count)))
    assert 0 < told["most"] <= WINDOW
    assert 0 < told["window"] <= WINDOW
    assert told["peak"] - told["early"] < 32, told  # megabytes


async def test_a_thousand_items_stay_within_a_window_of_fifty_and_constant_memory(
    database: str, conn: Connection
) -> None:
    check(await trial(database, conn, 1_000), 1_000)


@pytest.mark.soak
@pytest.mark.timeout(1000)
async def test_a_hundred_thousand_items_stay_within_a_window_of_fifty_and_constant_memory(
    database: str, conn: Connection
) -> None:
    check(await trial(database, conn, 100_000), 100_000)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(main(sys.argv[1], int(sys.argv[2])))) + "\n")
