"""`python -m bench.scale` measures a database with a long history every minute, under the load of ten worker processes.

It has 20 million ended jobs, 100,000 live runs, 10,000 held leases and 1,000 lanes; `--history 1000000 --minutes 3
--warm-up 1 --interval 15` is a quick trial. The verdict is whether the figures stayed flat after the warm-up. The exit
code is 1 if a process failed or the disk is too small, not if a figure drifted.
"""

import argparse
import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench import machine
from bench.contestants.http import started
from bench.contestants.stage import Turn
from bench.environment import ROOT
from bench.scale import shape
from bench.scale.shape import LANES, STEPS, WORKFLOW, Shape
from bench.scale.trend import FLAT, Minute, percentile, trends
from bench.server import NoSpace, Server, own_server
from windlass import Windlass
from windlass.engine.runs.start import RunSpec
from windlass.settings import Settings

# Checkpoints run as in production; `max_connections` suffices for twelve processes.
SETTINGS = {"max_wal_size": "8GB", "max_connections": "300"}
WAL = 8 * 2**30  # the maximum, by `max_wal_size`
PAST_BYTES, PAST_WAL = 800, 1500  # disk space for each ended job that is inserted
MINUTE_BYTES, MINUTE_WAL = 400_000_000, 1_000_000_000  # disk space for each minute of load, on two cores
BACKLOG = 20_000  # maximum of pending jobs; a tenth as many runs
ROUND = 1000  # jobs per submission, together with a tenth as many runs
STATE = """
select pg_current_wal_lsn() - '0/0'::pg_lsn as wal, sum(n_dead_tup)::bigint as dead,
       sum(total_autovacuum_time)::float8 / 1000 as autovacuum
  from pg_stat_all_tables
"""


class ProcessFailed(Exception):
    """A process of the trial ended early."""


@dataclass
class Totals:
    """The reported counts of all processes, since the last interval and since the start."""

    jobs: int = 0
    steps: int = 0
    claims: list[float] = field(default_factory=list)
    pages: list[float] = field(default_factory=list)
    jobs_ended: int = 0
    steps_ended: int = 0

    def add(self, role: str, report: dict[str, Any]) -> None:
        if role == "work":
            self.jobs += report["jobs"]
            self.steps += report["steps"]
            self.jobs_ended += report["jobs"]
            self.steps_ended += report["steps"]
            self.claims += report["milliseconds"]
        elif role == "look":
            self.pages += report["milliseconds"]

    def next(self) -> None:
        self.jobs = self.steps = 0
        self.claims, self.pages = [], []


class Trial:
    def __init__(self, url: str, args: argparse.Namespace) -> None:
        self._url, self._args = url, args
        self._app = Windlass(url, settings=Settings())
        self._totals = Totals()
        self.minutes: list[Minute] = []

    async def run(self, server: Server) -> None:
        args = self._args
        contents = Shape(history=args.history, live=args.live, held=args.held)
        async with self._app as app:
            began = time.monotonic()
            await asyncio.wait_for(shape.build(app, self._url, contents), args.fill_limit * 60)
            await server.settle(self._url)
            _log(f"built in {time.monotonic() - began:.0f} s: {await shape.census(app)}")
            async with contextlib.AsyncExitStack() as stack:
                tasks = [await self._start(stack, "hold", "--url", self._url, "--held", str(args.held))]
                await asyncio.wait_for(shape.until_held(app, args.held), args.fill_limit * 60)
                await self._examine()
                turn = Turn(url=self._url, count=0, settings={})
                port, _ = await stack.enter_async_context(started("bench.contestants.windlass_http", turn))
                tasks += [await self._start(stack, "look", "--port", str(port))]
                tasks += [await self._start(stack, "work", "--url", self._url) for _ in range(args.workers)]
                await self._watch([*tasks, asyncio.create_task(self._feed())])
                await self._examine()
                _log(f"at the end: {await shape.census(app)}")

    async def _examine(self) -> None:
        for line in await shape.problems(self._app) or ["nothing to report"]:
            _log(f"doctor: {line}")

    async def _watch(self, tasks: Sequence["asyncio.Task[None]"]) -> None:
        """Print a row per interval until the trial is over; raise if a process ends early."""
        watching = asyncio.create_task(self._rows())
        try:
            await asyncio.wait([watching, *tasks], return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    task.result()
                    raise ProcessFailed("a process ended early")
            await watching
        finally:
            for task in (watching, *tasks):
                task.cancel()
            await asyncio.gather(watching, *tasks, return_exceptions=True)

    async def _rows(self) -> None:
        columns = ("drain/s", "chains/s", "claim p99", "list p99", "WAL/job", "dead", "autovacuum s")
        print(f"{'':>7}" + "".join(f"{name:>14}" for name in columns), flush=True)
        db, interval = await self._app.open(), self._args.interval
        while not self._totals.jobs_ended:  # until the processes have started
            await asyncio.sleep(0.1)
        self._totals.next()
        before, began = await db.pool.fetchrow(STATE), time.monotonic()
        for number in range(1, max(1, round(self._args.minutes * 60 / interval)) + 1):
            await asyncio.sleep(began + interval * number - time.monotonic())
            after, totals = await db.pool.fetchrow(STATE), self._totals
            assert before is not None
            assert after is not None
            minute = Minute(
                drain=totals.jobs / interval,
                chains=totals.steps / STEPS / interval,
                claim_p99=percentile(totals.claims, 0.99),
                list_p99=percentile(totals.pages, 0.99),
                wal_per_job=float(after["wal"] - before["wal"]) / max(1, totals.jobs + totals.steps),
                dead=after["dead"],
                autovacuum=after["autovacuum"] - before["autovacuum"],
            )
            totals.next()
            before = after
            self.minutes.append(minute)
            numbers = f"{minute.drain:14,.0f}{minute.chains:14,.0f}{minute.claim_p99:14.1f}{minute.list_p99:14.1f}"
            rest = f"{minute.wal_per_job:14,.0f}{minute.dead:14,}{minute.autovacuum:14.1f}"
            print(f"{number * interval / 60:7.2f}{numbers}{rest}", flush=True)

    async def _feed(self) -> None:
        """Keep a backlog of jobs and a tenth as many runs; the jobs are spread over all lanes."""
        jobs = runs = position = 0
        while True:
            if jobs - self._totals.jobs_ended > BACKLOG or runs - self._totals.steps_ended // STEPS > BACKLOG // 10:
                await asyncio.sleep(0.05)
                continue
            lanes = [LANES[(position + n) % len(LANES)] for n in range(ROUND)]
            await self._app.submit_many([self._app.spec(type_, queue=queue) for queue, type_ in lanes])
            await self._app.start_many(WORKFLOW, [RunSpec()] * (ROUND // 10))
            jobs, runs, position = jobs + ROUND, runs + ROUND // 10, position + ROUND

    async def _start(self, stack: contextlib.AsyncExitStack, role: str, *arguments: str) -> "asyncio.Task[None]":
        process = await stack.enter_async_context(_process(role, *arguments))
        return asyncio.create_task(self._follow(role, process))

    async def _follow(self, role: str, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        while line := await process.stdout.readline():
            self._totals.add(role, json.loads(line))
        raise ProcessFailed(f"{role} exited with {await process.wait()}")


@contextlib.asynccontextmanager
async def _process(role: str, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    pipe = asyncio.subprocess.PIPE
    command = (sys.executable, "-m", "bench.scale.roles", role, *arguments)
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdin=pipe, stdout=pipe, limit=2**24)
    try:
        yield process
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            await asyncio.wait_for(process.communicate(), 60)
        except TimeoutError:
            process.kill()
            await process.wait()


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # so that the server is stopped on the way out
    args = _arguments().parse_args()
    others = asyncio.run(machine.others())
    with own_server(SETTINGS) as server:
        try:
            server.ensure_space(disk(args.history, args.minutes))
            trial = asyncio.run(_trial(server, args))
        except (NoSpace, ProcessFailed) as error:
            print(error, file=sys.stderr)
            return 1
    print(verdict(trial.minutes, round(args.warm_up * 60 / args.interval)))
    print(f"{os.cpu_count()} cores, of which other processes used {others:.2f} before the start")
    return 0


async def _trial(server: Server, args: argparse.Namespace) -> Trial:
    print(f"Postgres {await server.version()}")
    trial = Trial(await server.fresh("scale"), args)
    await trial.run(server)
    return trial


def disk(history: int, minutes: float) -> int:
    """Return the disk space in bytes that the trial needs."""
    wal = history * PAST_WAL + minutes * MINUTE_WAL
    return int(history * PAST_BYTES + minutes * MINUTE_BYTES + min(wal, WAL))


def verdict(minutes: Sequence[Minute], warm_up: int) -> str:
    rows = trends(minutes, warm_up)
    if not rows:
        return "no verdict: fewer than three intervals after the warm-up"
    lines = [f"  {one.name:<12} {one.middle:12,.1f}  drift {one.drift:+.0%}  {one.verdict}" for one in rows]
    return "\n".join([f"after the warm-up: median and change, positive if worse (flat: at most {FLAT:.0%})", *lines])


def _log(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__)
    parser.add_argument("--history", type=int, default=Shape.history, help="ended jobs (20000000)")
    parser.add_argument("--live", type=int, default=Shape.live, help="live runs that sleep (100000)")
    parser.add_argument("--held", type=int, default=Shape.held, help="leases held by a worker (10000)")
    parser.add_argument("--workers", type=int, default=10, help="worker processes (10)")
    parser.add_argument("--minutes", type=float, default=30, help="duration of the load (30)")
    parser.add_argument("--warm-up", type=float, default=5, help="first minutes, which the verdict leaves out (5)")
    parser.add_argument("--interval", type=float, default=60, help="seconds between two rows (60)")
    parser.add_argument("--fill-limit", type=float, default=180, help="maximum minutes to fill the database (180)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
