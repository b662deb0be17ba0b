"""Ticks that passed while no scheduler was running."""

import logging
from datetime import datetime, timedelta

import pytest

from tests.cron.recorder import Recorder
from windlass.cron import Cron, FakeClock, JobStarted, Missed, Observer
from windlass.errors import Invalid

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


async def caught_up(clock: FakeClock, spec: str, **options: object) -> list[datetime]:
    """Return the scheduled times of the jobs that start immediately."""
    started: list[JobStarted] = []
    cron = Cron(clock=clock, observers=[Observer(on_job_start=started.append)])
    cron.add(spec, Recorder().job("a"), name="a", **options)  # type: ignore[arg-type]
    async with cron:
        await cron.done()
        entry = cron.entry("a")
    assert entry is not None
    assert entry.prev == (started[-1].scheduled if started else options.get("prev"))
    return [event.scheduled for event in started]


async def test_missed_runs_are_skipped_by_default(clock: FakeClock) -> None:
    assert await caught_up(clock, "@hourly", prev=clock.now() - 3 * HOUR) == []


async def test_nothing_is_missed_without_a_previous_run(clock: FakeClock) -> None:
    assert await caught_up(clock, "@hourly", missed=Missed.ALL) == []


@pytest.mark.parametrize("spec", ["@hourly", "@every 1h"])
async def test_missed_once_runs_only_the_latest_missed_tick(clock: FakeClock, spec: str) -> None:
    prev = clock.now() - 3 * HOUR
    clock.set(clock.now() + MINUTE)
    assert await caught_up(clock, spec, missed=Missed.ONCE, prev=prev) == [prev + 3 * HOUR]


@pytest.mark.parametrize("spec", ["@hourly", "@every 1h"])
async def test_missed_all_runs_every_missed_tick_oldest_first(clock: FakeClock, spec: str) -> None:
    prev = clock.now() - 3 * HOUR
    assert await caught_up(clock, spec, missed="all", prev=prev) == [prev + n * HOUR for n in (1, 2, 3)]


async def test_missed_all_is_capped_at_100_runs_with_a_warning(
    clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    prev = clock.now() - 1000 * HOUR
    with caplog.at_level(logging.WARNING, "windlass.cron"):
        found = await caught_up(clock, "@hourly", missed=Missed.ALL, prev=prev)
    assert found == [prev + n * HOUR for n in range(1, 101)]
    assert "missed more than 100 runs" in caplog.text


@pytest.mark.parametrize("spec", ["@hourly", "@every 1h"])
async def test_ticks_older_than_the_grace_period_are_dropped(clock: FakeClock, spec: str) -> None:
    now = clock.now()
    found = await caught_up(clock, spec, missed=Missed.ALL, prev=now - 9 * HOUR, grace=2 * HOUR)
    assert found == [now - 2 * HOUR, now - HOUR, now]
    clock.set(now + 30 * MINUTE)
    assert await caught_up(clock, spec, missed=Missed.ONCE, prev=now - 9 * HOUR, grace=10 * MINUTE) == []


@pytest.mark.parametrize("missed", [Missed.ONCE, Missed.ALL])
async def test_run_once_entries_never_catch_up(clock: FakeClock, missed: Missed) -> None:
    assert await caught_up(clock, "@hourly", missed=missed, prev=clock.now() - 3 * HOUR, run_once=True) == []


async def test_paused_and_triggered_entries_never_catch_up(clock: FakeClock) -> None:
    prev = clock.now() - 3 * HOUR
    assert await caught_up(clock, "@hourly", missed=Missed.ALL, prev=prev, paused=True) == []
    assert await caught_up(clock, "@triggered", missed=Missed.ALL, prev=prev) == []


async def test_an_entry_added_to_a_running_scheduler_catches_up_immediately(
    cron: Cron, clock: FakeClock, recorder: Recorder
) -> None:
    cron.add("@hourly", recorder.job("a"), missed=Missed.ONCE, prev=clock.now() - 3 * HOUR)
    await cron.done()
    assert recorder.lines == ["a"]


async def test_a_restart_catches_up_on_ticks_missed_while_stopped(clock: FakeClock, recorder: Recorder) -> None:
    cron = Cron(clock=clock)
    cron.add("@hourly", recorder.job("a"), missed=Missed.ALL)
    async with cron:
        await clock.play(HOUR, cron)
    clock.advance(3 * HOUR)
    async with cron:
        await cron.done()
    assert len(recorder.lines) == 4


def test_a_previous_run_without_a_time_zone_is_refused(cron: Cron) -> None:
    with pytest.raises(Invalid, match="without a time zone"):
        cron.add("@hourly", print, prev=datetime(2030, 1, 1))  # noqa: DTZ001


def test_an_unknown_missed_policy_is_refused(cron: Cron) -> None:
    with pytest.raises(Invalid, match="skip, once, all"):
        cron.add("@hourly", print, missed="some")  # type: ignore[arg-type]
