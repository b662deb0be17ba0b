"""Measures workers over HTTP: no-op jobs, fetched and acknowledged in batches. Run `python -m bench.remote`.

It starts a server process on an embedded Postgres and runs a client with a few connections, each a worker. The CPU time
of the server process per job is printed beside the rate, because it hardly depends on the load of the machine.
`--profile` also prints a profile of the server.
"""

import argparse
import asyncio
import cProfile
import json
import os
import pstats
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from bench.ojs import BULK, JOB, Client, serve
from bench.server import own_server
from windlass import Windlass
from windlass.cli.process import run
from windlass.core.jobs.spec import JobSpec
from windlass.settings import Settings

BATCHES = (50, 200, 500)
GOAL, GOAL_BATCH = 5_000, 200  # jobs per second, in batches of this size
TICKS = os.sysconf("SC_CLK_TCK")


class Measured(NamedTuple):
    batch: int
    rate: float  # jobs per second
    cpu: float  # seconds of the server process per job


class Server(NamedTuple):
    pid: int
    port: int


def main() -> None:
    options = argparse.ArgumentParser(prog="bench.remote", description=__doc__)
    options.add_argument("--jobs", type=int, default=20_000, help="jobs for each batch size")
    options.add_argument("--workers", type=int, default=4)
    options.add_argument("--profile", action="store_true")
    options.add_argument("--serve", metavar="URL", help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.serve:
        _serve(chosen.serve, profiled=chosen.profile)
        return
    before = os.getloadavg()[0]
    with own_server() as postgres:
        url = asyncio.run(postgres.fresh("remote"))
        measured = asyncio.run(measure(url, jobs=chosen.jobs, workers=chosen.workers, profiled=chosen.profile))
    show(measured, before)


def _serve(url: str, *, profiled: bool) -> None:
    if not profiled:
        run(serve(url))
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    profile = cProfile.Profile()
    profile.enable()
    try:
        run(serve(url))
    finally:
        profile.disable()
        pstats.Stats(profile, stream=sys.stderr).sort_stats("tottime").print_stats(45)


async def measure(url: str, *, jobs: int, workers: int, profiled: bool) -> list[Measured]:
    measured = []
    async with Windlass(url, settings=Settings()) as app:
        with server(url, profiled=profiled) as process:
            clients = [await Client.open(process.port) for _ in range(workers)]
            for batch in BATCHES:
                for _ in range(jobs // BULK):
                    await app.submit_many([JobSpec(type=JOB["type"], payload=JOB["args"])] * BULK)
                began, used = time.perf_counter(), cpu(process.pid)
                done = sum(await asyncio.gather(*(work(each, f"w{n}", batch) for n, each in enumerate(clients))))
                seconds, busy = time.perf_counter() - began, cpu(process.pid) - used
                assert done == jobs // BULK * BULK, done
                measured.append(Measured(batch, done / seconds, busy / done))
            for client in clients:
                client.close()
    return measured


async def work(client: Client, worker: str, batch: int) -> int:
    """Fetch and acknowledge until there is nothing left; return the number of jobs."""
    fetch = json.dumps({"queues": ["default"], "count": batch, "worker_id": worker}).encode()
    done = 0
    while jobs := json.loads(await client.post("/workers/fetch", fetch))["jobs"]:
        entries = [{"job_id": job["id"], "fence": job["fence"], "result": {"ok": True}} for job in jobs]
        body = json.dumps({"worker_id": worker, "jobs": entries}).encode()
        results = json.loads(await client.post("/workers/ack", body))["results"]
        assert all(result["state"] == "completed" for result in results)
        done += len(jobs)
    return done


def cpu(pid: int) -> float:
    """Return the CPU seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


@contextmanager
def server(url: str, *, profiled: bool) -> Iterator[Server]:
    command = [sys.executable, "-m", "bench.remote", "--serve", url, *(["--profile"] if profiled else [])]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield Server(process.pid, int(process.stdout.readline()))
    finally:
        process.terminate()
        process.wait()


def show(measured: list[Measured], load_before: float) -> None:
    print(f"{os.cpu_count()} CPUs, load {load_before:.1f} before and {os.getloadavg()[0]:.1f} after")
    for row in measured:
        print(
            f"fetch {row.batch}, ack {row.batch}: {row.rate:9,.0f} jobs/s, {row.cpu * 1e6:6.0f} us of the server each"
        )
    rate = next(row.rate for row in measured if row.batch == GOAL_BATCH)
    print(f"the goal is {GOAL:,} jobs/s in batches of {GOAL_BATCH}: {'met' if rate >= GOAL else 'MISSED'}")


if __name__ == "__main__":
    main()
