"""Entries: adding, finding, changing, pausing, removing."""

import asyncio
from collections.abc import Callable
from datetime import timedelta

import pytest

from tests.cron.recorder import Recorder, chain, known, run
from windlass.cron import (
    Cron,
    DuplicateName,
    EntryNotFound,
    FakeClock,
    InvalidJob,
    InvalidName,
    JobContext,
    MaxEntriesReached,
    job_context,
)
from windlass.errors import InvalidCron

HOUR = timedelta(hours=1)


def first_job() -> None: ...


def second_job() -> None: ...


def test_an_entry_exposes_its_spec_job_tags_and_next_time(cron: Cron, clock: FakeClock) -> None:
    entry_id = cron.add("@hourly", print, name="report", tags=["a", "b"])
    entry = known(cron, "report")
    assert (entry.id, entry.name, entry.spec, entry.job) == (entry_id, "report", "@hourly", print)
    assert entry.tags == {"a", "b"}
    assert (entry.next, entry.prev) == (clock.now() + HOUR, None)
    assert not entry.paused
    assert cron.entry(entry_id) == entry


def test_before_the_start_the_next_time_is_computed_from_the_current_time() -> None:
    clock = FakeClock()
    cron = Cron(clock=clock)
    cron.add("@triggered", print, name="never")
    cron.add("@daily", print, name="later")
    cron.add("@hourly", print, name="sooner")
    assert [entry.name for entry in cron.entries()] == ["sooner", "later", "never"]
    clock.advance("90m")
    assert known(cron, "sooner").next == clock.now() + HOUR / 2
    assert known(cron, "never").next is None


async def test_a_tick_updates_next_and_prev(cron: Cron, clock: FakeClock, recorder: Recorder) -> None:
    cron.add("@hourly", recorder.job("a"), name="a")
    await clock.play(HOUR, cron)
    assert known(cron, "a").prev == clock.now()
    assert known(cron, "a").next == clock.now() + HOUR


def test_entries_are_listed_in_order_of_their_next_time(cron: Cron) -> None:
    for spec in ("@triggered", "@monthly", "@hourly", "@daily"):
        cron.add(spec, print, name=spec)
    assert [entry.name for entry in cron.entries()] == ["@hourly", "@daily", "@monthly", "@triggered"]


def test_entries_are_filtered_by_tag(cron: Cron) -> None:
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


def test_entry_names_are_unique(cron: Cron) -> None:
    cron.add("@daily", print, name="a")
    with pytest.raises(DuplicateName):
        cron.add("@daily", print, name="a")
    cron.remove("a")
    cron.add("@daily", print, name="a")


@pytest.mark.parametrize("name", ["", "#1", 7])
def test_empty_ambiguous_and_non_string_names_are_refused(cron: Cron, name: str) -> None:
    with pytest.raises(InvalidName):
        cron.add("@daily", print, name=name)


def test_a_job_must_be_callable(cron: Cron) -> None:
    with pytest.raises(InvalidJob):
        cron.add("@daily", None)  # type: ignore[arg-type]


def test_an_invalid_spec_is_refused(cron: Cron) -> None:
    with pytest.raises(InvalidCron):
        cron.add("every day at noon", print)
    assert cron.entries() == []


def test_max_entries_limits_the_number_of_entries() -> None:
    cron = Cron(max_entries=2)
    cron.add("@daily", print, name="a")
    cron.add("@daily", print, name="b")
    with pytest.raises(MaxEntriesReached):
        cron.add("@daily", print)
    cron.remove("a")
    cron.add("@daily", print)


async def test_a_paused_entry_skips_its_ticks(cron: Cron, clock: FakeClock, recorder: Recorder) -> None:
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


def test_pausing_or_resuming_an_unknown_entry_is_refused(cron: Cron) -> None:
    for call in (cron.pause, cron.resume):
        with pytest.raises(EntryNotFound):
            call("nobody")


async def test_a_new_spec_takes_effect_from_now_and_keeps_the_edges(
    cron: Cron, clock: FakeClock, recorder: Recorder
) -> None:
    chain(cron, recorder, "a", "b")
    cron.update("a", spec="@every 5s")
    assert known(cron, "a").next == clock.now() + timedelta(seconds=5)
    await clock.play(5, cron)
    assert recorder.lines == ["a", "b"]
    cron.update("a", spec="@triggered")
    assert known(cron, "a").triggered
    await clock.play(60, cron)
    assert recorder.lines == ["a", "b"]


async def test_an_update_replaces_the_job(clock: FakeClock, recorder: Recorder) -> None:
    async with Cron(clock=clock) as cron:
        cron.add("@triggered", recorder.job("old"), name="a")
        cron.update("a", job=recorder.job("new"))
        await run(cron, "a")
    assert recorder.lines == ["new"]


def test_an_invalid_update_changes_nothing(cron: Cron) -> None:
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


async def test_removing_an_entry_or_replacing_its_job_cancels_the_context_of_its_running_job(cron: Cron) -> None:
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


async def test_a_run_once_entry_runs_once_and_is_removed(cron: Cron, clock: FakeClock, recorder: Recorder) -> None:
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


def test_a_decorated_function_becomes_an_entry_with_its_name(cron: Cron) -> None:
    @cron.job("@daily", tags=["nightly"])
    def report() -> None: ...

    @cron.job("@daily", name="other")
    def named() -> None: ...

    nightly = cron.job("@daily")
    nightly(first_job)
    nightly(second_job)
    assert {"first_job", "second_job"} <= {entry.name for entry in cron.entries()}
    assert known(cron, "report").job is report
    assert known(cron, "other").job is named


async def test_a_caller_can_check_whether_a_job_runs_and_wait_for_its_end(cron: Cron, recorder: Recorder) -> None:
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
