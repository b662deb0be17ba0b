"""Measures whether an org with a long queue delays others: 99 orgs of 100 jobs, alone and beside one of 100,000 jobs.

Run `python -m bench.fairness`. It starts a worker process on an embedded Postgres. The time is that from the first
claim to the end of the last job of the small orgs, according to the event trail. Only the ratio of the two times is
printed, because it does not depend on the machine.
"""

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
from datetime import timedelta

import asyncpg

from bench.server import own_server
from windlass import Windlass, WorkerOptions
from windlass.cli.process import run
from windlass.engine.jobs import control as jobs
from windlass.engine.orgs import control as orgs
from windlass.settings import Settings

CEILING = 2.0  # beside / alone
LARGE = "large"
BULK = 5000
LEFT = "select count(*) from workflow.workflow_run where org <> $1 and status <> 'succeeded'"
TOOK = """
select extract(epoch from max(e.created_at) filter (where e.event_type = 'succeeded' and j.org <> $1)
                        - min(e.created_at) filter (where e.event_type = 'leased'))::float8
  from workflow.workflow_event e join workflow.workflow_run j on j.id = e.workflow_id"""


def main() -> None:
    options = argparse.ArgumentParser(prog="bench.fairness", description=__doc__)
    options.add_argument("--orgs", type=int, default=99, help="small orgs")
    options.add_argument("--jobs", type=int, default=100, help="jobs of each small org")
    options.add_argument("--large", type=int, default=100_000, help="jobs of the large org")
    options.add_argument("--repeat", type=int, default=3)
    options.add_argument("--work", metavar="URL", help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.work:
        run(work(chosen.work))
        return
    before = os.getloadavg()[0]
    alone: list[float] = []
    beside: list[float] = []
    with own_server() as server:
        for n in range(chosen.repeat):
            for times, large in ((alone, 0), (beside, chosen.large)):
                url = asyncio.run(server.fresh(f"fairness_{n}_{large}"))
                times.append(asyncio.run(measure(url, small=chosen.orgs, each=chosen.jobs, large=large)))
    ratio = statistics.median(beside) / statistics.median(alone)
    verdict = "ok" if ratio <= CEILING else f"above {CEILING:g}"
    print(f"{chosen.orgs} orgs of {chosen.jobs} jobs beside one of {chosen.large} / alone: {ratio:.2f} ({verdict})")
    print(f"load before: {before:.1f}, {os.cpu_count()} cores, median of {chosen.repeat}")


async def work(url: str) -> None:
    """Run the worker: the main of its process."""
    async with Windlass(url, settings=Settings()) as app:

        @app.job("bench.noop.v1")
        async def noop() -> None: ...

        await app.work(WorkerOptions(grace=timedelta(seconds=1)))


async def measure(url: str, *, small: int, each: int, large: int) -> float:
    """Submit the jobs, those of the large org first; return the seconds that the jobs of the small orgs took."""
    async with Windlass(url, settings=Settings(notify=False)) as app:
        db = await app.open()
        queues = {LARGE: large} | {f"small-{n}": each for n in range(small)}
        for org, count in queues.items():
            await orgs.create(db, org)
            for first in range(0, count, BULK):
                specs = [app.spec("bench.noop.v1")] * min(BULK, count - first)
                await jobs.submit(db.tenant(org), specs)
    conn = await asyncpg.connect(url)
    await conn.execute("vacuum analyze")
    worker = subprocess.Popen([sys.executable, "-m", "bench.fairness", "--work", url])
    try:
        while await conn.fetchval(LEFT, LARGE):
            await asyncio.sleep(0.05)
        took: float = await conn.fetchval(TOOK, LARGE)
    finally:
        worker.terminate()
        worker.wait()
        await conn.close()
    return took


if __name__ == "__main__":
    main()
