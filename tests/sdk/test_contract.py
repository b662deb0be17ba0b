"""The contract suite of workers (sdk/contract) against the workers of every language."""

import asyncio
import functools
import json
import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests import fork_server
from tests.chaos.harness import Inbox, eventually
from tests.fork_server import ForkedProcess
from tests.keys import MASTER_KEY
from tests.sdk.proxy import Proxy, proxied
from tests.web.serving import served
from windlass import Windlass
from windlass.client import AsyncClient
from windlass.schemas.jobs import JobDetail

ROOT = Path(__file__).parents[2]
SOON = {"kind": "constant", "base": 0.01, "jitter": 0}
EVERYTHING = frozenset({"http", "steps", "logs", "progress", "timeout", "retry_after", "reasons"})
FEATURES = {
    "python": EVERYTHING - {"http", "reasons"},
    "typescript": EVERYTHING,
    "go-http": EVERYTHING,
    "go-sql": frozenset({"reasons"}),  # what the tables of the inbox can express
}


@dataclass(frozen=True)
class Driver:
    """The driver program of a language. Without a command, the Python driver is forked, which is faster."""

    command: Sequence[str] = ()

    def start(self, environ: Mapping[str, str], output: Path) -> "subprocess.Popen[bytes] | ForkedProcess":
        """Start the program; it writes into files named like `output`."""
        with (
            open(os.devnull, "rb") as nothing,
            output.with_suffix(".out").open("wb") as out,
            output.with_suffix(".err").open("ab") as err,
        ):
            stdin, stdout, stderr = nothing.fileno(), out.fileno(), err.fileno()
            if self.command:
                return subprocess.Popen(self.command, cwd=ROOT, env=environ, stdin=stdin, stdout=stdout, stderr=stderr)
            return fork_server.start(
                "tests.sdk.driver", [], cwd=ROOT, env=environ, stdin=stdin, stdout=stdout, stderr=stderr
            )


@functools.cache
def driver_of(language: str, folder: Path) -> Driver:
    match language:
        case "python":
            return Driver()
        case "typescript":
            _require("node", "Node 20 or later")
            program = ROOT / "sdk/typescript/dist/contract/driver.js"
            if not program.exists():
                _unavailable("the TypeScript SDK is not built: make sdk-typescript")
            return Driver(["node", str(program)])
        case "go-http" | "go-sql":
            _require("go", "Go 1.23 or later")
            programs = folder / "go"
            if not programs.exists():
                build = ["go", "build", "-o", f"{programs}/", "./http", "./sql", "./inbox"]
                subprocess.run(build, cwd=ROOT / "sdk/go/contract", check=True)
            return Driver([str(programs / language.removeprefix("go-"))])
        case _:
            raise AssertionError(language)


def _require(program: str, what: str) -> None:
    if shutil.which(program) is None:
        _unavailable(f"{what} is not installed")


def _unavailable(why: str) -> None:
    if os.environ.get("CI"):
        pytest.fail(why)
    pytest.skip(why)


def cases() -> dict[str, Any]:
    return {
        case["name"]: case
        for path in sorted((ROOT / "sdk/contract").glob("*.json"))
        for case in json.loads(path.read_text("utf-8"))
    }


CASES = cases()
PROMISES = [
    pytest.param(language, name, id=f"{language}: {name}")
    for language, features in FEATURES.items()
    for name, case in CASES.items()
    if set(case.get("needs", ())) <= features
]


class Worker:
    """A running driver."""

    def __init__(self, process: "subprocess.Popen[bytes] | ForkedProcess", output: Path) -> None:
        self._process, self._output = process, output

    async def line(self, text: str) -> None:
        async def is_printed() -> bool:
            lines = self._output.with_suffix(".out").read_text("utf-8").splitlines()
            assert text in lines or self._process.poll() is None, "the driver has ended"
            return text in lines

        await eventually(is_printed, f"the driver printed {text!r}", within=60, every=0.02)

    def send(self, number: signal.Signals) -> None:
        if self._process.poll() is None:
            self._process.send_signal(number)

    async def end(self) -> int:
        async with asyncio.timeout(60):
            return await asyncio.to_thread(self._process.wait)

    def errors(self) -> str:
        return self._output.with_suffix(".err").read_text("utf-8", errors="replace")[-4000:]


@dataclass
class Trial:
    """A running case of the contract suite."""

    language: str
    driver: Driver
    database: str
    client: AsyncClient
    inbox: Inbox
    proxy: Proxy
    folder: Path
    workers: dict[str, Worker] = field(default_factory=dict)
    jobs: dict[str, list[str]] = field(default_factory=dict)
    queue: str = "contract"

    async def perform(self, steps: Sequence[Mapping[str, Any]]) -> None:
        for step in steps:
            name, *_ = step
            arguments = {key: value for key, value in step.items() if key != name}
            if "as" in arguments:
                arguments["alias"] = arguments.pop("as")
            if "is" in arguments:
                arguments["expected"] = arguments.pop("is")
            if "are" in arguments:
                arguments["expected"] = arguments.pop("are")
            await getattr(self, f"do_{name}")(step[name], **arguments)

    async def do_start(self, name: str, **options: int) -> None:
        environ = {
            **os.environ,
            "WINDLASS_URL": self.proxy.url,
            "WINDLASS_DSN": self.database,
            "WINDLASS_MASTER_KEY": MASTER_KEY,
            "CONTRACT_QUEUE": self.queue,
            "CONTRACT_WORKER": name,
            "CONTRACT_TRACE": str(self.folder / "trace"),
            **{f"CONTRACT_{option.upper()}": str(value) for option, value in options.items()},
        }
        output = self.folder / name
        self.workers[name] = Worker(self.driver.start(environ, output), output)
        await self.workers[name].line("ready")

    async def do_submit(self, job: Mapping[str, Any], *, alias: str, times: int = 1) -> None:
        body = {"retry": SOON, **self._filled(job), "queue": self.queue}
        submitted = await self.client.jobs.submit_many([body] * times)
        self.jobs[alias] = [each.id for each in submitted.jobs]

    async def do_wait(self, alias: str, *, status: str, **expected: Any) -> None:
        for id_ in self.jobs[alias]:

            async def reached(id_: str = id_) -> list[JobDetail]:
                if self.language == "go-sql":  # its retries wait for minutes, as the table's other clients do
                    await self.inbox.execute(DUE, id_)
                job = await self.client.jobs.get(id_)
                is_reported = "progress" not in expected or job.progress is not None  # it is written a moment later
                return [job] if job.status == status and is_reported else []

            (job,) = await eventually(reached, f"{alias} is {status}", within=60)
            assert await self._seen(job, expected) == self._filled(expected)

    async def _seen(self, job: JobDetail, expected: Mapping[str, Any]) -> dict[str, Any]:
        seen: dict[str, Any] = {}
        for name in expected:
            match name:
                case "errors" if self.language == "go-sql":
                    seen[name] = expected[name]  # its tables have the last error only
                case "errors":
                    seen[name] = len(job.errors)
                case "error":
                    seen[name] = expected[name] if expected[name] in (job.error or "") else job.error
                case "length":
                    seen[name] = len(job.result["text"])
                case "progress":
                    seen[name] = job.progress and [job.progress.fraction, job.progress.message]
                case "worker":
                    seen[name] = await self._last_worker(job.id)
                case _:
                    seen[name] = getattr(job, name)
        return seen

    async def _last_worker(self, id_: str) -> str:
        rows = await self.inbox.fetch(LEASED, id_)
        return str(rows[0][0])

    async def do_events(self, alias: str, *, of: str, expected: int) -> None:
        (row,) = await self.inbox.fetch(EVENTS, self.jobs[alias], of)
        assert row == (expected,)

    async def do_lines(self, alias: str, *, expected: Sequence[str]) -> None:
        async def all_there() -> bool:
            lines = [line.message async for line in self.client.jobs.logs(self.jobs[alias][0])]
            return lines == expected

        await eventually(all_there, f"the lines are {expected}")

    async def do_trace(self, line: str, *, times: int = 1, reason: str = "") -> None:
        start = str(self._filled(line))

        async def written() -> list[str]:
            lines = [each for each in self._trace() if each.startswith(start)]
            return lines if len(lines) >= times else []

        lines = await eventually(written, f"{start!r} is written {times} times", within=60)
        if reason and "reasons" in FEATURES[self.language]:
            assert lines[0] == f"{start} {reason}"

    async def do_count(self, line: str, *, expected: int) -> None:
        assert sum(each.startswith(str(self._filled(line))) for each in self._trace()) == expected

    async def do_cancel(self, alias: str) -> None:
        await self.client.jobs.cancel(self.jobs[alias][0])

    async def do_touch(self, name: str) -> None:
        (self.folder / name).touch()

    async def do_terminate(self, name: str) -> None:
        self.workers[name].send(signal.SIGTERM)

    async def do_draining(self, name: str) -> None:
        await self.workers[name].line("draining")

    async def do_logged(self, name: str, *, text: str) -> None:
        async def is_logged() -> bool:
            return text in self.workers[name].errors()

        await eventually(is_logged, f"{name} logged {text!r}")

    async def do_kill(self, name: str) -> None:
        self.workers[name].send(signal.SIGKILL)
        await self.workers[name].end()

    async def do_freeze(self, name: str) -> None:
        self.workers[name].send(signal.SIGSTOP)

    async def do_thaw(self, name: str) -> None:
        self.workers[name].send(signal.SIGCONT)

    async def do_exit(self, name: str, *, code: int | None = None) -> None:
        ended = await self.workers[name].end()
        assert code is None or ended == code

    async def do_server(self, how: str, **options: Any) -> None:
        self.proxy.behave(how, **options)

    def _trace(self) -> list[str]:
        path = self.folder / "trace"
        return path.read_text("utf-8").splitlines() if path.exists() else []

    def _filled(self, part: Any) -> Any:
        """Return the part with its placeholders filled in."""
        match part:
            case str():
                known = {"folder": str(self.folder), "queue": self.queue, **{k: ids[0] for k, ids in self.jobs.items()}}
                for name, value in known.items():
                    part = part.replace(f"{{{name}}}", value)
                return part
            case dict():
                return {key: self._filled(value) for key, value in part.items()}
            case list():
                return [self._filled(each) for each in part]
            case _:
                return part


DUE = """update workflow.workflow_run set run_at = now()
          where id = $1 and status = 'pending' and run_at > now()"""
LEASED = """select coalesce(actor, data ->> 'worker_id') from workflow.workflow_event
             where workflow_id = $1 and event_type = 'leased' order by id desc limit 1"""
EVENTS = "select count(*) from workflow.workflow_event where workflow_id = any($1::uuid[]) and event_type = $2"


@pytest.fixture(scope="session")
def build_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("drivers")


@asynccontextmanager
async def tended(app: Windlass) -> AsyncIterator[None]:
    """Run the background loops of a server during the block."""
    stop = asyncio.Event()
    loops = asyncio.create_task(app.tend(stop=stop))
    yield
    stop.set()
    await loops


@pytest.mark.parametrize(("language", "name"), PROMISES)
async def test_a_worker_fulfils_the_contract(
    language: str, name: str, app: Windlass, database: str, build_folder: Path, tmp_path: Path
) -> None:
    driver = driver_of(language, build_folder)
    async with served(app) as http, tended(app), Inbox.open(database) as inbox:
        url = str(http.base_url).removesuffix("/").removesuffix("/api/v1")
        async with AsyncClient(url) as client, proxied(url) as proxy:
            trial = Trial(language, driver, database, client, inbox, proxy, tmp_path)
            try:
                await trial.perform(CASES[name]["steps"])
            except BaseException as error:
                for each, worker in trial.workers.items():
                    error.add_note(f"--- worker {each}:\n{worker.errors()}")
                raise
            finally:
                for worker in trial.workers.values():
                    worker.send(signal.SIGKILL)
                    worker.send(signal.SIGCONT)
                    await worker.end()
