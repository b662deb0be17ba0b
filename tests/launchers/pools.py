"""The pools of the contract suite: options to open a working and an unreachable launcher of each kind."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from tests.launchers.given_cluster import KUBECONFIG
from windlass.core.launches import Phase, RemoteJob, launch_name
from windlass.effects.launchers import Launcher, LaunchRequest, PoolOptions, open_launcher

COMMAND = ["sh", "-c", 'eval "$SCRIPT"']  # the script of a job is in its environment
WITHIN = 300.0 if KUBECONFIG else 100.0  # seconds; a cluster pulls an image first
LOOK_AGAIN = 0.25
KILLED = """echo $$ > "$DIR/pid"; while ! [ -e "$DIR/kill" ]; do sleep 0.1; done; sh -c 'kill -9 $$'; exit $?"""


@dataclass(frozen=True, slots=True)
class Pool:
    kind: str
    options: Mapping[str, Any]  # of the launcher
    unreachable: Mapping[str, Any]  # of a launcher whose pool cannot be reached
    folder: Path  # to which jobs write
    starts: int = 50  # concurrent starts in the tests
    image: str | None = None
    is_local: bool = True  # its jobs are processes of this machine
    name: str = field(default_factory=lambda: f"test-{uuid4().hex[:8]}")

    @contextlib.asynccontextmanager
    async def open(self, *, name: str | None = None, **options: Any) -> AsyncIterator[Launcher]:
        launcher = open_launcher(self.pool_options(name=name, **options))
        try:
            yield launcher
        finally:
            await launcher.close()

    def pool_options(self, *, name: str | None = None, **options: Any) -> PoolOptions:
        options = {"command": COMMAND, **self.options, **options}
        if options["command"] is None:
            del options["command"]
        return PoolOptions(name=name or self.name, launcher=self.kind, image=self.image, options=options)

    def job(self, script: str, **more: Any) -> LaunchRequest:
        """Return a job that runs a shell script, with the folder of the test in $DIR."""
        env = {"SCRIPT": script, "DIR": str(self.folder), **more.pop("env", {})}
        return LaunchRequest(name=launch_name(uuid4(), 1), env=env, **more)

    def lines(self, file: str) -> list[str]:
        path = self.folder / file
        return path.read_text().splitlines() if path.exists() else []

    async def written(self, file: str) -> str:
        """Return the first line of a file once a job has written it."""
        async with asyncio.timeout(WITHIN):
            while not (lines := self.lines(file)):
                await asyncio.sleep(LOOK_AGAIN)  # another process writes the file, without an event
        return lines[0]

    async def kill(self) -> None:
        """Kill the job whose script is KILLED; if its process is elsewhere, make the script kill its shell."""
        pid = int(await self.written("pid"))
        if self.is_local:
            os.kill(pid, signal.SIGKILL)
        else:
            (self.folder / "kill").touch()

    async def dead(self, pid: int) -> None:
        """Wait until a process has ended, if it runs on this machine."""
        if self.is_local:
            await dead(pid)

    def is_alive(self, pid: int) -> bool:
        return not self.is_local or is_alive(pid)


async def seen(launcher: Launcher, is_expected: Callable[[Mapping[str, RemoteJob]], bool]) -> Mapping[str, RemoteJob]:
    """Wait until the list of a pool is as expected; return its jobs by name."""
    jobs: Mapping[str, RemoteJob] = {}
    try:
        async with asyncio.timeout(WITHIN):
            while True:
                launcher.hint.clear()
                jobs = {job.name: job for job in await launcher.list()}
                if is_expected(jobs):
                    return jobs
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(launcher.hint.wait(), LOOK_AGAIN)
    except TimeoutError:
        raise AssertionError(f"the pool still lists {sorted(jobs.values(), key=lambda job: job.name)}") from None


async def ended(launcher: Launcher, *requests: LaunchRequest) -> Sequence[RemoteJob]:
    """Wait until the jobs of these requests have ended; return them."""
    names = [request.name for request in requests]
    jobs = await seen(launcher, lambda jobs: all(name in jobs and jobs[name].phase is Phase.ENDED for name in names))
    return [jobs[name] for name in names]


async def running(launcher: Launcher, request: LaunchRequest) -> RemoteJob:
    jobs = await seen(launcher, lambda jobs: request.name in jobs and jobs[request.name].phase is Phase.RUNNING)
    return jobs[request.name]


async def gone(launcher: Launcher, request: LaunchRequest) -> None:
    """Wait until a stopped job is removed or has ended."""

    def is_gone(jobs: Mapping[str, RemoteJob]) -> bool:
        return request.name not in jobs or jobs[request.name].phase is Phase.ENDED

    await seen(launcher, is_gone)


def is_alive(pid: int) -> bool:
    """Return whether a process runs; a zombie does not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] not in "ZX"


async def dead(pid: int) -> None:
    async with asyncio.timeout(WITHIN):
        while is_alive(pid):
            await asyncio.sleep(LOOK_AGAIN)
