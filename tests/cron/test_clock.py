"""The fake clock of tests, and the system clock."""

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from tests.cron.recorder import Recorder
from windlass.cron import Cron, FakeClock, SystemClock
from windlass.errors import Invalid

DAY = timedelta(days=1)


def test_timers_fire_in_order_at_their_due_times(clock: FakeClock) -> None:
    rung: list[tuple[str, float]] = []
    start = clock.now()

    def ring(name: str) -> None:
        rung.append((name, (clock.now() - start).total_seconds()))

    for name, delay in [("late", 30), ("early", 10), ("middle", 20), ("too late", 41)]:
        clock.call_later(delay, partial(ring, name))
    clock.advance(40)
    assert rung == [("early", 10), ("middle", 20), ("late", 30)]
    assert clock.now() == start + timedelta(seconds=40)
    assert clock.timer_count == 1


def test_a_timer_callback_may_schedule_another_timer(clock: FakeClock) -> None:
    rung: list[datetime] = []

    def ring() -> None:
        rung.append(clock.now())
        clock.call_later(1, ring)

    ring()
    clock.advance(3)
    assert len(rung) == 4


def test_timers_without_a_positive_delay_fire_immediately(clock: FakeClock) -> None:
    rung: list[int] = []
    clock.call_later(0, lambda: rung.append(0))
    clock.call_later(-5, lambda: rung.append(-5))
    assert rung == [0, -5]
    assert clock.timer_count == 0


def test_a_cancelled_timer_does_not_fire(clock: FakeClock) -> None:
    rung: list[int] = []
    timer = clock.call_later(1, lambda: rung.append(1))
    timer.cancel()
    timer.cancel()
    assert clock.timer_count == 0
    clock.advance(2)
    assert rung == []


def test_a_forward_clock_jump_fires_timers_late(clock: FakeClock) -> None:
    rung: list[datetime] = []
    clock.call_later(1, lambda: rung.append(clock.now()))
    clock.set(clock.now() + DAY)
    assert rung == [clock.now()]


def test_setting_the_clock_back_fires_wall_timers_and_keeps_relative_delays(clock: FakeClock) -> None:
    rung: list[str] = []
    clock.call_at(clock.now() + DAY, lambda: rung.append("wall"))
    clock.call_later(10, lambda: rung.append("wait"))
    clock.set(clock.now() - DAY)
    assert rung == ["wall"]
    clock.advance(9)
    assert rung == ["wall"]
    clock.advance(1)
    assert rung == ["wall", "wait"]


def test_negative_advances_and_naive_datetimes_are_refused(clock: FakeClock) -> None:
    with pytest.raises(Invalid):
        clock.advance(-1)
    with pytest.raises(Invalid):
        FakeClock(datetime(2030, 1, 1))  # noqa: DTZ001


def test_cancelled_timers_are_discarded(clock: FakeClock) -> None:
    for _ in range(10_000):
        clock.call_later(1e6, lambda: None).cancel()
    assert len(clock._timers) < 200


def test_a_thread_can_wait_for_a_number_of_pending_timers(clock: FakeClock) -> None:
    threads = [threading.Thread(target=clock.call_later, args=(1, lambda: None)) for _ in range(2)]
    for thread in threads:
        thread.start()
    clock.wait_for_timers(2)
    with pytest.raises(TimeoutError, match="2 timers wait"):
        clock.wait_for_timers(3, timeout=0.01)
    for thread in threads:
        thread.join()


async def test_a_coroutine_can_wait_for_a_number_of_pending_timers(clock: FakeClock) -> None:
    asyncio.get_running_loop().call_soon(clock.call_later, 1, lambda: None)
    await clock.until_timers(1)
    with pytest.raises(TimeoutError):
        await clock.until_timers(2, timeout=0.01)


async def test_a_year_of_ticks_is_simulated_without_waiting(cron: Cron, clock: FakeClock, recorder: Recorder) -> None:
    cron.add("@daily", recorder.job("a"))
    cron.add("0 0 * * MON", recorder.job("b"))
    await clock.play(365 * DAY, cron)
    assert (recorder.lines.count("a"), recorder.lines.count("b")) == (365, 52)


async def test_advance_starts_every_tick_and_the_jobs_run_on_the_event_loop(
    cron: Cron, clock: FakeClock, recorder: Recorder
) -> None:
    cron.add("@every 1s", recorder.job("a"))
    clock.advance(10)
    assert recorder.lines == []
    await cron.done()
    assert recorder.lines == ["a"] * 10


async def test_the_system_clock_fires_a_timer_at_its_wall_time() -> None:
    clock = SystemClock()
    rung = asyncio.Event()
    when = clock.now() + timedelta(milliseconds=20)
    clock.call_at(when, rung.set)
    await asyncio.wait_for(rung.wait(), 5)
    assert clock.now() >= when


async def test_system_clock_timers_can_be_cancelled_and_fire_immediately_when_overdue() -> None:
    clock = SystemClock()
    rung: list[str] = []
    last = asyncio.Event()
    clock.call_at(clock.now() + timedelta(milliseconds=1), lambda: rung.append("cancelled")).cancel()
    clock.call_at(clock.now() - DAY, lambda: rung.append("late"))
    clock.call_later(0.02, last.set)
    await asyncio.wait_for(last.wait(), 5)
    assert rung == ["late"]


async def test_setting_the_wall_clock_back_fires_timers_early(monkeypatch: pytest.MonkeyPatch) -> None:
    class Moved(SystemClock):
        back = timedelta()

        def now(self) -> datetime:
            return datetime.now(UTC) - self.back

    monkeypatch.setattr("windlass.cron.clock.LONGEST_NAP", 0.01)
    clock, rung = Moved(), asyncio.Event()
    clock.call_at(clock.now() + DAY, rung.set)
    clock.back = timedelta(hours=1)
    await asyncio.wait_for(rung.wait(), 5)


async def test_a_scheduler_uses_the_system_clock_by_default() -> None:
    ran = asyncio.Event()

    async def job() -> None:
        ran.set()

    async with Cron() as cron:
        cron.add("@every 1s", job)
        await asyncio.wait_for(ran.wait(), 5)
