"""The base class of all loops."""

import asyncio
from datetime import timedelta

import pytest

from windlass.errors import Unavailable
from windlass.runtime.loops.loop import run_periodically

HOUR = timedelta(hours=1)


async def test_a_loop_ticks_again_when_it_is_woken() -> None:
    ticks, stop, wake = asyncio.Semaphore(0), asyncio.Event(), asyncio.Event()

    async def tick() -> None:
        ticks.release()

    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        group.create_task(run_periodically(tick, every=HOUR, stop=stop, wake=wake))
        await ticks.acquire()
        wake.set()
        await ticks.acquire()
        stop.set()


@pytest.mark.parametrize("ends", ["stop", "wake"])
async def test_a_loop_that_waits_first_does_not_tick_before_it_is_woken(ends: str) -> None:
    ticks: list[str] = []
    events = {"stop": asyncio.Event(), "wake": asyncio.Event()}

    async def tick() -> None:
        ticks.append("tick")
        events["stop"].set()

    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        group.create_task(run_periodically(tick, every=HOUR, waits_first=True, **events))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not ticks
        events[ends].set()
    assert ticks == (["tick"] if ends == "wake" else [])


@pytest.mark.parametrize("error", [Unavailable("gone"), RuntimeError("a defect")])
async def test_a_loop_survives_an_exception_in_its_tick(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    stop, again = asyncio.Event(), asyncio.Event()
    told = iter([error])

    async def tick() -> None:
        for first in told:
            raise first
        again.set()

    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        group.create_task(run_periodically(tick, every=timedelta(milliseconds=10), stop=stop))
        await again.wait()
        stop.set()
    assert str(error) in caplog.text


async def test_a_cancelled_loop_ends() -> None:
    ticked = asyncio.Event()

    async def tick() -> None:
        ticked.set()

    loop = asyncio.create_task(run_periodically(tick, every=HOUR, stop=asyncio.Event()))
    await ticked.wait()
    loop.cancel()
    done, _ = await asyncio.wait([loop], timeout=30)
    assert loop in done
    assert loop.cancelled()
