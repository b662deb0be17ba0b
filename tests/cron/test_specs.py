"""Specs: dialects, time zones, daylight saving time, and clocks that jump."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from tests.cron.recorder import Recorder, known
from windlass.core.cron.expression import Cron as Spec
from windlass.core.cron.expression import parse
from windlass.cron import (
    CLASSIC,
    FULL,
    SECOND_OPTIONAL,
    WITH_SECONDS,
    Cron,
    FakeClock,
)
from windlass.errors import Invalid, InvalidCron

HOUR = timedelta(hours=1)


def test_the_minimum_interval_is_configurable() -> None:
    Cron().add("@every 1s", print)
    with pytest.raises(InvalidCron, match="out of range"):
        Cron(min_every=timedelta(minutes=1)).add("@every 59s", print)


def test_the_dialect_is_configurable() -> None:
    allowed: list[tuple[Cron, str | Spec]] = [
        (Cron(dialect=WITH_SECONDS), "30 0 0 * * *"),
        (Cron(dialect=SECOND_OPTIONAL), "0 0 * * *"),
        (Cron(dialect=FULL), "0 0 0 L * ? 2031"),
        (Cron(dialect=CLASSIC), "0 0 1 * MON#1"),
        (Cron(), parse("*/10 * * * * *")),
    ]
    for cron, spec in allowed:
        cron.add(spec, print)
    with pytest.raises(InvalidCron):
        Cron().add("30 0 0 * * *", print)


async def test_by_default_both_day_fields_must_match(cron: Cron, clock: FakeClock) -> None:
    cron.add("0 0 13 * FRI", print, name="friday the 13th")
    assert known(cron, "friday the 13th").next == datetime(2030, 9, 13, tzinfo=UTC)


async def test_hashed_fields_are_derived_from_the_name(clock: FakeClock) -> None:
    async with Cron(clock=clock, dialect=FULL) as cron:
        for name in ("a", "b"):
            cron.add("H H * * *", print, name=name)
        assert known(cron, "a").next != known(cron, "b").next


async def test_specs_use_the_time_zone_of_the_scheduler_unless_they_name_one(clock: FakeClock) -> None:
    async with Cron(clock=clock, location="Europe/Berlin") as cron:
        cron.add("0 6 * * *", print, name="here")
        cron.add("TZ=America/New_York 0 6 * * *", print, name="there")
        assert known(cron, "here").next == datetime(2030, 1, 1, 6, tzinfo=ZoneInfo("Europe/Berlin"))
        assert known(cron, "there").next == datetime(2030, 1, 1, 6, tzinfo=ZoneInfo("America/New_York"))


async def test_a_repeated_dst_hour_runs_once_and_a_skipped_hour_runs_right_after_the_gap(recorder: Recorder) -> None:
    clock = FakeClock(datetime(2030, 3, 30, tzinfo=UTC))
    ran: list[datetime] = []

    async def job() -> None:
        ran.append(clock.now())

    async with Cron(clock=clock, location="Europe/Berlin") as cron:
        cron.add("30 2 * * *", job)
        await clock.play(timedelta(days=2), cron)
        clock.set(datetime(2030, 10, 26, 12, tzinfo=UTC))
        await cron.done()
        ran.append(clock.now())
        await clock.play(timedelta(days=1), cron)
    assert ran[1] == datetime(2030, 3, 31, 1, tzinfo=UTC)  # 03:00, right after the gap
    assert ran[-1] == datetime(2030, 10, 27, 0, 30, tzinfo=UTC)
    assert len(ran) == 5  # two in spring, the late one, the mark, one in autumn


async def test_a_wall_clock_set_back_recomputes_all_next_times(
    cron: Cron, clock: FakeClock, recorder: Recorder
) -> None:
    cron.add("@hourly", recorder.job("a"), name="a")
    start = clock.now()
    await clock.play(5 * HOUR, cron)
    clock.set(start + timedelta(minutes=30))
    assert known(cron, "a").next == start + HOUR
    await clock.play(HOUR, cron)
    assert len(recorder.lines) == 6


async def test_a_suspended_scheduler_runs_missed_ticks_once_when_it_wakes_up(
    cron: Cron, clock: FakeClock, recorder: Recorder
) -> None:
    cron.add("@every 1s", recorder.job("a"))
    clock.set(clock.now() + HOUR)
    await cron.done()
    assert recorder.lines == ["a"]


def test_a_minimum_interval_below_one_second_is_refused() -> None:
    with pytest.raises(Invalid, match=r"min_every is 0:00:00\.5") as refused:
        Cron(min_every=timedelta(milliseconds=500))
    assert refused.value.field == "min_every"


class _Fragile(ZoneInfo):
    broken = False

    def utcoffset(self, moment: datetime | None) -> timedelta | None:
        if self.broken:
            raise RuntimeError("no zone data")
        return super().utcoffset(moment)


async def test_an_entry_whose_next_time_cannot_be_computed_does_not_stop_other_entries(
    clock: FakeClock, recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    zone = _Fragile("Europe/Berlin")
    async with Cron(clock=clock, location=zone) as cron:
        cron.add("* * * * *", recorder.job("odd"), name="odd")
        cron.add("CRON_TZ=UTC * * * * *", recorder.job("even"), name="even")
        zone.broken = True
        await clock.play("3m", cron)
        assert recorder.lines == ["even"] * 3
        assert known(cron, "odd").next is None
        assert "entry odd does not run until" in caplog.text
        zone.broken = False
        cron.update("odd", spec="* * * * *")
        await clock.play("1m", cron)
        assert "odd" in recorder.lines
