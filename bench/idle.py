"""Measures the cost of idle processes and of jobs that wait. Run `python -m bench.idle`.

Each of `windlass server`, `worker` and `up` runs alone on a fresh database of an embedded Postgres that logs every
statement. After `--settle` seconds it measures the process for `--seconds` by the log, /proc and pg_stat_activity:
transactions by statement, CPU time, wake-ups, memory and connections. Then one worker runs 400 coroutines that wait,
another one 400 threads that wait.
"""

import argparse
import asyncio
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from windlass import Windlass
from windlass.core.jobs.spec import JobSpec
from windlass.effects.context import Context
from windlass.embedded.server import Embedded, EmbeddedOptions
from windlass.settings import Settings
from windlass.store.postgres.queries import load, nouns
from windlass.store.workers import ALL_PENDING

MOST_TRANSACTIONS, MOST_CPU = 4.0, 0.5  # per second; percent of a core
WAITING = 400
KINDS = ("coroutine", "thread")
COMMANDS = {
    "server": ("server", "--port", "0"),
    "worker": ("worker", "bench.idle:app", "--concurrency", str(WAITING), "--grace", "0s"),
    "up": ("up", "bench.idle:app", "--port", "0"),
}
SETTINGS = {
    "log_statement": "all",
    "log_line_prefix": "@%p %a@ ",
    "log_min_messages": "log",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "1h",
}
NAMES = {" ".join(query.sql.split()): f"{noun}.{name}" for noun in nouns() for name, query in load(noun).items()}
NAMES |= {" ".join(ALL_PENDING.split()): "pending work of all loops", "": "check of the connection"}
APPLICATION = "windlass-bench-idle"
MARK = f"application_name={APPLICATION}"
_ENTRY = re.compile(rf"^@(\d+) {APPLICATION}@ LOG:  (?:statement|execute [^:]*): ")

app = Windlass()  # app of the workers


@app.job("idle.coroutine.v1")
async def wait_in_coroutine(_ctx: Context) -> None:
    await asyncio.Event().wait()


@app.job("idle.thread.v1")
def wait_in_thread(ctx: Context) -> None:
    ctx.wait_cancelled(3600)


class Account(NamedTuple):
    """The resource usage of a process according to the kernel."""

    cpu: float  # seconds
    wakeups: int
    memory: int  # bytes

    @classmethod
    def of(cls, pid: int) -> "Account":
        process = Path(f"/proc/{pid}")
        threads = list((process / "task").iterdir())
        return cls(
            cpu=sum(_cpu(thread) for thread in threads),
            wakeups=sum(_status(thread, "voluntary_ctxt_switches") for thread in threads),
            memory=_status(process, "VmRSS") * 1024,
        )


class Idle(NamedTuple):
    """The activity of an idle process during a measurement."""

    name: str
    seconds: float
    transactions: Counter[str]  # by the names of their statements
    committed: int  # as counted by Postgres
    cpu: float  # seconds
    database_cpu: float  # CPU seconds of its sessions in Postgres
    wakeups: int
    memory: int
    connections: int


class Waiting(NamedTuple):
    """The resource usage of a worker that runs WAITING jobs."""

    kind: str
    memory: int
    connections: int


def main() -> None:
    options = argparse.ArgumentParser(prog="bench.idle", description=__doc__)
    options.add_argument("--seconds", type=float, default=60, help="length of each measurement")
    options.add_argument("--settle", type=float, default=20, help="seconds before each measurement")
    options.add_argument("--only", choices=(*COMMANDS, *KINDS), action="append")
    chosen = options.parse_args()
    before = os.getloadavg()[0]
    idle, waiting = [], []
    with own_server() as (url, log):
        for name in chosen.only or (*COMMANDS, *KINDS):
            if name in COMMANDS:
                idle.append(asyncio.run(measure(name, url, log, seconds=chosen.seconds, settle=chosen.settle)))
            else:
                waiting.append(asyncio.run(measure_waiting(name, url)))
    print(f"{os.cpu_count()} CPUs, load {before:.1f} before and {os.getloadavg()[0]:.1f} after")
    show(idle, waiting)


@contextmanager
def own_server() -> Iterator[tuple[str, Path]]:
    with tempfile.TemporaryDirectory(prefix="windlass-bench-", ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        home.chmod(0o711)  # as root, the server runs as another user, who must be able to enter
        with Embedded.start(EmbeddedOptions(home=home, settings=SETTINGS)) as server:
            yield server.url, home / "postgres" / "server.log"


async def measure(name: str, server: str, log: Path, *, seconds: float, settle: float) -> Idle:
    async with database(server, name) as (own, url):
        with process(COMMANDS[name], url) as pid:
            await asyncio.sleep(settle)
            sessions = await _sessions(own)
            at, committed = log.stat().st_size, await _committed(own)
            began, first, in_database = time.monotonic(), Account.of(pid), sum(map(_cpu, sessions))
            await asyncio.sleep(seconds)
            passed, last, in_database = (
                time.monotonic() - began,
                Account.of(pid),
                sum(map(_cpu, sessions)) - in_database,
            )
            # Postgres counts transactions up to a second late, and includes those of `own`.
            committed, counted = await _committed(own) - committed, transactions(_lines(log, at))
            return Idle(
                *(name, passed, counted, committed, last.cpu - first.cpu, in_database),
                *(last.wakeups - first.wakeups, last.memory, len(await _sessions(own))),
            )


async def measure_waiting(kind: str, server: str) -> Waiting:
    async with database(server, kind) as (own, url), Windlass(_own(url), settings=Settings()) as client:
        with process(COMMANDS["worker"], url) as pid:
            await client.submit_many([JobSpec(type=f"idle.{kind}.v1")] * WAITING)
            async with asyncio.timeout(60):
                while (
                    await own.fetchval("select count(*) from workflow.workflow_run where status = 'leased'") < WAITING
                ):
                    await asyncio.sleep(0.2)
            await asyncio.sleep(5)
            return Waiting(kind, Account.of(pid).memory, len(await _sessions(own)))


@asynccontextmanager
async def database(server: str, name: str) -> AsyncIterator[tuple["asyncpg.Connection[Any]", str]]:
    """Yield a connection to a new database, and its URL for the process that is measured."""
    url = urlunsplit(urlsplit(server)._replace(path=f"/idle_{name}"))
    first = await asyncpg.connect(server)
    await first.execute(f"create database idle_{name}")
    await first.close()
    own = await asyncpg.connect(url)
    try:
        yield own, f"{url}{'&' if '?' in url else '?'}{MARK}"
    finally:
        await own.close()


@contextmanager
def process(command: Sequence[str], url: str) -> Iterator[int]:
    environment = {**os.environ, "WINDLASS_DATABASE_URL": url, "WINDLASS_LOG_LEVEL": "WARNING"}
    command = [sys.executable, "-m", "windlass", *command]
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as started:
        try:
            yield started.pid
            if started.poll() is not None:
                raise RuntimeError(f"{' '.join(command)} ended with code {started.returncode}")
        finally:
            started.terminate()
            with suppress(subprocess.TimeoutExpired):
                started.wait(30)
            started.kill()


def transactions(lines: Iterable[tuple[int, str]]) -> Counter[str]:
    """Count transactions by the names of their statements. `lines` are pairs of session and statement."""
    ended: Counter[str] = Counter()
    open_: dict[int, list[str]] = {}
    for session, text in lines:
        command = text.partition(";")[0].lower()
        if command in ("commit", "rollback"):
            ended[" + ".join(open_.pop(session, ["?"]))] += 1
        elif command == "begin":
            open_[session] = []
        elif session in open_:
            open_[session].append(NAMES.get(text, text[:60]))
        else:
            ended[NAMES.get(text, text[:60])] += 1
    return ended


def _lines(log: Path, at: int) -> Iterator[tuple[int, str]]:
    """Yield the session and the statement of each log entry of the measured process from the offset `at` on."""
    with log.open("rb") as file:
        file.seek(at)
        text = file.read().decode()
    for entry in re.split(r"^(?=@)", text, flags=re.MULTILINE):
        if match := _ENTRY.match(entry):
            yield int(match[1]), " ".join(entry[match.end() :].split())


def _own(url: str) -> str:
    """Return the URL for connections that are not measured."""
    return url.removesuffix(MARK).rstrip("?&")


async def _sessions(own: "asyncpg.Connection[Any]") -> list[Path]:
    rows = await own.fetch("select pid from pg_stat_activity where application_name = $1", APPLICATION)
    return [Path(f"/proc/{row[0]}") for row in rows]


async def _committed(own: "asyncpg.Connection[Any]") -> int:
    count: int = await own.fetchval("select xact_commit from pg_stat_database where datname = current_database()")
    return count


def _cpu(thread: Path) -> float:
    """Return the CPU seconds of a thread, or of a process with one thread."""
    return int((thread / "schedstat").read_text().split()[0]) / 1e9 if thread.exists() else 0.0


def _status(process: Path, name: str) -> int:
    text = (process / "status").read_text()
    return int(text.partition(f"\n{name}:")[2].split()[0])


def show(idle: Sequence[Idle], waiting: Sequence[Waiting]) -> None:
    for each in idle:
        print(f"\n{each.name}: transactions per second, by statement")
        for names, count in each.transactions.most_common():
            print(f"{count / each.seconds:8.2f}  {names}")
    if idle:
        titles = f"{'tx/s':>6} {'counted':>9} {'CPU %':>7} {'of Postgres':>12} {'wakeups/s':>10} {'MB':>6}"
        print(f"\n{'idle':10} {titles} {'connections':>12}")
    for each in idle:
        rate, share = each.transactions.total() / each.seconds, 100 * each.cpu / each.seconds
        met = "met" if rate <= MOST_TRANSACTIONS and share < MOST_CPU else "MISSED"
        print(
            f"{each.name:10} {rate:6.2f} {each.committed / each.seconds:9.2f} {share:7.2f} "
            f"{100 * each.database_cpu / each.seconds:12.2f} {each.wakeups / each.seconds:10.1f} "
            f"{each.memory / 1e6:6.0f} {each.connections:12} {met}"
        )
    if waiting:
        print(f"\n{f'{WAITING} jobs as':14} {'MB':>6} {'connections':>12}")
    for held in waiting:
        print(f"{held.kind:14} {held.memory / 1e6:6.0f} {held.connections:12}")


if __name__ == "__main__":
    main()
