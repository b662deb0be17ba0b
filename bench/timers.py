"""Measures how late sleeps end: single ones, and 10,000 that are due within one second. Run `python -m bench.timers`.

It starts a worker process on an embedded Postgres. The delay is the time from the due time of a sleep to the commit
that ends it, by the clock of the server, so it includes no overhead of the client.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from uuid import UUID

from windlass import Windlass, WorkerOptions
from windlass.cli.process import run
from windlass.embedded.server import Embedded, EmbeddedOptions
from windlass.engine.runs.start import RunSpec
from windlass.settings import Settings

FLOORS = {"idle": 50.0, "crowd": 250.0}  # ms, p99
SETTINGS = {"track_commit_timestamp": "on", "max_wal_size": "8GB", "checkpoint_timeout": "1h"}
NAP = 0.1  # seconds
BATCH = 1000
SPREAD = timedelta(seconds=1)
AHEAD = timedelta(seconds=5)
LATE = """
select extract(epoch from pg_xact_commit_timestamp(r.xmin) - w.due_at) * 1000
  from unnest($1::uuid[], $2::timestamptz[]) as w(id, due_at) join windlass.run r on r.id = w.id
 where r.state = 'completed'"""


def main() -> None:
    options = argparse.ArgumentParser(prog="bench.timers", description=__doc__)
    options.add_argument("--samples", type=int, default=200, help="single sleeps")
    options.add_argument("--crowd", type=int, default=10_000, help="runs that wake within one second")
    options.add_argument("--work", metavar="URL", help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.work:
        run(work(chosen.work))
        return
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="windlass-bench-") as folder:
        Path(folder).chmod(0o755)  # as root, the server runs as another user, who must be able to enter
        with Embedded.start(EmbeddedOptions(home=Path(folder), settings=SETTINGS)) as server:
            measured = asyncio.run(measure(server.url, samples=chosen.samples, crowd=chosen.crowd))
    show(measured, before)


async def work(url: str) -> None:
    """Run the worker: the main of its process."""
    async with Windlass(url, settings=Settings()) as app:
        await app.work(WorkerOptions(grace=timedelta(seconds=1)))


async def measure(url: str, *, samples: int, crowd: int) -> dict[str, list[float]]:
    async with Windlass(url, settings=Settings()) as app:
        await app.deploy({"name": "nap", "tasks": {"nap": {"sleep": NAP}}})
        await app.deploy({"name": "long", "tasks": {"nap": {"sleep": "1h"}}})
        with worker(url):
            await alone(app, 10)  # until the worker is ready and has cached its plans
            return {"idle": await alone(app, samples), "crowd": await together(app, crowd)}


async def alone(app: Windlass, samples: int) -> list[float]:
    """Return the delays of sleeps that are due one after the other."""
    db = await app.open()
    late: list[float] = []
    for _ in range(samples):
        nap = await app.start("nap")
        due = await db.pool.fetchval("select due_at from windlass.timer where run_id = $1", nap.id)
        await nap.wait(timeout=60)
        late += [float(row[0]) for row in await db.pool.fetch(LATE, [nap.id], [due])]
    return late


async def together(app: Windlass, crowd: int) -> list[float]:
    """Return the delays of sleeps that are all due within one second."""
    db = await app.open()
    for done in range(0, crowd, BATCH):
        await app.start_many("long", [RunSpec()] * min(BATCH, crowd - done))
    await db.pool.execute("vacuum analyze")
    moved = await db.pool.fetch(
        "with start as materialized (select clock_timestamp() + $1::interval as at) "
        "update windlass.timer set due_at = (select at from start) + random() * $2::interval returning run_id, due_at",
        AHEAD,
        SPREAD,
    )
    ids: list[UUID] = [row[0] for row in moved]
    async with asyncio.timeout(300):
        while await db.pool.fetchval("select exists (select from windlass.timer)"):
            await asyncio.sleep(0.25)
    await asyncio.sleep(1)
    return [float(row[0]) for row in await db.pool.fetch(LATE, ids, [row[1] for row in moved])]


@contextmanager
def worker(url: str) -> Iterator[None]:
    process = subprocess.Popen([sys.executable, "-m", "bench.timers", "--work", url])
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def show(measured: dict[str, list[float]], load_before: float) -> None:
    print(f"{os.cpu_count()} CPUs, load {load_before:.1f} before and {os.getloadavg()[0]:.1f} after")
    print(f"{'sleeps':8} {'count':>7} {'p50 ms':>9} {'p99 ms':>9} {'max ms':>9} {'floor p99':>10}")
    for name, late in measured.items():
        met = "met" if at(late, 0.99) < FLOORS[name] else "MISSED"
        numbers = f"{at(late, 0.5):9.1f} {at(late, 0.99):9.1f} {max(late):9.1f}"
        print(f"{name:8} {len(late):7} {numbers} {FLOORS[name]:10.0f} {met}")


def at(late: Sequence[float], share: float) -> float:
    return sorted(late)[min(len(late) - 1, int(len(late) * share))]


if __name__ == "__main__":
    main()
