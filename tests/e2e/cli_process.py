"""Real processes of the command line, waited for by their lines and never by the clock."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

PATIENCE = 60.0  # a deadline, not a pause


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


@dataclass
class Running:
    process: asyncio.subprocess.Process
    lines: list[str] = field(default_factory=list)

    async def line(self, containing: str) -> str:
        """The next line with this text, from either stream."""
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            while raw := await self.process.stdout.readline():
                self.lines.append(raw.decode().rstrip("\n"))
                if containing in self.lines[-1]:
                    return self.lines[-1]
        raise AssertionError(f"no line with {containing!r} in {self.lines}")

    def signal(self, number: signal.Signals = signal.SIGTERM) -> None:
        self.process.send_signal(number)

    async def end(self) -> int:
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            self.lines += (await self.process.stdout.read()).decode().splitlines()
            return await self.process.wait()


@dataclass(frozen=True)
class Cli:
    """The command line in a folder of its own, on one database."""

    folder: Path
    database: str | None

    async def __call__(self, *arguments: str, stdin: bytes = b"", **env: str) -> Ended:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "windlass", *arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=self.folder,
            env=self.environment(**env),
        )
        async with asyncio.timeout(PATIENCE):
            out, err = await process.communicate(stdin)
        assert process.returncode is not None
        return Ended(process.returncode, out.decode(), err.decode())

    @asynccontextmanager
    async def running(self, *arguments: str, **env: str) -> AsyncIterator[Running]:
        """A process that stays; whatever the test does, it does not outlive it."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "windlass", *arguments),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            cwd=self.folder,
            env=self.environment(**env),
        )
        running = Running(process)
        try:
            yield running
        finally:
            if process.returncode is None:
                process.kill()
            await running.end()

    def environment(self, **more: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("WINDLASS_")}
        kept["WINDLASS_HOME"] = str(self.folder / "home")
        if self.database is not None:
            kept["WINDLASS_DATABASE_URL"] = self.database
        return kept | more
