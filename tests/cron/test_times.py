"""One-off times, intervals, durations in any notation, late ticks, and changing an entry."""

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.cron.recorder import Recorder
from windlass.cron import (
    CircuitBreaker,
    Cron,
    Duration,
    FakeClock,
    InvalidName,
    JobStarted,
    Missed,
    Observer,
    Spec,
    jitter,
    parse,
    retry_with_backoff,
    timeout,
)
from windlass.errors import Invalid, InvalidCron

HOUR, MINUTE, SECOND = timedelta(hours=1), timedelta(minutes=1), timedelta(seconds=1)


# One-off times and intervals


async def test_a_datetime_runs_once_at_that_moment(cron: Cron, clock: FakeClock, recorder: Recorder) -> None:
    at = clock.now() + timedelta(hours=3, milliseconds=500)
    cron.add(at, recorder.job("a"), name="a")
    entry = cron.entry("a")
    assert entry is not None
    assert (entry.next, entry.run_once, entry.spec) == (at, True, f"@at {at.isoformat()}")
    await clock.play(3 * HOUR, cron)
    assert recorder.lines == []
    await clock.play(SECOND, cron)
    assert recorder.lines == ["a"]
    assert cron.entry("a") is None
    await clock.play(timedelta(days=800), cron)
    assert recorder.lines == ["a"]


def test_a_datetime_in_the_past_is_refused(cron: Cron, clock: FakeClock) -> None:
    with pytest.raises(Invalid, match=r"has passed.*missed='once'") as raised:
        cron.add(clock.now() - SECOND, print)
    assert raised.value.field == "spec"
    assert cron.entries() == []


@pytest.mark.parametrize("missed", ["once", "all"])
async def test_a_datetime_in_the_past_runs_if_its_missed_policy_catches_up(
    cron: Cron, clock: FakeClock, recorder: Recorder, missed: Any
) -> None:
    cron.add(clock.now() - HOUR, recorder.job("a"), missed=missed)
    await cron.done()
    assert recorder.lines == ["a"]
    assert cron.entries() == []


async def test_a_datetime_in_the_past_beyond_its_grace_is_skipped(
    cron: Cron, clock: FakeClock, recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    cron.add(clock.now() - HOUR, recorder.job("a"), name="a", missed="once", grace="30m")
    await cron.done()
    assert recorder.lines == []
    assert cron.entries() == []
    assert "entry a: the tick of 2029-12-31 23:00:00+00:00 was skipped" in caplog.text


@pytest.mark.parametrize(("missed", "runs"), [("late", 1), ("skip", 0), ("once", 1)])
async def test_a_datetime_that_passes_before_the_start_is_a_late_tick(
    clock: FakeClock, recorder: Recorder, missed: Any, runs: int
) -> None:
    cron = Cron(clock=clock)
    cron.add(clock.now() + HOUR, recorder.job("a"), missed=missed)
    clock.advance("2h")
    async with cron:
        await cron.done()
        assert cron.entries() == []
    assert len(recorder.lines) == runs


def test_a_datetime_without_a_time_zone_is_refused(cron: Cron) -> None:
    with pytest.raises(Invalid, match="without a time zone"):
        cron.add(datetime(2040, 1, 1), print)  # noqa: DTZ001


async def test_a_timedelta_is_an_interval(cron: Cron, clock: FakeClock, recorder: Recorder) -> None:
    cron.add(90 * SECOND, recorder.job("a"), name="a")
    await clock.play(timedelta(minutes=6), cron)
    assert len(recorder.lines) == 4


@pytest.mark.parametrize("interval", [timedelta(), -SECOND, timedelta(seconds=1.5)])
def test_an_interval_must_be_a_positive_whole_number_of_seconds(cron: Cron, interval: timedelta) -> None:
    with pytest.raises(Invalid, match="whole number of seconds"):
        cron.add(interval, print)


def test_an_interval_below_the_minimum_is_refused() -> None:
    with pytest.raises(InvalidCron, match="out of range"):
        Cron(min_every="1m").add(30 * SECOND, print)


@pytest.mark.parametrize("spec", [5, None, b"@hourly"])
def test_a_spec_of_an_unsupported_type_is_refused(cron: Cron, spec: Any) -> None:
    with pytest.raises(Invalid, match=r"^spec is ") as raised:
        cron.add(spec, print)
    assert raised.value.field == "spec"


def test_the_public_parser_returns_a_spec_with_upcoming_times() -> None:
    spec = parse("0 0 13 * FRI", zone="Europe/Berlin")
    assert isinstance(spec, Spec)
    assert [at.strftime("%a %d") for at in spec.upcoming(datetime(2030, 1, 1, tzinfo=UTC), 2)] == ["Fri 13", "Fri 13"]


# Durations


FORMS = [5, 5.0, "5s", 5 * SECOND]


@pytest.mark.parametrize("form", FORMS, ids=repr)
async def test_durations_are_accepted_as_seconds_strings_or_timedeltas(
    clock: FakeClock, recorder: Recorder, form: Duration
) -> None:
    before = clock.now()
    cron = Cron(clock=clock, min_every=form)
    async with cron:
        cron.add("@every 5s", recorder.job("a"), name="a", grace=form)
        entry = cron.entry("a")
        assert entry is not None
        assert entry.grace == 5 * SECOND
        await clock.play(form, cron)
        assert clock.now() - before == 5 * SECOND
        assert cron.wait(timeout=form)
    assert cron.stop(form)
    assert recorder.lines == ["a"]
    assert CircuitBreaker(1, form).cooldown == 5 * SECOND


@pytest.mark.parametrize("form", FORMS, ids=repr)
async def test_wrappers_accept_durations_in_any_form(
    cron: Cron, clock: FakeClock, recorder: Recorder, form: Duration
) -> None:
    stuck, _ = recorder.held("stuck")
    retry = retry_with_backoff(1, initial=form, longest=form)
    cron.add("@triggered", stuck, name="stuck", wrappers=timeout(form, grace=form))
    cron.add("@triggered", recorder.failing("retried"), name="retried", wrappers=retry)
    cron.add("@triggered", recorder.job("late"), name="late", wrappers=jitter(form))
    handles = [cron.trigger(name) for name in ("stuck", "retried", "late")]
    await asyncio.sleep(0)
    clock.advance("6s")
    reasons = [list((await handle).reasons.values()) for handle in handles]
    assert reasons == [["JobTimedOut: it took longer than 5 s"], ["ValueError: retried is broken"], []]
    assert sorted(recorder.lines) == ["late", "retried", "retried", "stuck"]


@pytest.mark.parametrize("value", ["5", "soon", True, float("nan"), float("inf"), None, [5]])
def test_an_invalid_duration_is_refused_with_the_parameter_name(value: Any) -> None:
    with pytest.raises(Invalid, match=r"^limit is ") as raised:
        timeout(value)
    assert raised.value.field == "limit"


def test_a_negative_grace_is_refused(cron: Cron) -> None:
    with pytest.raises(Invalid, match=r"^grace is -1; it must not be negative"):
        cron.add("@hourly", print, grace=-1)


# Ticks that come late


async def after_a_sleep(clock: FakeClock, spec: str, sleep: timedelta, **options: Any) -> list[datetime]:
    """Return the scheduled times of the jobs that run when a suspended scheduler wakes up."""
    started: list[JobStarted] = []
    async with Cron(clock=clock, observers=Observer(on_job_start=started.append)) as cron:
        cron.add(spec, Recorder().job("a"), name="a", **options)
        clock.set(clock.now() + sleep)
        await cron.done()
        entry = cron.entry("a")
        assert entry is None or entry.next is None or entry.next > clock.now()
    return [event.scheduled for event in started]


@pytest.mark.parametrize("spec", ["@hourly", "@every 1h"])
@pytest.mark.parametrize(
    ("options", "hours"),
    [
        ({}, [3]),
        ({"missed": Missed.LATE}, [3]),
        ({"missed": Missed.SKIP}, []),
        ({"missed": Missed.ONCE}, [3]),
        ({"missed": Missed.ALL}, [1, 2, 3]),
        ({"missed": Missed.LATE, "grace": "10m"}, []),
        ({"missed": Missed.SKIP, "grace": "30m"}, [3]),
        ({"missed": Missed.ONCE, "grace": "10m"}, []),
        ({"missed": Missed.ALL, "grace": "90m"}, [2, 3]),
        ({"missed": Missed.ALL, "run_once": True}, [3]),
    ],
    ids=str,
)
async def test_after_a_suspend_the_missed_policy_and_the_grace_select_the_ticks_to_run(
    clock: FakeClock, spec: str, options: dict[str, Any], hours: list[int]
) -> None:
    start = clock.now()
    found = await after_a_sleep(clock, spec, timedelta(hours=3, minutes=20), **options)
    assert found == [start + n * HOUR for n in hours]


async def test_a_slightly_late_tick_counts_as_on_time(clock: FakeClock) -> None:
    start = clock.now()
    assert await after_a_sleep(clock, "@hourly", HOUR + 59 * SECOND, missed="skip") == [start + HOUR]
    start = clock.now().replace(minute=0, second=0)
    assert await after_a_sleep(clock, "@hourly", HOUR + 2 * MINUTE, missed="skip") == []


async def test_after_a_stall_a_short_interval_runs_only_the_tick_that_is_on_time(clock: FakeClock) -> None:
    start = clock.now()
    assert await after_a_sleep(clock, "@every 1s", timedelta(minutes=10), missed="skip") == [start + 10 * MINUTE]


async def test_missed_all_after_a_suspend_is_capped_at_100_runs(
    clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    start = clock.now()
    with caplog.at_level(logging.WARNING, "windlass.cron"):
        found = await after_a_sleep(clock, "* * * * *", timedelta(hours=5), missed="all")
    assert found == [start + n * MINUTE for n in range(1, 101)]
    assert "missed more than 100 runs" in caplog.text


async def test_a_skipped_tick_is_logged(clock: FakeClock, caplog: pytest.LogCaptureFixture) -> None:
    await after_a_sleep(clock, "@daily", timedelta(hours=30), missed="skip")
    assert "entry a: the tick of 2030-01-02 00:00:00+00:00 was skipped because it is 6:00:00 late" in caplog.text


async def test_missed_all_catches_up_on_every_tick_of_a_repeated_dst_hour(recorder: Recorder) -> None:
    clock = FakeClock(datetime(2030, 10, 26, 23, 55, tzinfo=UTC))
    async with Cron(clock=clock, location="Europe/Berlin") as cron:
        cron.add("*/15 * * * *", recorder.job("a"), missed="all")
        clock.set(datetime(2030, 10, 27, 2, 5, tzinfo=UTC))
        await cron.done()
    assert len(recorder.lines) == 9  # from 02:00 summer time to 03:00 winter time


# Changing an entry


async def test_upsert_applies_its_options_to_an_entry_that_exists(
    cron: Cron, clock: FakeClock, recorder: Recorder
) -> None:
    first = cron.add("@hourly", print, name="a", tags=["old"], missed="once", args=[1])
    cron.add("@triggered", recorder.job("parent"), name="parent")
    options: dict[str, Any] = {"tags": ["new"], "grace": "5m", "max_instances": 1, "args": [], "after": "parent"}
    assert cron.upsert("@daily", recorder.job("a"), name="a", paused=True, **options) == first
    entry = cron.entry("a")
    assert entry is not None
    assert (entry.spec, entry.missed, entry.args) == ("@daily", Missed.ONCE, ())
    assert (entry.grace, entry.paused, entry.max_instances, len(entry.wrappers)) == (5 * MINUTE, True, 1, 1)
    assert cron.entries(tag="old") == []
    assert [entry.name for entry in cron.entries(tag="new")] == ["a"]
    cron.update("a", paused=False, tags=["newer"])
    execution = await cron.trigger("parent")
    assert execution.results.keys() == {first, execution.root_id}
    assert recorder.lines == ["parent", "a"]


async def test_changing_an_option_keeps_the_state_of_the_wrappers(cron: Cron, recorder: Recorder) -> None:
    job, gate = recorder.held("a")
    cron.add("@triggered", job, name="a", max_instances=1)
    first = cron.trigger("a")
    cron.update("a", spec="@hourly", tags=["x"])
    assert (await cron.trigger("a")).result("a") == "skipped"
    gate.set()
    assert (await first).result("a") == "success"


def test_a_refused_update_changes_nothing(cron: Cron) -> None:
    cron.add("@hourly", print, name="a", tags=["x"])
    cron.add("@hourly", print, name="b", after="a")
    before = cron.entries(), cron.dependencies("a")
    for change in ({"spec": "bad"}, {"tags": "x"}, {"grace": "soon"}, {"after": "nobody"}, {"after": "b"}):
        with pytest.raises(Exception, match=r"spec|tags|grace|nobody|cycle|fields"):
            cron.update("a", **change)  # type: ignore[arg-type]
        assert (cron.entries(), cron.dependencies("a")) == before


def test_upsert_needs_a_name(cron: Cron) -> None:
    with pytest.raises(InvalidName):
        cron.upsert("@hourly", print)


async def test_an_update_can_request_an_immediate_run(cron: Cron, recorder: Recorder) -> None:
    cron.add("@triggered", recorder.job("a"), name="a")
    cron.update("a", run_immediately=True)
    await cron.done()
    assert recorder.lines == ["a"]


# repr


def test_the_repr_of_a_scheduler_shows_its_state_and_next_entry(clock: FakeClock) -> None:
    cron = Cron(clock=clock)
    assert repr(cron) == "<Cron stopped, 0 entries>"
    cron.add("@daily", print, name="later")
    cron.add("@hourly", print)
    assert repr(cron) == "<Cron stopped, 2 entries, next #2 at 2030-01-01 01:00:00+00:00>"
    with cron:
        assert repr(cron).startswith("<Cron running, 2 entries")
