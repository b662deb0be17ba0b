"""Measures the heartbeats of a worker that holds many jobs. Run `python -m bench.leases`.

It runs the heartbeat of a worker on an embedded Postgres, with one lease for the process (`process`) and with one for
each job (`job`, as pools have them), and measures seconds, WAL and rows of the event trail, of a tick that extends the
leases and of one that only checks them.
"""

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench.timers import SETTINGS
from windlass import Windlass
from windlass.core.jobs.job import Fence
from windlass.embedded.server import Embedded, EmbeddedOptions
from windlass.engine.database import Database
from windlass.engine.workers import turn
from windlass.runtime.worker.heartbeat import Heartbeat, Leases, Registration
from windlass.settings import Settings

LEASE = timedelta(minutes=10)
BATCH = 1000
WAL = "select pg_current_wal_insert_lsn() - '0/0'::pg_lsn"
EVENTS = "select count(*) from workflow.workflow_event"


class Round(NamedTuple):
    seconds: float
    wal: int  # bytes
    events: int  # rows


def main() -> None:
    options = argparse.ArgumentParser(prog="bench.leases", description=__doc__)
    options.add_argument("--jobs", type=int, default=10_000, help="jobs that the worker holds")
    options.add_argument("--rounds", type=int, default=5)
    chosen = options.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="windlass-bench-") as folder:
        Path(folder).chmod(0o755)  # as root, the server runs as another user, who must be able to enter
        with Embedded.start(EmbeddedOptions(home=Path(folder), settings=SETTINGS)) as server:
            rounds = asyncio.run(measure(server.url, jobs=chosen.jobs, rounds=chosen.rounds))
    show(rounds, chosen.jobs, load)


async def measure(url: str, *, jobs: int, rounds: int) -> dict[str, list[Round]]:
    measured: dict[str, list[Round]] = {}
    async with Windlass(url, settings=Settings()) as app:
        db = await app.open()
        for name in ("process", "job"):
            registration = Registration(name, lease=LEASE, is_handed_over=name == "job")
            await registration.register(db, queues=["default"], types=["bench.held.v1"], concurrency=jobs)
            leases = Leases()
            leases.add(await claim(app, registration, jobs))
            await db.pool.execute("vacuum analyze")
            heartbeat = Heartbeat(db, leases, registration, learn=_nothing_lost, obey=lambda directive: None)
            await heartbeat.tick()  # opens the connection
            extending, checking = measured.setdefault(f"{name}: extend", []), measured.setdefault(f"{name}: check", [])
            for _ in range(rounds):
                heartbeat._extend_at = float("-inf")
                extending.append(await timed(db, heartbeat))
                checking.append(await timed(db, heartbeat))
            await heartbeat._disconnect()
    return measured


async def claim(app: Windlass, registration: Registration, count: int) -> list[Fence]:
    """Submit jobs and claim them for the worker, without running them."""
    db, fences = await app.open(), list[Fence]()
    while len(fences) < count:
        few = min(BATCH, count - len(fences))
        await app.submit_many([app.spec("bench.held.v1")] * few)
        lanes = [(replace(lane, seq=lane.seq - 1), few) for lane in await turn.look(db, ["default"])]
        request = turn.Turn(
            worker=registration.worker, lease=LEASE, worker_lease=registration.lease_id, lanes=lanes, count=few
        )
        fences += [job.fence for job in (await turn.turn(db, request))[0]]
    return fences


async def timed(db: Database, heartbeat: Heartbeat) -> Round:
    wal, events = await db.pool.fetchval(WAL), await db.pool.fetchval(EVENTS)
    started = time.perf_counter()
    await heartbeat.tick()
    seconds = time.perf_counter() - started
    return Round(seconds, int(await db.pool.fetchval(WAL) - wal), await db.pool.fetchval(EVENTS) - events)


def _nothing_lost(lost: Sequence[Fence], cancelled: Sequence[Fence]) -> None:
    raise AssertionError(f"{len(lost)} leases were lost")


def show(measured: dict[str, list[Round]], jobs: int, load: float) -> None:
    print(f"{os.cpu_count()} CPUs, load {load:.1f} before and {os.getloadavg()[0]:.1f} after; {jobs} jobs, medians")
    print(f"{'lease of the':16} {'ms':>8} {'WAL bytes':>11} {'events':>7}")
    for name, rounds in measured.items():
        seconds, wal, events = (median(column) for column in zip(*rounds, strict=True))
        print(f"{name:16} {seconds * 1000:8.1f} {wal:11.0f} {events:7.0f}")


if __name__ == "__main__":
    main()
