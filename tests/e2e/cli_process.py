"""Runs the command line in real processes; tests wait for lines of output, never for a fixed time."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile

from tests import fork_server
from tests.fork_server import ForkedProcess
from tests.keys import MASTER_KEY

PATIENCE = 60.0  # seconds, a timeout


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


@dataclass
class Running:
    process: ForkedProcess
    stdout: asyncio.StreamReader
    lines: list[str] = field(default_factory=list)

    async def line(self, containing: str) -> str:
        """Wait for the next line that contains a string, from either stream, and return it."""
        async with asyncio.timeout(PATIENCE):
            while raw := await self.stdout.readline():
                self.lines.append(raw.decode().rstrip("\n"))
                if containing in self.lines[-1]:
                    return self.lines[-1]
        raise AssertionError(f"no line with {containing!r} in {self.lines}")

    def signal(self, number: signal.Signals = signal.SIGTERM) -> None:
        self.process.send_signal(number)

    async def end(self) -> int:
        async with asyncio.timeout(PATIENCE):
            self.lines += (await self.stdout.read()).decode().splitlines()
            return await asyncio.to_thread(self.process.wait)


@dataclass(frozen=True)
class Cli:
    """The command line in a separate folder, on one database."""

    folder: Path
    database: str | None
    home: Path | None = None  # default: a folder in `folder`

    async def __call__(self, *arguments: str, stdin: bytes = b"", **env: str) -> Ended:
        with TemporaryFile() as given, TemporaryFile() as out, TemporaryFile() as err:
            given.write(stdin)
            given.seek(0)
            process = self._start(arguments, env, given.fileno(), out.fileno(), err.fileno())
            try:
                async with asyncio.timeout(PATIENCE):
                    code = await asyncio.to_thread(process.wait)
            finally:
                process.kill()
            out.seek(0)
            err.seek(0)
            return Ended(code, out.read().decode(), err.read().decode())

    @asynccontextmanager
    async def running(self, *arguments: str, **env: str) -> AsyncIterator[Running]:
        """Run a command during the block and kill it at the end."""
        ours, theirs = os.pipe()
        stdout = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(stdout), os.fdopen(ours, "rb", buffering=0)
        )
        with open(os.devnull, "rb") as nothing, os.fdopen(theirs, "wb", buffering=0) as sink:
            process = self._start(arguments, env, nothing.fileno(), sink.fileno(), sink.fileno())
        running = Running(process, stdout)
        try:
            yield running
        finally:
            process.kill()
            await running.end()
            transport.close()

    def _start(
        self, arguments: Sequence[str], env: Mapping[str, str], stdin: int, stdout: int, stderr: int
    ) -> ForkedProcess:
        environment = self.environment(**env)
        return fork_server.start(
            "windlass", arguments, cwd=self.folder, env=environment, stdin=stdin, stdout=stdout, stderr=stderr
        )

    def environment(self, **more: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("WINDLASS_")}
        kept["WINDLASS_HOME"] = str(self.home or self.folder / "home")
        if self.database is not None:
            kept |= {"WINDLASS_DATABASE_URL": self.database, "WINDLASS_MASTER_KEY": MASTER_KEY}
        return kept | more
