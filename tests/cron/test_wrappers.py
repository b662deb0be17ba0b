"""Wrappers of jobs, on the scheduler's clock."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from tests.cron.recorder import Ends, Recorder, let_run, run
from windlass.cron import (
    Call,
    Cron,
    FakeClock,
    JobContext,
    JobResult,
    JobTimedOut,
    Observer,
    Skip,
    delay_if_running,
    jitter,
    job_context,
    max_concurrent,
    max_concurrent_skip,
    recover,
    retry_with_backoff,
    skip_if_running,
    timeout,
)
from windlass.errors import Invalid

SECOND = timedelta(seconds=1)


@pytest.fixture
async def cron(clock: FakeClock, ends: Ends) -> AsyncIterator[Cron]:
    async with Cron(clock=clock, observers=[Observer(on_job_complete=ends.append)]) as running:
        yield running


async def test_recover_logs_a_failure_outside_an_execution_and_observers_still_receive_it(
    cron: Cron, recorder: Recorder, ends: Ends, caplog: pytest.LogCaptureFixture
) -> None:
    cron.add("@triggered", recorder.failing("a"), name="a", wrappers=[recover(level=logging.WARNING)])
    await run(cron, "a")
    assert [record.levelname for record in caplog.records if "failed" in record.message] == ["WARNING"]
    assert ends.results == ["failure"]
    assert isinstance(ends[0].error, ValueError)


async def test_recover_returns_success_to_outer_wrappers(cron: Cron, recorder: Recorder) -> None:
    cron.add("@triggered", recorder.failing("a"), name="a", wrappers=[retry_with_backoff(5), recover()])
    await run(cron, "a")
    assert recorder.lines == ["a"]


async def test_skip_if_running_skips_only_overlapping_starts_of_the_same_entry(
    cron: Cron, recorder: Recorder, ends: Ends
) -> None:
    wrapper = skip_if_running()
    job, gate = recorder.held("a")
    cron.add("@triggered", job, name="a", wrappers=[wrapper])
    cron.add("@triggered", recorder.job("b"), name="b", wrappers=[wrapper])
    for name in "aab":
        cron.trigger(name)
    await let_run()
    assert recorder.lines == ["a", "b"]
    assert ends.results == ["skipped", "success"]
    assert str(ends[0].error) == "an earlier start of it is still running"
    gate.set()
    await cron.done()
    await run(cron, "a")
    assert recorder.lines == ["a", "b", "a"]


async def test_delay_if_running_serializes_overlapping_starts(
    cron: Cron, clock: FakeClock, recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    job, gate = recorder.held("a")
    cron.add("@triggered", job, name="a", wrappers=[delay_if_running()])
    for _ in range(3):
        cron.trigger("a")
    await let_run()
    assert recorder.lines == ["a"]
    clock.advance(61)
    gate.set()
    await cron.done()
    assert recorder.lines == ["a", "a", "a"]
    assert "waited 0:01:01" in caplog.text


@pytest.mark.parametrize("skip", [False, True])
async def test_max_concurrent_limits_all_jobs_that_share_it(
    cron: Cron, recorder: Recorder, ends: Ends, skip: bool
) -> None:
    wrapper = max_concurrent_skip(2) if skip else max_concurrent(2)
    gates = []
    for name in "abcd":
        job, gate = recorder.held(name)
        gates.append(gate)
        cron.add("@triggered", job, name=name, wrappers=[wrapper])
        cron.trigger(name)
    await let_run()
    assert recorder.lines == ["a", "b"]
    assert ends.results == (["skipped", "skipped"] if skip else [])
    gates[0].set()
    await let_run()
    assert recorder.lines == (["a", "b"] if skip else ["a", "b", "c"])
    for gate in gates:
        gate.set()
    await cron.done()
    assert len(recorder.lines) == (2 if skip else 4)


@pytest.mark.parametrize("make", [max_concurrent, max_concurrent_skip])
def test_a_max_concurrent_of_zero_is_refused(make: type) -> None:
    with pytest.raises(Invalid):
        make(0)


async def test_a_job_waiting_for_a_max_concurrent_slot_is_skipped_when_the_scheduler_stops(
    clock: FakeClock, recorder: Recorder, ends: Ends
) -> None:
    async with Cron(clock=clock, observers=[Observer(on_job_complete=ends.append)]) as cron:
        job, gate = recorder.held("a")
        cron.add("@triggered", job, name="a", wrappers=[max_concurrent(1)])
        cron.trigger("a")
        cron.trigger("a")
        await let_run()
        asyncio.get_running_loop().call_later(0, gate.set)
    assert recorder.lines == ["a"]
    assert sorted(ends.results) == ["skipped", "success"]


async def test_jitter_delays_starts_within_its_bound(cron: Cron, clock: FakeClock) -> None:
    began: list[float] = []
    start = clock.now()

    async def job() -> None:
        began.append((clock.now() - start).total_seconds())

    for _ in range(20):
        cron.add("@triggered", job, wrappers=[jitter(10 * SECOND)], run_immediately=True)
    await clock.play(10, cron)
    assert len(began) == 20
    assert all(0 <= moment < 10 for moment in began)
    assert len(set(began)) > 1


async def test_zero_jitter_and_zero_timeout_have_no_effect(cron: Cron, clock: FakeClock, recorder: Recorder) -> None:
    cron.add("@triggered", recorder.job("a"), name="a", wrappers=[jitter(timedelta()), timeout(timedelta())])
    await run(cron, "a")
    assert recorder.lines == ["a"]
    assert clock.timer_count == 0


async def test_a_stop_skips_a_start_delayed_by_jitter(clock: FakeClock, recorder: Recorder, ends: Ends) -> None:
    async with Cron(clock=clock, observers=[Observer(on_job_complete=ends.append)]) as cron:
        cron.add("@triggered", recorder.job("a"), name="a", wrappers=[jitter(timedelta(hours=1))])
        cron.trigger("a")
        await clock.until_timers(1)
    assert recorder.lines == []
    assert ends.results == ["skipped"]
    assert clock.timer_count == 0


async def test_a_timeout_cancels_an_async_job_and_calls_on_timeout(cron: Cron, clock: FakeClock, ends: Ends) -> None:
    told: list[JobContext] = []
    cleaned_up = asyncio.Event()

    async def job() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned_up.set()

    cron.add("@triggered", job, name="a", wrappers=[timeout(SECOND, on_timeout=told.append)])
    cron.trigger("a")
    await clock.until_timers(1)
    clock.advance(0.5)
    await let_run()
    assert ends == []
    clock.advance(0.5)
    await cron.done()
    await cleaned_up.wait()
    assert ends.results == ["failure"]
    assert isinstance(ends[0].error, JobTimedOut)
    assert ends[0].duration == SECOND
    assert [context.name for context in told] == ["a"]


async def test_a_timeout_cancels_the_context_of_a_sync_job_and_abandons_its_thread(
    cron: Cron, clock: FakeClock, ends: Ends
) -> None:
    saw_it = threading.Event()

    def job() -> None:
        context = job_context()
        assert context is not None
        if context.wait_cancelled(5):
            saw_it.set()

    cron.add("@triggered", job, name="a", wrappers=[timeout(SECOND)])
    cron.trigger("a")
    await clock.until_timers(1)
    clock.advance(1)
    await cron.done()
    assert ends.results == ["failure"]
    assert saw_it.wait(5)


async def test_a_timed_out_job_may_clean_up_during_the_grace(cron: Cron, clock: FakeClock, ends: Ends) -> None:
    tidy = asyncio.Event()

    async def job() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await tidy.wait()

    cron.add("@triggered", job, name="a", wrappers=[timeout(SECOND, grace=5 * SECOND)])
    cron.trigger("a")
    await clock.until_timers(1)
    clock.advance(1)
    await let_run()
    assert ends == []
    clock.advance(5)
    await cron.done()
    assert ends.results == ["failure"]
    tidy.set()
    await let_run()


async def test_a_job_that_ends_before_its_timeout_leaves_no_timer(
    cron: Cron, clock: FakeClock, recorder: Recorder, ends: Ends
) -> None:
    cron.add("@triggered", recorder.job("a"), name="a", wrappers=[timeout(SECOND)])
    await run(cron, "a")
    assert ends.results == ["success"]
    assert clock.timer_count == 0


async def test_a_job_that_raises_skip_is_recorded_as_skipped(cron: Cron, ends: Ends) -> None:
    def job() -> None:
        raise Skip("no new files")

    cron.add("@triggered", job, name="a", wrappers=[recover(), retry_with_backoff(3)])
    await run(cron, "a")
    assert ends[0].result is JobResult.SKIPPED
    assert str(ends[0].error) == "no new files"


async def test_scheduler_wrappers_wrap_entry_wrappers(clock: FakeClock, recorder: Recorder) -> None:
    async with Cron(clock=clock, wrappers=[skip_if_running(), delay_if_running()]) as cron:
        job, gate = recorder.held("a")
        cron.add("@triggered", job, name="a", wrappers=[retry_with_backoff(1)])
        cron.trigger("a")
        cron.trigger("a")
        await let_run()
        gate.set()
        await cron.done()
    assert recorder.lines == ["a"]


async def test_an_exception_in_a_wrapper_callback_is_logged_and_ignored(
    cron: Cron, clock: FakeClock, ends: Ends, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*news: object) -> None:
        raise RuntimeError("callback")

    async def job() -> None:
        await asyncio.Event().wait()

    wrappers = [retry_with_backoff(1, on_retry=broken), timeout(SECOND, on_timeout=broken)]
    cron.add("@triggered", job, name="a", wrappers=wrappers)
    cron.trigger("a")
    while not ends:
        await let_run()
        clock.advance(1)
    assert isinstance(ends[0].error, JobTimedOut)
    assert sum("a callback of job a raised" in record.message for record in caplog.records) == 3


async def test_a_slot_granted_to_a_cancelled_job_passes_to_the_next_waiter(cron: Cron, recorder: Recorder) -> None:
    limit = max_concurrent(1)
    waiting: list[asyncio.Task[Any] | None] = []

    def noted(call: Call) -> Call:
        async def inner() -> Any:
            waiting.append(asyncio.current_task())
            return await call()

        return inner

    def cutting_off(call: Call) -> Call:
        async def inner() -> Any:
            await call()
            assert waiting[0] is not None
            waiting[0].cancel()  # it was given the turn a moment ago and does not know yet

        return inner

    job, gate = recorder.held("a")
    for name, work, outside in [
        ("a", job, cutting_off),
        ("b", recorder.job("b"), noted),
        ("c", recorder.job("c"), noted),
    ]:
        cron.add("@triggered", work, name=name, wrappers=[outside, limit])
        cron.trigger(name)
    await let_run()
    gate.set()
    async with asyncio.timeout(30):
        await cron.done()
    assert recorder.lines == ["a", "c"]


async def test_a_failure_recovered_inside_a_timeout_is_still_observed(
    cron: Cron, recorder: Recorder, ends: Ends
) -> None:
    cron.add("@triggered", recorder.failing("a"), name="a", wrappers=[timeout(SECOND), recover()])
    await run(cron, "a")
    assert ends.results == ["failure"]


async def test_a_stop_cancels_the_context_of_a_job_inside_a_timeout(clock: FakeClock) -> None:
    told: list[bool] = []
    began = asyncio.Event()

    def job() -> None:
        context = job_context()
        assert context is not None
        loop.call_soon_threadsafe(began.set)
        told.append(context.wait_cancelled(5))

    loop = asyncio.get_running_loop()
    async with Cron(clock=clock) as cron:
        cron.add("@triggered", job, name="a", wrappers=[timeout(SECOND)])
        cron.trigger("a")
        await began.wait()
    assert told == [True]
