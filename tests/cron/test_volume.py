"""Many entries and many ticks with constant memory. The bounds are wide: they detect a wrong complexity, not a slow
day."""

import gc
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest

from tests.cron.recorder import Recorder, chain
from windlass.cron import Cron, FakeClock, timeout

DAY, HOUR = timedelta(days=1), timedelta(hours=1)


class Counter:
    def __init__(self) -> None:
        self.count = 0

    async def __call__(self) -> None:
        self.count += 1


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Assert that the block uses less CPU time than this (process time: other processes do not count)."""
    began = time.process_time()
    yield
    assert time.process_time() - began < seconds


@pytest.mark.parametrize("count", [2_000, pytest.param(10_000, marks=pytest.mark.soak)])
async def test_thousands_of_entries_are_added_run_for_a_day_and_removed(
    cron: Cron, clock: FakeClock, count: int
) -> None:
    job = Counter()
    with within(count / 600):
        for n in range(count):
            cron.add(f"{n % 60} {n % 24} * * *", job, name=f"entry {n}", tags=[f"tag {n % 10}"])
        assert len(cron.entries()) == count
        await clock.play(DAY, cron)
        assert job.count == count
        assert sum(cron.remove_by_tag(f"tag {n}") for n in range(10)) == count
    assert clock.timer_count == 0


async def test_a_tick_starts_a_thousand_due_entries(cron: Cron, clock: FakeClock) -> None:
    job = Counter()
    for _ in range(1_000):
        cron.add("@hourly", job)
    with within(15):
        clock.advance(HOUR)
        await cron.done()
    assert job.count == 1_000


@pytest.mark.parametrize("hours", [4, pytest.param(24, marks=pytest.mark.soak)])
async def test_hours_of_one_second_ticks_are_simulated_in_seconds(cron: Cron, clock: FakeClock, hours: int) -> None:
    job = Counter()
    cron.add("@every 1s", job)
    with within(hours):
        await clock.play(hours * HOUR, cron)
    assert job.count == hours * 3_600


async def test_an_execution_of_a_thousand_steps_and_a_thousand_executions(cron: Cron, recorder: Recorder) -> None:
    chain(cron, recorder, *(f"step {n}" for n in range(1_000)))
    with within(15):
        cron.trigger("step 0")
        await cron.done()
        assert recorder.lines == [f"step {n}" for n in range(1_000)]
        for _ in range(1_000):
            cron.trigger("step 998")
        await cron.done()
    assert len(recorder.lines) == 3_000


async def test_memory_stays_flat(cron: Cron, clock: FakeClock) -> None:
    """Ticks, executions beyond the retention, time limits that were kept and entries that come and go."""
    job = Counter()
    cron.add("@every 1s", job, name="root", wrappers=[timeout(DAY)])
    cron.add("@triggered", job, name="child")
    cron.add_dependency("child", "root")

    async def pass_time() -> int:
        for _ in range(120):
            cron.remove(cron.add("@hourly", job, tags=[f"passing at {clock.now()}"]))
            await clock.play(1, cron)
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        await pass_time()
        before = await pass_time()
        after = await pass_time()
    finally:
        tracemalloc.stop()
    assert after - before < 64 * 1024
