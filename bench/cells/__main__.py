"""`python -m bench.cells` tries a router over two databases, in one Postgres or, with --urls, in several.

It starts runs with and without keys, adds a third cell, drains the runs with a worker for each cell and disconnects one
cell. It checks that every run is found by its id, that a key never starts two runs, and that lists are in order. It
prints the distribution of the runs and the cost of requests through the router and to a single cell.
"""

import argparse
import asyncio
import contextlib
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import UTC, datetime
from statistics import median
from uuid import UUID

from bench.cells.router import Router
from bench.cells.routing import Generation, Table
from bench.server import own_server
from windlass import Windlass
from windlass.runtime.worker import WorkerOptions
from windlass.settings import Settings

CHARGE = {"job": "orders.charge.v1"}
WORKFLOW = {"name": "orders", "tasks": {"charge": CHARGE, "ship": {**CHARGE, "needs": ["charge"]}}}
BEGINNING = datetime(2000, 1, 1, tzinfo=UTC)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.cells", description=__doc__)
    parser.add_argument("--runs", type=int, default=2000, help="runs before and after the third cell is added (2000)")
    parser.add_argument("--urls", nargs=3, metavar="URL", help="three empty databases, instead of an embedded Postgres")
    args = parser.parse_args()
    asyncio.run(_main(args.runs, args.urls))
    return 0


async def _main(count: int, urls: list[str] | None) -> None:
    if urls is not None:
        await _measure(count, dict(zip("abc", urls, strict=True)))
        return
    with own_server() as server:
        await _measure(count, {name: await server.fresh(f"cell_{name}") for name in "abc"})


async def _measure(count: int, urls: Mapping[str, str]) -> None:
    async with contextlib.AsyncExitStack() as stack:
        apps = {name: await stack.enter_async_context(_cell(url)) for name, url in urls.items()}
        first = Generation(BEGINNING, ("a", "b"))
        router = Router(Table((first,)), {name: apps[name] for name in "ab"})
        await router.deploy(WORKFLOW)
        ids = await _start(router, count)
        print(f"two cells: {_spread(router, ids)}")

        router = Router(Table((first, Generation(datetime.now(UTC), ("a", "b", "c")))), apps)
        await router.deploy(WORKFLOW)
        again = [await router.start("orders", key=str(n)) for n in range(0, count, 2)]
        assert again == ids[::2], "a key started a second run"
        later = await _start(router, count, prefix="later-")
        print(f"third cell added: {_spread(router, later)}; the {count} earlier runs stay in their cells")

        await _drain(apps, 2 * count)
        states = Counter([(await router.get(run)).state.value for run in [*ids, *later]])
        print(f"found by id after they ended: {dict(states)}")
        page = await router.runs(limit=100)
        assert [row.id for row in page.runs] == sorted([*ids, *later], reverse=True)[:100], "the list is not in order"
        print(f"get: {await _cost(lambda: router.get(ids[0])):.2f} ms")
        one = await _cost(lambda: apps["a"].runs(limit=50))
        print(f"list of 50: {await _cost(router.runs):.2f} ms through the router, {one:.2f} ms from one cell")

        await apps["b"].close()
        apps["b"] = Windlass("postgresql://127.0.0.1:1/nothing", settings=Settings(pool_size=1))
        page = await Router(router.table, apps).runs(limit=50)
        print(f"with a cell unreachable: {len(page.runs)} runs in a list, missing: {', '.join(page.missing)}")


@contextlib.asynccontextmanager
async def _cell(url: str) -> AsyncIterator[Windlass]:
    app = Windlass(url, settings=Settings(pool_size=4))

    @app.job("orders.charge.v1")
    async def charge() -> None:
        pass

    async with app:
        yield app


async def _start(router: Router, count: int, prefix: str = "") -> list[UUID]:
    """Start runs, every second one with a key; return their ids."""
    ids = []
    for n in range(count):
        ids.append(await router.start("orders", key=None if n % 2 else f"{prefix}{n}"))
    return ids


def _spread(router: Router, ids: list[UUID]) -> str:
    return ", ".join(f"{cell} {count}" for cell, count in sorted(Counter(map(router.table.cell_of, ids)).items()))


async def _drain(apps: Mapping[str, Windlass], count: int) -> None:
    stop, began = asyncio.Event(), time.perf_counter()
    workers = [asyncio.create_task(app.work(WorkerOptions(concurrency=100), stop=stop)) for app in apps.values()]
    while [app for app in apps.values() if (await app.runs(states=["pending", "running"], limit=1)).runs]:
        await asyncio.sleep(0.05)
    print(f"{count} runs of two steps drained in {time.perf_counter() - began:.1f} s; a worker per cell, one process")
    stop.set()
    await asyncio.gather(*workers)


async def _cost(call: Callable[[], Awaitable[object]]) -> float:
    """Return the median duration of a hundred calls in milliseconds."""
    took = []
    for _ in range(100):
        began = time.perf_counter()
        await call()
        took.append((time.perf_counter() - began) * 1000)
    return median(took)


if __name__ == "__main__":
    sys.exit(main())
