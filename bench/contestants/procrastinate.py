"""Procrastinate with the best settings found for one process. Its triggers write the audit events.

It claims one job per statement, so its drain has fewer jobs than others; a shorter queue is no harder.
"""

import importlib
import time
from typing import Any

from bench.contestants.stage import Tally, Turn, clock_drain, perform

SETTINGS = {"concurrency": 20, "pool": 10}
DONE = "select not exists (select from procrastinate_jobs where status in ('todo', 'doing'))"


async def prepare(turn: Turn) -> dict[str, Any]:
    app, task = _app(turn, Tally(turn.count))
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        await _submit(task, turn)
    return {}


async def submit(turn: Turn) -> dict[str, Any]:
    app, task = _app(turn, Tally(turn.count))
    async with app.open_async():
        started = time.perf_counter()
        await _submit(task, turn)
        return {"seconds": time.perf_counter() - started}


async def drain(turn: Turn) -> dict[str, Any]:
    tally = Tally(turn.count)
    app, _ = _app(turn, tally)
    async with app.open_async():

        async def work() -> None:
            await app.run_worker_async(
                concurrency=turn.settings["concurrency"], wait=False, install_signal_handlers=False, listen_notify=False
            )

        return {"seconds": await clock_drain(turn, work, tally, DONE)}


def _app(turn: Turn, tally: Tally) -> tuple[Any, Any]:
    procrastinate = importlib.import_module("procrastinate")
    size = turn.settings["pool"]
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=turn.url, min_size=size, max_size=size))

    @app.task(name="noop")  # type: ignore[untyped-decorator]  # not installed where mypy runs
    async def noop() -> None:
        tally.add()

    return app, noop


async def _submit(task: Any, turn: Turn) -> None:
    for size in turn.batches():
        await task.batch_defer_async(*({} for _ in range(size)))


if __name__ == "__main__":
    perform({"prepare": prepare, "submit": submit, "drain": drain}, SETTINGS)
