"""Measures several worker processes that drain one queue together."""

import asyncio
import json
import time
from collections.abc import Sequence
from typing import Any

import asyncpg

from bench.contestants.stage import POLL_INTERVAL
from bench.environment import ROOT

TIMEOUT = 600.0  # seconds


class ProcessFailed(Exception):
    """A process of a contestant failed or timed out."""


async def drain_together(command: Sequence[str], url: str, count: int, processes: int) -> float:
    """Return the seconds from the start signal until all jobs are recorded; each process runs `stage.share`."""
    started = [await _start(command) for _ in range(processes)]
    try:
        async with asyncio.timeout(TIMEOUT):
            return await _clock(started, url, count)
    except TimeoutError:
        raise ProcessFailed(f"{processes} processes took longer than {TIMEOUT:.0f} s") from None
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
        started = time.perf_counter()
        for process in processes:
            _send(process, b"go\n")
        await _await_begun(processes, count)
        while not await conn.fetchval(done):
            await asyncio.sleep(POLL_INTERVAL)
        seconds = time.perf_counter() - started
    finally:
        await conn.close()
    for process in processes:
        _send(process, b"stop\n")
    for process in processes:
        _, errors = await process.communicate()
        if process.returncode != 0:
            raise ProcessFailed(f"share exited with {process.returncode}: {errors.decode()[-2000:]}")
    return seconds


async def _await_begun(processes: Sequence[asyncio.subprocess.Process], count: int) -> None:
    """Wait until the handlers of all processes have begun `count` jobs in total."""
    counts = [0] * len(processes)

    async def follow(number: int) -> None:
        while sum(counts) < count:
            counts[number] = int(await _line(processes[number]))

    followers = [asyncio.create_task(follow(number)) for number in range(len(processes))]
    try:
        finished, _ = await asyncio.wait(followers, return_when=asyncio.FIRST_COMPLETED)
        for follower in finished:
            follower.result()  # it has read the last count, or its process failed
    finally:
        for follower in followers:
            follower.cancel()
        await asyncio.gather(*followers, return_exceptions=True)


async def _line(process: asyncio.subprocess.Process) -> bytes:
    assert process.stdout is not None
    line = await process.stdout.readline()
    if not line:
        _, errors = await process.communicate()
        raise ProcessFailed(f"share exited with {process.returncode}: {errors.decode()[-2000:]}")
    return line


def _send(process: asyncio.subprocess.Process, line: bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(line)


async def _start(command: Sequence[str]) -> asyncio.subprocess.Process:
    pipe: Any = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe)
