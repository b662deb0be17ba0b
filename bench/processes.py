"""One queue drained by several worker processes, which start together and are counted together."""

import asyncio
import json
import time
from collections.abc import Sequence
from typing import Any

import asyncpg

from bench.contestants.stage import LOOK_AGAIN
from bench.environment import ROOT

PATIENCE = 600.0


class Broken(Exception):
    """A contestant's process failed."""


async def drain_together(command: Sequence[str], url: str, count: int, processes: int) -> float:
    """Seconds from the word to start until all jobs are recorded; each process runs `stage.share`."""
    started = [await _start(command) for _ in range(processes)]
    try:
        async with asyncio.timeout(PATIENCE):
            return await _clock(started, url, count)
    except TimeoutError:
        raise Broken(f"{processes} processes took longer than {PATIENCE:.0f} s") from None
    finally:
        for process in started:
            if process.returncode is None:
                process.kill()
            await process.wait()


async def _clock(processes: Sequence[asyncio.subprocess.Process], url: str, count: int) -> float:
    done = {json.loads(await _line(process))["done"] for process in processes}.pop()
    conn = await asyncpg.connect(url)
    try:
        await conn.fetchval(done)
        began = time.perf_counter()
        for process in processes:
            _tell(process, b"go\n")
        await _until(processes, count)
        while not await conn.fetchval(done):
            await asyncio.sleep(LOOK_AGAIN)
        seconds = time.perf_counter() - began
    finally:
        await conn.close()
    for process in processes:
        _tell(process, b"stop\n")
    for process in processes:
        _, complaints = await process.communicate()
        if process.returncode != 0:
            raise Broken(f"share ended with {process.returncode}: {complaints.decode()[-2000:]}")
    return seconds


async def _until(processes: Sequence[asyncio.subprocess.Process], count: int) -> None:
    """Until their handlers have begun so many jobs."""
    counts = [0] * len(processes)

    async def follow(number: int) -> None:
        while sum(counts) < count:
            counts[number] = int(await _line(processes[number]))

    followers = [asyncio.create_task(follow(number)) for number in range(len(processes))]
    try:
        finished, _ = await asyncio.wait(followers, return_when=asyncio.FIRST_COMPLETED)
        for follower in finished:
            follower.result()  # it has read the last count, or its process broke
    finally:
        for follower in followers:
            follower.cancel()
        await asyncio.gather(*followers, return_exceptions=True)


async def _line(process: asyncio.subprocess.Process) -> bytes:
    assert process.stdout is not None
    line = await process.stdout.readline()
    if not line:
        _, complaints = await process.communicate()
        raise Broken(f"share ended with {process.returncode}: {complaints.decode()[-2000:]}")
    return line


def _tell(process: asyncio.subprocess.Process, word: bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(word)


async def _start(command: Sequence[str]) -> asyncio.subprocess.Process:
    pipe: Any = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe)
