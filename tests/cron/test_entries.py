"""Entries: adding, finding, changing, pausing, removing."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from tests.cron.recorder import Recorder, chain, run
from windlass.core.cron.expression import Cron as Spec
from windlass.core.cron.expression import parse
from windlass.cron import (
    CLASSIC,
    FULL,
    SECOND_OPTIONAL,
    WITH_SECONDS,
    Cron,
    DuplicateName,
    Entry,
    EntryNotFound,
    FakeClock,
    InvalidJob,
    InvalidName,
    JobContext,
    MaxEntriesReached,
    job_context,
)
from windlass.errors import Invalid, InvalidCron

HOUR = timedelta(hours=1)


def diary_of_one() -> None: ...


def diary_of_two() -> None: ...


def known(cron: Cron, key: str) -> Entry:
    entry = cron.entry(key)
    assert entry is not None
    return entry


def test_an_entry_tells_what_is_known_about_it(cron: Cron, clock: FakeClock) -> None:
    entry_id = cron.add("@hourly", print, name="report", tags=["a", "b"])
    entry = known(cron, "report")
    assert (entry.id, entry.name, entry.spec, entry.job) == (entry_id, "report", "@hourly", print)
    assert entry.tags == {"a", "b"}
    assert (entry.next, entry.prev) == (clock.now() + HOUR, None)
    assert not entry.paused
    assert cron.entry(entry_id) == entry


def test_before_the_start_the_next_time_is_the_one_it_would_have_if_started_now() -> None:
    clock = FakeClock()
    cron = Cron(clock=clock)
    cron.add("@triggered", print, name="never")
    cron.add("@daily", print, name="later")
    cron.add("@hourly", print, name="sooner")
    assert [entry.name for entry in cron.entries()] == ["sooner", "later", "never"]
    clock.advance("90m")
    assert known(cron, "sooner").next == clock.now() + HOUR / 2
    assert known(cron, "never").next is None


async def test_a_tick_moves_next_and_prev(cron: Cron, clock: FakeClock, recorder: Recorder) -> None:
    cron.add("@hourly", recorder.job("a"), name="a")
    await clock.play(HOUR, cron)
    assert known(cron, "a").prev == clock.now()
    assert known(cron, "a").next == clock.now() + HOUR


def test_entries_come_in_the_order_of_their_next_time(cron: Cron) -> None:
    for spec in ("@triggered", "@monthly", "@hourly", "@daily"):
        cron.add(spec, print, name=spec)
    assert [entry.name for entry in cron.entries()] == ["@hourly", "@daily", "@monthly", "@triggered"]


def test_entries_are_found_by_tag(cron: Cron) -> None:
    cron.add("@daily", print, name="a", tags=["x"])
    cron.add("@hourly", print, name="b", tags=["x", "y"])
    assert [entry.name for entry in cron.entries(tag="x")] == ["b", "a"]
    assert cron.entries(tag="z") == []


def test_entries_are_removed_by_id_name_and_tag(cron: Cron) -> None:
    one = cron.add("@daily", print)
    cron.add("@daily", print, name="two")
    for _ in range(3):
        cron.add("@daily", print, tags=["old"])
    assert cron.remove(one)
    assert cron.remove("two")
    assert not cron.remove("two")
    assert cron.remove_by_tag("old") == 3
    assert cron.remove_by_tag("old") == 0
    assert cron.entries() == []


async def test_a_removed_entry_does_not_run(cron: Cron, clock: FakeClock, recorder: Recorder) -> None:
    cron.add("@every 1s", recorder.job("a"), name="a")
    cron.remove("a")
    await clock.play(5, cron)
    assert recorder.lines == []


def test_a_name_is_given_once(cron: Cron) -> None:
    cron.add("@daily", print, name="a")
    with pytest.raises(DuplicateName):
        cron.add("@daily", print, name="a")
    cron.remove("a")
    cron.add("@daily", print, name="a")


@pytest.mark.parametrize("name", ["", "#1", 7])
def test_names_that_could_be_mistaken_are_refused(cron: Cron, name: str) -> None:
    with pytest.raises(InvalidName):
        cron.add("@daily", print, name=name)


def test_a_job_must_be_callable(cron: Cron) -> None:
    with pytest.raises(InvalidJob):
        cron.add("@daily", None)  # type: ignore[arg-type]


def test_a_spec_that_cannot_be_read_is_refused(cron: Cron) -> None:
    with pytest.raises(InvalidCron):
        cron.add("every day at noon", print)
    assert cron.entries() == []


def test_there_are_no_more_entries_than_allowed() -> None:
    cron = Cron(max_entries=2)
    cron.add("@daily", print, name="a")
    cron.add("@daily", print, name="b")
    with pytest.raises(MaxEntriesReached):
        cron.add("@daily", print)
    cron.remove("a")
    cron.add("@daily", print)


def test_the_shortest_interval_is_an_option() -> None:
    Cron().add("@every 1s", print)
    with pytest.raises(InvalidCron, match="out of range"):
        Cron(min_every=timedelta(minutes=1)).add("@every 59s", print)


def test_the_dialect_is_an_option() -> None:
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


async def test_specs_are_read_in_the_schedulers_zone_unless_they_name_one(clock: FakeClock) -> None:
    async with Cron(clock=clock, location="Europe/Berlin") as cron:
        cron.add("0 6 * * *", print, name="here")
        cron.add("TZ=America/New_York 0 6 * * *", print, name="there")
        assert known(cron, "here").next == datetime(2030, 1, 1, 6, tzinfo=ZoneInfo("Europe/Berlin"))
        assert known(cron, "there").next == datetime(2030, 1, 1, 6, tzinfo=ZoneInfo("America/New_York"))


async def test_the_hour_that_comes_twice_runs_once_and_the_one_that_is_skipped_right_after(recorder: Recorder) -> None:
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


async def test_a_wall_clock_that_goes_back_makes_all_next_times_be_found_anew(
    cron: Cron, clock: FakeClock, recorder: Recorder
) -> None:
    cron.add("@hourly", recorder.job("a"), name="a")
    start = clock.now()
    await clock.play(5 * HOUR, cron)
    clock.set(start + timedelta(minutes=30))
    assert known(cron, "a").next == start + HOUR
    await clock.play(HOUR, cron)
    assert len(recorder.lines) == 6


async def test_a_scheduler_that_slept_runs_what_it_missed_once(
    cron: Cron, clock: FakeClock, recorder: Recorder
) -> None:
    cron.add("@every 1s", recorder.job("a"))
    clock.set(clock.now() + HOUR)
    await cron.done()
    assert recorder.lines == ["a"]


async def test_a_paused_entry_lets_its_ticks_pass(cron: Cron, clock: FakeClock, recorder: Recorder) -> None:
    cron.add("@every 1s", recorder.job("a"), name="a", paused=True)
    await clock.play(3, cron)
    assert recorder.lines == []
    assert known(cron, "a").next == clock.now() + timedelta(seconds=1)
    cron.resume("a")
    cron.resume("a")
    await clock.play(2, cron)
    cron.pause("a")
    cron.pause("a")
    await clock.play(2, cron)
    assert recorder.lines == ["a", "a"]


async def test_a_paused_root_starts_no_execution(cron: Cron, clock: FakeClock, recorder: Recorder) -> None:
    cron.add("@every 1s", recorder.job("a"), name="a", paused=True)
    cron.add("@triggered", recorder.job("b"), name="b")
    cron.add_dependency("b", "a", "complete")
    await clock.play(2, cron)
    assert recorder.lines == []


def test_only_what_exists_can_be_paused_or_resumed(cron: Cron) -> None:
    for call in (cron.pause, cron.resume):
        with pytest.raises(EntryNotFound):
            call("nobody")


async def test_a_new_spec_counts_from_now_and_keeps_the_edges(cron: Cron, clock: FakeClock, recorder: Recorder) -> None:
    chain(cron, recorder, "a", "b")
    cron.update("a", spec="@every 5s")
    assert known(cron, "a").next == clock.now() + timedelta(seconds=5)
    await clock.play(5, cron)
    assert recorder.lines == ["a", "b"]
    cron.update("a", spec="@triggered")
    assert known(cron, "a").triggered
    await clock.play(60, cron)
    assert recorder.lines == ["a", "b"]


async def test_a_new_job_is_called_in_the_same_wrappers(clock: FakeClock, recorder: Recorder) -> None:
    async with Cron(clock=clock) as cron:
        cron.add("@triggered", recorder.job("old"), name="a")
        cron.update("a", job=recorder.job("new"))
        await run(cron, "a")
    assert recorder.lines == ["new"]


def test_a_mistake_in_an_update_changes_nothing(cron: Cron) -> None:
    cron.add("@hourly", print, name="a")
    with pytest.raises(InvalidCron):
        cron.update("a", spec="bogus", job=dict)
    assert (known(cron, "a").spec, known(cron, "a").job) == ("@hourly", print)
    with pytest.raises(EntryNotFound):
        cron.update("nobody", spec="@daily")


def test_upsert_adds_or_updates_by_name(cron: Cron) -> None:
    first = cron.upsert("@hourly", print, name="a")
    assert cron.upsert("@daily", dict, name="a") == first
    assert (known(cron, "a").spec, known(cron, "a").job) == ("@daily", dict)
    with pytest.raises(InvalidName):
        cron.upsert("@daily", print)


async def test_running_jobs_are_told_when_their_entry_is_removed_or_their_job_replaced(cron: Cron) -> None:
    contexts: list[JobContext] = []
    gate = asyncio.Event()

    async def job() -> None:
        context = job_context()
        assert context is not None
        contexts.append(context)
        await gate.wait()

    changes: dict[str, Callable[[], object]] = {
        "a": lambda: cron.remove("a"),
        "b": lambda: cron.update("b", job=job),
    }
    for name, change in changes.items():
        cron.add("@triggered", job, name=name)
        cron.trigger(name)
        await asyncio.sleep(0)
        cron.update(name, spec="@daily")
        assert not contexts[-1].cancelled
        change()
        assert contexts[-1].cancelled
        assert cron.is_job_running(contexts[-1].entry_id)
    gate.set()
    await cron.done()


async def test_run_once_runs_once(cron: Cron, clock: FakeClock, recorder: Recorder) -> None:
    cron.add("@every 1s", recorder.job("a"), name="a", run_once=True)
    await clock.play(5, cron)
    assert recorder.lines == ["a"]
    assert cron.entry("a") is None


async def test_run_immediately_runs_at_registration_and_then_as_scheduled(
    cron: Cron, clock: FakeClock, recorder: Recorder
) -> None:
    cron.add("@hourly", recorder.job("a"), name="a", run_immediately=True)
    await cron.done()
    assert recorder.lines == ["a"]
    assert known(cron, "a").next == clock.now() + HOUR
    await clock.play(HOUR, cron)
    assert recorder.lines == ["a", "a"]


async def test_run_immediately_waits_for_the_start(clock: FakeClock, recorder: Recorder) -> None:
    cron = Cron(clock=clock)
    cron.add("@hourly", recorder.job("a"), run_immediately=True)
    async with cron:
        await cron.done()
    async with cron:
        await cron.done()
    assert recorder.lines == ["a"]


def test_a_decorated_function_becomes_an_entry_of_its_name(cron: Cron) -> None:
    @cron.job("@daily", tags=["nightly"])
    def report() -> None: ...

    @cron.job("@daily", name="other")
    def named() -> None: ...

    nightly = cron.job("@daily")
    nightly(diary_of_one)
    nightly(diary_of_two)
    assert {"diary_of_one", "diary_of_two"} <= {entry.name for entry in cron.entries()}
    assert known(cron, "report").job is report
    assert known(cron, "other").job is named


async def test_whether_a_job_runs_can_be_asked_and_waited_for(cron: Cron, recorder: Recorder) -> None:
    job, gate = recorder.held("a")
    cron.add("@triggered", job, name="a")
    assert not cron.is_job_running("a")
    assert not cron.is_job_running("nobody")
    await cron.done("a")
    await cron.done("nobody")
    cron.trigger("a")
    assert cron.is_job_running("a")
    gate.set()
    await cron.done("a")
    assert not cron.is_job_running("a")


def test_a_shortest_period_below_a_second_is_refused() -> None:
    with pytest.raises(Invalid, match=r"min_every is 0:00:00\.5") as refused:
        Cron(min_every=timedelta(milliseconds=500))
    assert refused.value.field == "min_every"


class _Fragile(ZoneInfo):
    broken = False

    def utcoffset(self, moment: datetime | None) -> timedelta | None:
        if self.broken:
            raise RuntimeError("no zone data")
        return super().utcoffset(moment)


async def test_an_entry_whose_next_time_cannot_be_found_stops_no_other(
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
