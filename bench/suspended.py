"""Measures the cost of suspended handlers and how fast they resume. Run `python -m bench.suspended`.

It starts a worker process on an embedded Postgres and measures:

* resume: from the claim of a job whose handler has 1,000 recorded steps to the commit of its success
* crowd: from the end of a sleep to the commit of the success, for 10,000 handlers whose sleeps end within one second
* asleep: CPU time and memory of the idle worker and transactions of the Postgres server, without and with 100,000
  suspended handlers
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from bench.timers import AHEAD, SETTINGS, SPREAD, at
from windlass import Context, Windlass, WorkerOptions
from windlass.cli.process import run
from windlass.embedded.server import Embedded, EmbeddedOptions
from windlass.settings import Settings

FLOORS = {"resume": 50.0, "crowd": 500.0}  # ms, p99
STEPS = 1000
BATCH = 5000
IDLE = 10.0  # seconds
COMMITTED = """
select extract(epoch from pg_xact_commit_timestamp(j.xmin) - w.at) * 1000
  from unnest($1::uuid[], $2::timestamptz[]) as w(id, at) join workflow.workflow_run j on j.id = w.id
 where j.status = 'succeeded'"""
CLAIMED = """
select distinct on (workflow_id) workflow_id, created_at from workflow.workflow_event
 where workflow_id = any($1) and event_type = 'leased' order by workflow_id, created_at desc"""
WAKE = """
with start as materialized (select clock_timestamp() + $2::interval as at),
due as materialized (
  select id, (select at from start) + random() * $3::interval as at from unnest($1::uuid[]) as w(id)),
ended as (update windlass.checkpoint c set until = due.at from due where c.job_id = due.id and c.kind = 'sleep')
update workflow.workflow_run j set run_at = due.at from due where j.id = due.id returning j.id, j.run_at"""
ASLEEP = """
with job as (
  insert into workflow.workflow_run (type, payload, queue, run_at, claim_no, needs_created_event)
  select 'bench.nap.v1', '{}', 'default', 'infinity', 1, false from generate_series(1, $1) returning id),
call as (
  insert into windlass.checkpoint (job_id, name, kind, state, waits, input)
  select id, 'wait_for x', 'wait', 'null', true, '' from job)
insert into windlass.waiter (org, name, key, is_signal, job_id, place, since, state)
select 'default', 'x', id::text, true, id, 'wait_for x', windlass.now(), 'open' from job"""


class Idle(NamedTuple):
    """The resource usage of an idle worker in IDLE seconds."""

    cpu: float  # seconds
    memory: float  # MB
    transactions: int


def main() -> None:
    options = argparse.ArgumentParser(prog="bench.suspended", description=__doc__)
    options.add_argument("--samples", type=int, default=20, help="handlers with recorded steps")
    options.add_argument("--crowd", type=int, default=10_000, help="handlers that wake within one second")
    options.add_argument("--asleep", type=int, default=100_000, help="handlers that wait")
    options.add_argument("--work", metavar="URL", help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.work:
        run(work(chosen.work))
        return
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="windlass-bench-") as folder:
        Path(folder).chmod(0o755)  # as root, the server runs as another user, who must be able to enter
        with Embedded.start(EmbeddedOptions(home=Path(folder), settings=SETTINGS)) as server:
            late, idle = asyncio.run(
                measure(server.url, samples=chosen.samples, crowd=chosen.crowd, asleep=chosen.asleep)
            )
    show(late, idle, load)


async def work(url: str) -> None:
    """Run the worker: the main of its process."""
    async with Windlass(url, settings=Settings()) as app:

        @app.job("bench.nap.v1")
        async def nap(ctx: Context) -> None:
            await ctx.sleep("1h")

        @app.job("bench.steps.v1")
        async def steps(ctx: Context) -> int:
            for _ in range(STEPS):
                await ctx.step("count", _nothing)
            await ctx.sleep("1h")
            return STEPS

        await app.work(WorkerOptions(concurrency=400, grace=timedelta(seconds=1)))


async def _nothing() -> None:
    pass


async def measure(url: str, *, samples: int, crowd: int, asleep: int) -> tuple[dict[str, list[float]], dict[str, Idle]]:
    async with Windlass(url, settings=Settings()) as app:
        db = await app.open()
        with worker(url) as pid:
            jobs = await suspended(app, "bench.steps.v1", samples)
            woken = await db.pool.fetch(WAKE, jobs, timedelta(), timedelta(seconds=samples))  # about one per second
            await ended(db.pool, "bench.steps.v1")
            claimed = await db.pool.fetch(CLAIMED, [row[0] for row in woken])
            late = {"resume": await since(db.pool, claimed)}
            jobs = await suspended(app, "bench.nap.v1", crowd)
            await db.pool.execute("vacuum analyze")
            woken = await db.pool.fetch(WAKE, jobs, AHEAD, SPREAD)
            await ended(db.pool, "bench.nap.v1")
            late["crowd"] = await since(db.pool, woken)
            idle = {"none": await watch(db.pool, pid)}
            for done in range(0, asleep, BATCH):
                await db.pool.execute(ASLEEP, min(BATCH, asleep - done))
            await db.pool.execute("vacuum analyze")
            idle[f"{asleep}"] = await watch(db.pool, pid)
            return late, idle


async def suspended(app: Windlass, type_: str, count: int) -> list[UUID]:
    """Submit jobs and wait until the handlers of all of them sleep."""
    db, ids = await app.open(), list[UUID]()
    while len(ids) < count:
        ids += await app.submit_many([app.spec(type_)] * min(BATCH, count - len(ids)))
    asleep = "select count(*) from workflow.workflow_run where type = $1 and status = 'pending' and not due"
    async with asyncio.timeout(600):
        while await db.pool.fetchval(asleep, type_) < count:
            await asyncio.sleep(0.25)
    return ids


async def ended(pool: Any, type_: str) -> None:
    live = "select exists (select from workflow.workflow_run where type = $1 and status in ('pending', 'leased'))"
    async with asyncio.timeout(600):
        while await pool.fetchval(live, type_):
            await asyncio.sleep(0.25)


async def since(pool: Any, rows: list[Any]) -> list[float]:
    """Return the milliseconds from a time of each job (rows of id and time) to the commit of its success."""
    return [float(row[0]) for row in await pool.fetch(COMMITTED, [row[0] for row in rows], [row[1] for row in rows])]


async def watch(pool: Any, pid: int) -> Idle:
    """Measure the idle worker for IDLE seconds."""
    await asyncio.sleep(2)
    cpu, transactions = _cpu(pid), await pool.fetchval("select sum(xact_commit) from pg_stat_database")
    await asyncio.sleep(IDLE)
    after = await pool.fetchval("select sum(xact_commit) from pg_stat_database")
    return Idle(_cpu(pid) - cpu, _memory(pid), int(after - transactions))


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _memory(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


@contextmanager
def worker(url: str) -> Iterator[int]:
    process = subprocess.Popen([sys.executable, "-m", "bench.suspended", "--work", url])
    try:
        yield process.pid
    finally:
        process.terminate()
        process.wait()


def show(late: dict[str, list[float]], idle: dict[str, Idle], load: float) -> None:
    print(f"{os.cpu_count()} CPUs, load {load:.1f} before and {os.getloadavg()[0]:.1f} after")
    print(f"{'':8} {'count':>7} {'p50 ms':>9} {'p99 ms':>9} {'max ms':>9} {'floor p99':>10}")
    for name, times in late.items():
        met = "met" if at(times, 0.99) < FLOORS[name] else "MISSED"
        numbers = f"{at(times, 0.5):9.1f} {at(times, 0.99):9.1f} {max(times):9.1f}"
        print(f"{name:8} {len(times):7} {numbers} {FLOORS[name]:10.0f} {met}")
    print(f"\n{'asleep':8} {'CPU s':>7} {'MB':>9} {'transactions':>13}   of the idle worker in {IDLE:g} s")
    for count, usage in idle.items():
        print(f"{count:8} {usage.cpu:7.2f} {usage.memory:9.1f} {usage.transactions:13}")


if __name__ == "__main__":
    main()
