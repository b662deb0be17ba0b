"""A command does not outlive the `windlass.exec` that runs it, however that ends."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.launchers.pools import Pool, dead, is_alive
from tests.launchers.test_contract import SOURCES, task
from windlass.effects.objects import Objects

pytestmark = pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")


@pytest.fixture
def folder(tmp_path: Path) -> Pool:
    """A pool without a launcher: only the process itself can end what it has started."""
    return Pool("none", {}, {}, tmp_path)


@asynccontextmanager
async def executing(folder: Pool, run: str) -> AsyncIterator[asyncio.subprocess.Process]:
    objects = Objects.open(f"file://{folder.folder}/objects")
    job = await task(folder, objects, run)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "windlass.exec",
        env={"PATH": os.environ["PATH"], **job.env, "PYTHONPATH": SOURCES},
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_the_processes_of_a_command_end_when_windlass_exec_is_killed(folder: Pool) -> None:
    at = folder.folder
    run = f"sleep 1000 & echo $! > {at}/child; (trap '' TERM; echo $$ > {at}/shell; sleep 1000; sleep 1000)"
    async with executing(folder, run) as process:
        pids = [int(await folder.written(name)) for name in ("child", "shell")]
        assert all(map(is_alive, pids))
        process.send_signal(signal.SIGKILL)
        for pid in pids:
            await dead(pid)


async def test_a_command_that_ends_leaves_no_process(folder: Pool) -> None:
    async with executing(folder, wait_for_go(folder)) as process:
        await folder.written("began")
        pids = children(process.pid)
        assert len(pids) == 2  # the command and its guard
        (folder.folder / "go").touch()
        assert await process.wait() == 0
    assert not any(map(is_alive, pids))


async def test_killing_the_guard_does_not_affect_the_command(folder: Pool) -> None:
    async with executing(folder, wait_for_go(folder)) as process:
        await folder.written("began")
        (guard,) = [pid for pid in children(process.pid) if b"read -r group" in command_line(pid)]
        os.kill(guard, signal.SIGKILL)
        (folder.folder / "go").touch()
        assert await process.wait() == 0
    assert folder.lines("out") == ["1"]


def wait_for_go(folder: Pool) -> str:
    at = folder.folder
    return f"echo began > {at}/began; while ! [ -e {at}/go ]; do sleep 0.05; done; echo 1 | tee {at}/out"


def children(pid: int) -> list[int]:
    return [int(text) for text in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def command_line(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()
