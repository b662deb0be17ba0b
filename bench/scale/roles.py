"""The processes of the trial. Each prints a line of JSON per second with its counts since the last line.

    python -m bench.scale.roles ROLE --url URL [--port PORT] [--held N]

They stop at the end of stdin, so that none outlives the trial.
"""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

from bench.contestants.http import ask, get
from bench.contestants.stage import loop_factory
from bench.scale.shape import HOLD, HOLD_QUEUE, LANE_QUEUES, LANE_TYPES, STEP, WORKFLOW
from windlass import Windlass, WorkerOptions
from windlass.engine.workers import turn
from windlass.settings import Settings

ARCHIVE_AFTER = timedelta(minutes=2)  # less than the warm-up, so that the trial includes the cost of archiving
PAUSE = 0.2  # seconds between two pages
PAGES = 20  # read of all lists before they are read from the start again
LISTS = (
    "/api/v1/jobs?limit=50",
    "/api/v1/runs?limit=50",
    "/api/v1/jobs?limit=50&status=succeeded&type=bench.step.v1",
    f"/api/v1/runs?limit=50&workflow={WORKFLOW}&status=completed",
)


class Counts:
    def __init__(self) -> None:
        self.jobs = 0
        self.steps = 0
        self.milliseconds: list[float] = []  # durations of claims, or of pages

    def take(self) -> dict[str, Any]:
        counts = dict(vars(self))
        vars(self).update(vars(Counts()))
        return counts


async def work(url: str, counts: Counts, stop: asyncio.Event) -> None:
    """Run a worker that serves all lanes and the steps of runs."""
    app = Windlass(url, settings=Settings(archive_after=ARCHIVE_AFTER))

    async def job() -> None:
        counts.jobs += 1

    async def step() -> None:
        counts.steps += 1

    for type_ in LANE_TYPES:
        app.job(type_)(job)
    app.job(STEP)(step)
    _time_claims(counts)
    async with app:
        options = WorkerOptions(queues=("default", *LANE_QUEUES), concurrency=200, grace=timedelta(seconds=5))
        await app.work(options, stop=stop)


async def hold(url: str, held: int, counts: Counts, stop: asyncio.Event) -> None:
    """Run a worker whose jobs do not end before the trial, so that it keeps `held` leases."""
    app = Windlass(url, settings=Settings(archive_after=ARCHIVE_AFTER))

    @app.job(HOLD)
    async def wait() -> None:
        counts.jobs += 1
        await stop.wait()

    async with app:
        options = WorkerOptions(queues=(HOLD_QUEUE,), concurrency=held, grace=timedelta(seconds=30))
        await app.work(options, stop=stop)


async def read_lists(port: int, counts: Counts, stop: asyncio.Event) -> None:
    """Page through lists."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while not stop.is_set():
        for path in LISTS:
            before = ""
            for _ in range(PAGES // len(LISTS)):
                began = time.perf_counter()
                head, body = await ask(reader, writer, get(path + before))
                counts.milliseconds.append((time.perf_counter() - began) * 1000)
                if not head.startswith(b"HTTP/1.1 200"):
                    raise RuntimeError(f"{path}: {head!r} {body!r}")
                cursor = json.loads(body)["next"]
                before = f"&before={cursor}" if cursor else ""
                await asyncio.sleep(PAUSE)
    writer.close()


def _time_claims(counts: Counts) -> None:
    """Measure the turns that claim jobs, by replacing a function: the engine has no hook for that."""
    original = turn.turn

    async def timed(db: Any, request: Any) -> Any:
        began = time.perf_counter()
        answer = await original(db, request)
        if request.count:
            counts.milliseconds.append((time.perf_counter() - began) * 1000)
        return answer

    turn.turn = timed


async def _run(role: Callable[[Counts, asyncio.Event], Awaitable[None]]) -> None:
    counts, stop = Counts(), asyncio.Event()
    working = asyncio.ensure_future(role(counts, stop))
    ended = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
    while not (ended.done() or working.done()):
        await asyncio.wait([ended, working], timeout=1, return_when=asyncio.FIRST_COMPLETED)
        print(json.dumps(counts.take()), flush=True)
    stop.set()
    await working


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.scale.roles", description=__doc__)
    parser.add_argument("role", choices=("work", "hold", "look"))
    parser.add_argument("--url")
    parser.add_argument("--port", type=int)
    parser.add_argument("--held", type=int)
    args = parser.parse_args()
    roles: dict[str, Callable[[Counts, asyncio.Event], Awaitable[None]]] = {
        "work": lambda counts, stop: work(args.url, counts, stop),
        "hold": lambda counts, stop: hold(args.url, args.held, counts, stop),
        "look": lambda counts, stop: read_lists(args.port, counts, stop),
    }
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_run(roles[args.role]))


if __name__ == "__main__":
    main()
