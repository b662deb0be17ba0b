"""Which ticks start runs, by missed ticks, live runs and changes of the clock."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.instants import APIA, BERLIN, LORD_HOWE, NEW_YORK, SAO_PAULO, at, unhurried
from tests.unit.test_cron_properties import DAILY, TEXTS, moments
from windlass.core.cron import schedule as scheduling
from windlass.core.cron.expression import parse
from windlass.core.cron.schedule import (
    GRACE,
    CatchUp,
    Firing,
    Overlap,
    Schedule,
    between,
    due,
    fire,
    following,
    upcoming,
)
from windlass.errors import Invalid

NOON = datetime(2030, 3, 1, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)


def hourly(catch_up: CatchUp = CatchUp.ONE, overlap: Overlap = Overlap.ALLOW, **more: Any) -> Schedule:
    return Schedule(cron="0 * * * *", catch_up=catch_up, overlap=overlap, **{"next_run_at": NOON, **more})


# Catch-up


@pytest.mark.parametrize("catch_up", CatchUp)
@pytest.mark.parametrize("overlap", Overlap)
def test_a_tick_in_time_starts_a_run_under_every_policy(catch_up: CatchUp, overlap: Overlap) -> None:
    firing = fire(hourly(catch_up, overlap), NOON + timedelta(milliseconds=3), live=False)
    assert firing == Firing((NOON,), False, NOON + HOUR)


@pytest.mark.parametrize("catch_up", CatchUp)
def test_no_run_is_started_before_the_next_tick(catch_up: CatchUp) -> None:
    early = NOON - timedelta(microseconds=1)
    assert fire(hourly(catch_up), early, live=False) == Firing((), False, NOON)
    never = hourly(catch_up, next_run_at=None)
    assert fire(never, NOON, live=False) == Firing((), False, None)


@pytest.mark.parametrize(
    ("catch_up", "ticks"),
    [(CatchUp.NONE, []), (CatchUp.ONE, [3]), (CatchUp.ALL, [0, 1, 2, 3])],
)
def test_catch_up_starts_none_one_or_all_of_the_missed_ticks(catch_up: CatchUp, ticks: list[int]) -> None:
    firing = fire(hourly(catch_up), NOON + 3.5 * HOUR, live=False)
    assert firing.ticks == tuple(NOON + n * HOUR for n in ticks)
    assert firing.next_run_at == NOON + 4 * HOUR
    assert bool(firing.reason) == (catch_up is CatchUp.NONE)


def test_without_catching_up_the_latest_tick_still_has_a_grace_period() -> None:
    late = NOON + 3 * HOUR + GRACE
    assert fire(hourly(CatchUp.NONE), late, live=False).ticks == (NOON + 3 * HOUR,)
    too_late = fire(hourly(CatchUp.NONE), late + timedelta.resolution, live=False)
    assert (too_late.ticks, too_late.skipped_at) == ((), NOON + 3 * HOUR)
    assert too_late.next_run_at == NOON + 4 * HOUR


def test_catching_up_with_all_ticks_is_done_in_batches() -> None:
    found, now = hourly(CatchUp.ALL), NOON + 24 * HOUR
    seen: list[datetime] = []
    for portion in (10, 10, 5, 0):
        firing = fire(found, now, live=False, limit=10)
        assert len(firing.ticks) == portion
        seen += firing.ticks
        found = replace(found, next_run_at=firing.next_run_at)
    assert seen == [NOON + n * HOUR for n in range(25)]


def test_a_buffered_tick_is_not_lost_when_a_later_one_is_missed() -> None:
    waiting = hourly(CatchUp.NONE, Overlap.BUFFER, buffered_at=NOON - HOUR)
    firing = fire(waiting, NOON + timedelta(minutes=30), live=False)
    assert (firing.ticks, firing.skipped_at) == ((NOON - HOUR,), NOON)


# Overlap


def test_skip_starts_no_run_while_another_is_live() -> None:
    skipped = fire(hourly(overlap=Overlap.SKIP), NOON, live=True)
    assert skipped == Firing((), False, NOON + HOUR, None, NOON, "an earlier run was active")
    behind = fire(hourly(CatchUp.ALL, Overlap.SKIP), NOON + 2 * HOUR, live=False)
    assert (behind.ticks, behind.skipped_at) == ((NOON,), NOON + 2 * HOUR)


def test_replace_cancels_the_live_run_and_starts_the_latest_tick() -> None:
    assert fire(hourly(overlap=Overlap.REPLACE), NOON, live=True) == Firing((NOON,), True, NOON + HOUR)
    behind = fire(hourly(CatchUp.ALL, Overlap.REPLACE), NOON + 2 * HOUR, live=False)
    assert (behind.ticks, behind.replaces, behind.skipped_at) == ((NOON + 2 * HOUR,), False, NOON + HOUR)
    missed = fire(hourly(CatchUp.NONE, Overlap.REPLACE), NOON + 0.5 * HOUR, live=True)
    assert (missed.ticks, missed.replaces) == ((), False)


def test_buffer_keeps_one_tick_and_drops_the_next() -> None:
    first = fire(hourly(overlap=Overlap.BUFFER), NOON, live=True)
    assert first == Firing((), False, NOON + HOUR, buffered_at=NOON)
    waiting = hourly(overlap=Overlap.BUFFER, next_run_at=NOON + HOUR, buffered_at=NOON)
    second = fire(waiting, NOON + HOUR, live=True)
    assert (second.buffered_at, second.skipped_at) == (NOON, NOON + HOUR)
    free = fire(waiting, NOON + 0.5 * HOUR, live=False)
    assert free == Firing((NOON,), False, NOON + HOUR)
    both = fire(waiting, NOON + HOUR, live=False)
    assert both == Firing((NOON,), False, NOON + 2 * HOUR, buffered_at=NOON + HOUR)


# Zones: (cron, zone, the tick before, the ticks that follow)

CHANGES = [
    ("30 2 * * *", BERLIN, "2030-03-30T01:30Z", ["2030-03-31T01:00Z", "2030-04-01T00:30Z"]),  # no 02:30: at 03:00
    ("30 2 * * *", BERLIN, "2030-10-26T00:30Z", ["2030-10-27T00:30Z", "2030-10-28T01:30Z"]),  # 02:30 twice: the first
    ("0 0 * * *", SAO_PAULO, "2018-11-03T03:00Z", ["2018-11-04T03:00Z", "2018-11-05T02:00Z"]),  # no midnight: at 01:00
    ("0 0 * * *", SAO_PAULO, "2018-02-17T02:00Z", ["2018-02-18T03:00Z", "2018-02-19T03:00Z"]),  # 23:00 twice
    ("0 0 * * *", "Asia/Beirut", "2030-03-29T22:00Z", ["2030-03-30T22:00Z", "2030-03-31T21:00Z"]),  # no midnight
    ("15 2 * * *", LORD_HOWE, "2026-10-02T15:45Z", ["2026-10-03T15:30Z", "2026-10-04T15:15Z"]),  # 02:00 to 02:30
    ("0 12 * * *", APIA, "2011-12-29T22:00Z", ["2011-12-30T10:00Z", "2011-12-30T22:00Z"]),  # a day is missing
    ("0 * * * *", NEW_YORK, "2030-03-10T06:00Z", ["2030-03-10T07:00Z", "2030-03-10T08:00Z"]),  # an interval continues
]


@pytest.mark.parametrize(("cron", "zone", "before", "expected"), CHANGES)
@pytest.mark.parametrize("catch_up", [CatchUp.ONE, CatchUp.ALL])
def test_every_tick_around_a_clock_change_fires_once(
    cron: str, zone: str, before: str, expected: list[str], catch_up: CatchUp
) -> None:
    found = Schedule(cron=cron, timezone=zone, catch_up=catch_up)
    found = replace(found, next_run_at=following(found, at(before)))
    seen: list[datetime] = []
    moment = at(before)
    while moment < at(expected[-1]):
        moment += timedelta(minutes=5)
        firing = fire(found, moment, live=False)
        seen += firing.ticks
        found = replace(found, next_run_at=firing.next_run_at)
    assert seen == [at(text) for text in expected]


@pytest.mark.parametrize(("cron", "zone", "before", "expected"), CHANGES)
def test_a_backfill_has_the_same_ticks_as_the_schedule(cron: str, zone: str, before: str, expected: list[str]) -> None:
    end = at(expected[-1]) + timedelta(seconds=1)
    start = at(before) + timedelta(seconds=1)
    assert between(Schedule(cron=cron, timezone=zone), start, end, limit=100) == [at(text) for text in expected]


# Properties of every schedule


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    others = ["@every 90s", "@every 17m", "@every 36h", "@triggered", "*/7 * * * * *"]
    cron = draw(TEXTS | DAILY | st.sampled_from(others))
    zone = draw(st.sampled_from(["UTC", BERLIN, SAO_PAULO, LORD_HOWE, APIA, NEW_YORK]))
    policies = {"catch_up": draw(st.sampled_from(CatchUp)), "overlap": draw(st.sampled_from(Overlap))}
    found = Schedule(cron=cron, timezone=zone, **policies)
    return replace(found, next_run_at=following(found, draw(moments())))


@unhurried
@given(schedules(), st.timedeltas(timedelta(seconds=-5), timedelta(days=400)), st.booleans())
def test_a_firing_never_moves_a_schedule_back(found: Schedule, passed: timedelta, live: bool) -> None:
    first = found.next_run_at
    now = (first or NOON) + passed
    firing = fire(found, now, live=live, limit=50)
    assert list(firing.ticks) == sorted(set(firing.ticks))
    assert all(first is not None and first <= tick <= now for tick in firing.ticks)
    assert first is None or firing.next_run_at is None or firing.next_run_at >= first
    if firing.next_run_at is not None and firing.next_run_at <= now:
        assert found.catch_up is CatchUp.ALL
        assert len(due(found, now, limit=50)[0]) == 50
    if found.overlap is not Overlap.ALLOW:
        assert len(firing.ticks) <= 1
        assert not (live and firing.ticks) or firing.replaces
    if found.overlap is not Overlap.BUFFER:
        assert firing.buffered_at is None


@unhurried
@given(schedules(), st.timedeltas(timedelta(), timedelta(hours=6)) | st.just(timedelta(days=1)))
def test_the_latest_tick_is_the_last_of_all_ticks(found: Schedule, passed: timedelta) -> None:
    now = (found.next_run_at or NOON) + passed
    every, after_all = due(replace(found, catch_up=CatchUp.ALL), now, limit=100_000)
    latest, after_one = due(replace(found, catch_up=CatchUp.ONE), now)
    assert latest == every[-1:]
    assert after_one == after_all


@unhurried
@given(schedules(), st.lists(st.timedeltas(timedelta(seconds=1), timedelta(hours=3)), min_size=1, max_size=8))
def test_catching_up_with_all_fires_each_tick_once_for_any_times_of_evaluation(
    found: Schedule, beats: list[timedelta]
) -> None:
    found = replace(found, catch_up=CatchUp.ALL, overlap=Overlap.ALLOW)
    first = now = found.next_run_at or NOON
    seen: list[datetime] = []
    for beat in beats:
        now += beat
        firing = fire(found, now, live=False, limit=30)
        seen += firing.ticks
        found = replace(found, next_run_at=firing.next_run_at)
    while (firing := fire(found, now, live=False, limit=1000)).ticks:
        seen += firing.ticks
        found = replace(found, next_run_at=firing.next_run_at)
    wanted = replace(found, next_run_at=first if seen else None)
    assert seen == due(wanted, now, limit=10**6)[0]


@unhurried
@given(schedules(), st.integers(1, 20))
def test_a_preview_lists_the_ticks_that_will_fire(found: Schedule, count: int) -> None:
    now = (found.next_run_at or NOON) - timedelta(microseconds=1)
    wanted = upcoming(found, now, count)
    assert len(wanted) <= count
    assert [tick.astimezone(UTC) for tick in wanted] == due(
        replace(found, catch_up=CatchUp.ALL), datetime(2200, 1, 1, tzinfo=UTC), limit=count
    )[0]


def test_an_invalid_schedule_raises_invalid() -> None:
    for bad in (Schedule(cron="at noon"), Schedule(cron="0 12 * * *", timezone="Mars/Olympus")):
        with pytest.raises(Invalid):
            fire(replace(bad, next_run_at=NOON), NOON, live=False)


def test_the_key_of_a_tick_does_not_depend_on_the_time_zone_of_its_moment() -> None:
    id_ = UUID(int=7)
    local = NOON.astimezone(parse("0 0 * * *", zone=BERLIN).zone)
    assert scheduling.key(id_, local) == scheduling.key(id_, NOON) == f"schedule/{id_}/2030-03-01T12:00:00Z"
