"""Entries without a schedule, and triggering in general."""

import asyncio

import pytest

from tests.cron.recorder import Recorder, run
from windlass.cron import (
    Cron,
    EntryNotFound,
    EntryPaused,
    FakeClock,
    JobCompleted,
    JobStarted,
    NotRunning,
    Observer,
    job_context,
    skip_if_running,
)


@pytest.mark.parametrize("spec", ["@triggered", "@manual", "@none"])
async def test_a_triggered_entry_has_no_next_time_and_never_runs_by_itself(
    cron: Cron, clock: FakeClock, recorder: Recorder, spec: str
) -> None:
    cron.add(spec, recorder.job("a"), name="a")
    await clock.play(10, cron)
    entry = cron.entry("a")
    assert entry is not None
    assert entry.triggered
    assert (entry.next, entry.prev) == (None, None)
    assert recorder.lines == []


async def test_triggering_an_entry_runs_it_and_sets_prev(cron: Cron, clock: FakeClock, recorder: Recorder) -> None:
    entry_id = cron.add("@triggered", recorder.job("a"), name="a")
    cron.trigger("a")
    cron.trigger(entry_id)
    await cron.done()
    assert recorder.lines == ["a", "a"]
    entry = cron.entry("a")
    assert entry is not None
    assert entry.prev == clock.now()


def test_an_unknown_entry_cannot_be_triggered(cron: Cron) -> None:
    for key in (99, "nobody"):
        with pytest.raises(EntryNotFound):
            cron.trigger(key)


def test_a_paused_entry_cannot_be_triggered(cron: Cron) -> None:
    cron.add("@triggered", print, name="a", paused=True)
    with pytest.raises(EntryPaused) as raised:
        cron.trigger("a")
    assert raised.value.key == "a"


async def test_nothing_can_be_triggered_before_the_start_and_after_the_stop() -> None:
    cron = Cron(clock=FakeClock())
    cron.add("@triggered", print, name="a")
    with pytest.raises(NotRunning):
        cron.trigger("a")
    async with cron:
        pass
    with pytest.raises(NotRunning):
        cron.trigger("a")


async def test_wrappers_apply_to_triggers(cron: Cron, recorder: Recorder) -> None:
    job, gate = recorder.held("a")
    cron.add("@triggered", job, name="a", wrappers=[skip_if_running()])
    cron.trigger("a")
    cron.trigger("a")
    asyncio.get_running_loop().call_soon(gate.set)
    await cron.done()
    assert recorder.lines == ["a"]


async def test_a_triggered_job_has_a_live_context(cron: Cron, clock: FakeClock) -> None:
    seen: list[tuple[str, bool, object]] = []

    async def job() -> None:
        context = job_context()
        assert context is not None
        seen.append((context.name, context.cancelled, context.scheduled))

    cron.add("@triggered", job, name="a")
    await run(cron, "a")
    assert seen == [("a", False, clock.now())]


async def test_an_entry_with_a_schedule_can_be_triggered_too(cron: Cron, recorder: Recorder) -> None:
    cron.add("@yearly", recorder.job("a"), name="a")
    before = cron.entry("a")
    await run(cron, "a")
    after = cron.entry("a")
    assert recorder.lines == ["a"]
    assert before is not None
    assert after is not None
    assert after.next == before.next


async def test_a_triggered_entry_that_runs_immediately_does_so_once(
    cron: Cron, clock: FakeClock, recorder: Recorder
) -> None:
    cron.add("@triggered", recorder.job("a"), run_immediately=True)
    await clock.play(3600, cron)
    assert recorder.lines == ["a"]


async def test_a_new_spec_turns_a_triggered_entry_into_a_scheduled_one(cron: Cron) -> None:
    cron.add("@triggered", print, name="a")
    cron.update("a", spec="@daily")
    entry = cron.entry("a")
    assert entry is not None
    assert not entry.triggered


async def test_triggering_a_run_once_entry_removes_it(cron: Cron, recorder: Recorder) -> None:
    cron.add("@triggered", recorder.job("a"), name="a", run_once=True)
    await run(cron, "a")
    assert recorder.lines == ["a"]
    with pytest.raises(EntryNotFound):
        cron.trigger("a")


async def test_three_triggers_are_three_runs(cron: Cron, recorder: Recorder) -> None:
    cron.add("@triggered", recorder.job("a"), name="a")
    for _ in range(3):
        cron.trigger("a")
    await cron.done()
    assert recorder.lines == ["a"] * 3


async def test_observers_receive_one_start_and_one_completion_event(clock: FakeClock, recorder: Recorder) -> None:
    told: list[JobStarted | JobCompleted] = []
    async with Cron(clock=clock, observers=[Observer(on_job_start=told.append, on_job_complete=told.append)]) as cron:
        cron.add("@triggered", recorder.job("a"), name="a")
        await run(cron, "a")
    assert [type(event) for event in told] == [JobStarted, JobCompleted]
