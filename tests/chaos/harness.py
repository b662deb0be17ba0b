"""Real processes to kill, freeze and restart, and waits for conditions.

`Crew` starts workers (`windlass worker` with workload.py or another app) and engines (`windlass up`) on a database and
kills all of them at the end; `Inbox` is a plain client that reads the tables.
Nothing here waits for a fixed time: every wait is for a condition, with a deadline.
"""

import asyncio
import os
import random
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Self, TypeVar

import asyncpg

from tests import fork_server
from tests.fork_server import ForkedProcess
from tests.keys import KEYS, MASTER_KEY
from windlass import Windlass
from windlass.settings import Settings

ROOT = Path(__file__).parents[2]
WORKLOAD = "tests.chaos.workload:app"
EFFECTS = """create table if not exists effects (
  id bigint generated always as identity, job_id uuid not null, attempt int not null, fence int not null,
  worker text not null, at timestamptz not null default clock_timestamp())"""

T = TypeVar("T")


async def eventually(condition: Callable[[], Awaitable[T]], what: str, *, within: float = 30, every: float = 0.05) -> T:
    """Poll a condition until its result is true; return the result."""
    deadline = time.monotonic() + within
    while not (answer := await condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"timed out after {within} s: waited until {what}")
        await asyncio.sleep(every)
    return answer


@contextmanager
def dice(seed: int | None = None) -> Iterator[random.Random]:
    """Yield a reproducible random generator: a failure notes its seed, which CHAOS_SEED sets."""
    given = os.environ.get("CHAOS_SEED")
    chosen = seed if seed is not None else int(given) if given else random.SystemRandom().randrange(2**32)
    try:
        yield random.Random(chosen)
    except BaseException as error:
        error.add_note(f"chaos seed: {chosen} (set CHAOS_SEED={chosen} to reproduce)")
        raise


class WorkerProcess:
    """A process of a test."""

    def __init__(self, id_: str, process: ForkedProcess, log: Path) -> None:
        self.id = id_
        self.pid = process.pid
        self._process = process
        self._log = log

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def freeze(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def terminate(self) -> None:
        os.kill(self.pid, signal.SIGTERM)

    async def ended(self, *, within: float) -> int:
        """Wait until the process has exited on its own; return its exit code."""

        async def gone() -> bool:
            return not self.alive

        await eventually(gone, f"worker {self.id} ended", within=within)
        return self._process.wait()

    def output(self) -> str:
        return self._log.read_text(errors="replace")

    async def says(self, words: str, *, within: float = 30, every: float = 0.05) -> None:
        async def said() -> bool:
            return words in self.output()

        await eventually(said, f"worker {self.id} said {words!r}", within=within, every=every)


class Crew:
    """The processes of one test. Leaving it kills all of them and adds the ends of their logs to a failure."""

    def __init__(
        self, url: str, folder: Path, *, environ: Mapping[str, str] | None = None, app: str = WORKLOAD
    ) -> None:
        self._environ = {**_clean(os.environ), "WINDLASS_DATABASE_URL": url, **(environ or {})}
        self._folder = folder
        self._app = app
        self._hired = Counter[str]()
        self.members: list[WorkerProcess] = []

    def start(
        self,
        name: str,
        *,
        lease: float = 30,
        grace: float = 30,
        concurrency: int = 100,
        prefix: str = "chaos.%",
        queues: Sequence[str] = (),
        fault: str = "",
    ) -> WorkerProcess:
        """Start a worker, without waiting until it is ready. Further workers of the same name get a number."""
        id_ = self._name(name)
        arguments = ["worker", self._app, "--worker-id", id_, "--concurrency", str(concurrency)]
        arguments += ["--lease", f"{lease * 1000:.0f}ms", "--grace", f"{grace * 1000:.0f}ms", "--prefix", prefix]
        for queue in queues:
            arguments += ["--queue", queue]
        return self.run(id_, arguments, fault=fault)

    def engine(self, name: str, *, fault: str = "") -> WorkerProcess:
        """Start a process with the loops and without a worker; do not wait until it is ready."""
        return self.run(self._name(name), ["up", "--port", "0"], fault=fault)

    def run(self, id_: str, arguments: Sequence[str], *, module: str = "windlass", fault: str = "") -> WorkerProcess:
        """Start any process that belongs to the test."""
        log = self._folder / f"{id_}.log"
        environ = self._environ | {"CHAOS_WORKER": id_, "WINDLASS_FAULT": fault}
        with log.open("wb") as sink, open(os.devnull, "rb") as nothing:
            output = sink.fileno()
            process = fork_server.start(
                module, arguments, cwd=ROOT, env=environ, stdin=nothing.fileno(), stdout=output, stderr=output
            )
        worker = WorkerProcess(id_, process, log)
        self.members.append(worker)
        return worker

    def _name(self, name: str) -> str:
        self._hired[name] += 1
        return name if self._hired[name] == 1 else f"{name}.{self._hired[name]}"

    def assert_calm(self) -> None:
        """Check that no process has logged an unexpected error: no defect, no deadlock."""
        for worker in self.members:
            said = worker.output()
            for words in (" ERROR ", " CRITICAL ", "--- Logging error ---"):
                assert words not in said, f"{worker.id}: {said[said.index(words) :][:5000]}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        for worker in self.members:
            worker.kill()
        if error is not None:
            for worker in self.members[-6:]:
                error.add_note(f"--- {worker.id} (exit {worker._process.returncode}):\n{worker.output()[-3000:]}")


class Inbox:
    """A plain client of the tables. It reconnects when the server has closed its connection."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._conn: asyncpg.Connection[Any] | None = None
        self._free = asyncio.Lock()

    @classmethod
    @asynccontextmanager
    async def open(cls, url: str) -> AsyncIterator[Self]:
        opened = cls(url)
        try:
            yield opened
        finally:
            if opened._conn is not None:
                await opened._conn.close()

    async def prepare(self) -> None:
        await self.execute(EFFECTS)

    async def execute(self, sql: str, *values: Any) -> None:
        async with self._connected() as conn:
            await conn.execute(sql, *values)

    async def fetch(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        async with self._connected() as conn:
            return [tuple(row) for row in await conn.fetch(sql, *values)]

    async def value(self, sql: str, *values: Any) -> Any:
        async with self._connected() as conn:
            return await conn.fetchval(sql, *values)

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator["asyncpg.Connection[Any]"]:
        async with self._free:
            if self._conn is None or self._conn.is_closed():
                self._conn = await asyncpg.connect(self.url)
            yield self._conn

    async def submit(self, type_: str, count: int, payload: Any = None, **options: Any) -> list[Any]:
        """Submit many jobs with the public API; return their ids."""
        async with Windlass(self.url, settings=Settings(notify=False, master_keys=KEYS)) as app:
            ids: list[Any] = []
            while len(ids) < count:
                ids += await app.submit_many([app.spec(type_, payload, **options)] * min(5000, count - len(ids)))
            return ids

    async def statuses(self) -> dict[str, int]:
        found = await self.fetch("select status, count(*) from workflow.workflow_run group by status")
        return dict(found)

    async def count(self, status: str) -> int:
        return (await self.statuses()).get(status, 0)

    async def settled(self) -> bool:
        statuses = await self.statuses()
        return not statuses.get("pending") and not statuses.get("leased")

    async def drained(self, *, within: float) -> None:
        await eventually(self.settled, "every job had ended", within=within, every=0.1)

    async def effects_of(self, job: Any) -> list[tuple[int, str]]:
        return [
            (fence, worker)
            for fence, worker in await self.fetch(
                "select fence, worker from effects where job_id = $1 order by id", job
            )
        ]

    async def job(self, id_: Any, columns: str = "status") -> tuple[Any, ...]:
        return (await self.fetch(f"select {columns} from workflow.workflow_run where id = $1", id_))[0]

    async def events_of(self, job: Any) -> list[str]:
        """Return the event types in the trail of a job, without heartbeats."""
        found = await self.fetch(
            "select event_type from workflow.workflow_event"
            " where workflow_id = $1 and event_type <> 'heartbeat' order by id",
            job,
        )
        return [word for (word,) in found]

    async def working(self, workers: Sequence[WorkerProcess], *, within: float = 30) -> None:
        """Wait until all of these workers have registered."""
        names = [worker.id for worker in workers]

        async def registered() -> bool:
            for worker in workers:
                assert worker.alive, f"worker {worker.id} ended: {worker.output()[-3000:]}"
            try:
                found = await self.value("select count(*) from windlass.worker where id = any($1)", names)
            except (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError):
                return False  # not migrated yet
            return bool(found == len(names))

        await eventually(registered, f"{', '.join(names)} had registered", within=within)

    async def assert_each_succeeded_once(self, count: int) -> None:
        """Check that no job is lost or recorded twice, and that the fences of its executions ascend."""
        assert await self.statuses() == {"succeeded": count}
        successes = await self.fetch(
            "select workflow_id, count(*) from workflow.workflow_event where event_type = 'succeeded' group by 1"
        )
        assert len(successes) == count
        assert [row for row in successes if row[1] != 1] == []
        assert await self.stale_effects() == []

    async def stale_effects(self) -> list[tuple[Any, ...]]:
        return await self.fetch(
            """select * from (select job_id, worker, fence, lag(fence) over (partition by job_id order by id) as before
                                from effects) as e where fence <= before"""
        )


def _clean(environ: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in environ.items() if not name.startswith("WINDLASS_")}
    return kept | {"WINDLASS_MASTER_KEY": MASTER_KEY}
