"""Retries with backoff, on the scheduler's clock."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from tests.cron.recorder import Ends, Recorder, let_run
from windlass.cron import Cron, FakeClock, Observer, job_context, recover, retry_with_backoff, timeout

SECOND = timedelta(seconds=1)


@pytest.fixture
async def cron(clock: FakeClock, ends: Ends) -> AsyncIterator[Cron]:
    async with Cron(clock=clock, observers=[Observer(on_job_complete=ends.append)]) as running:
        yield running


@pytest.mark.parametrize(("retries", "tries"), [(0, 1), (3, 4)])
async def test_a_failing_job_is_retried_up_to_the_maximum(
    cron: Cron, clock: FakeClock, recorder: Recorder, ends: Ends, retries: int, tries: int
) -> None:
    cron.add("@triggered", recorder.failing("a"), name="a", wrappers=[retry_with_backoff(retries)])
    cron.trigger("a")
    await clock.play(3600, cron)
    assert recorder.lines == ["a"] * tries
    assert ends.results == ["failure"]
    assert isinstance(ends[0].error, ValueError)


async def test_backoff_grows_up_to_the_longest_delay_with_ten_percent_jitter(
    cron: Cron, clock: FakeClock, recorder: Recorder
) -> None:
    pauses: list[float] = []
    wrapper = retry_with_backoff(
        5,
        initial=SECOND,
        longest=10 * SECOND,
        multiplier=3,
        on_retry=lambda retry, pause, error: pauses.append(pause.total_seconds()),
    )
    cron.add("@triggered", recorder.failing("a"), name="a", wrappers=[wrapper])
    cron.trigger("a")
    await clock.play(3600, cron)
    for pause, expected in zip(pauses, [1, 3, 9, 10, 10], strict=True):
        assert expected * 0.9 <= pause <= expected * 1.1


async def test_max_retries_of_minus_one_retries_until_success(cron: Cron, clock: FakeClock, ends: Ends) -> None:
    tries = 0

    async def job() -> None:
        nonlocal tries
        tries += 1
        if tries < 50:
            raise ValueError

    cron.add("@triggered", job, name="a", wrappers=[retry_with_backoff(-1, longest=SECOND)])
    cron.trigger("a")
    await clock.play(100, cron)
    assert tries == 50
    assert ends.results == ["success"]


async def test_a_successful_retry_discards_failures_caught_by_recover(clock: FakeClock, ends: Ends) -> None:
    tries = 0

    async def job() -> None:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise ValueError

    async with Cron(clock=clock, observers=[Observer(on_job_complete=ends.append)]) as cron:
        cron.add("@triggered", job, name="a", wrappers=[retry_with_backoff(1), recover()])
        cron.add("@triggered", lambda: None, name="b")
        cron.add_dependency("b", "a")
        cron.trigger("a")
        await clock.play(10, cron)
    assert ends.results == ["success", "success"]


async def test_a_stop_ends_the_retries(clock: FakeClock, recorder: Recorder, ends: Ends) -> None:
    async with Cron(clock=clock, observers=[Observer(on_job_complete=ends.append)]) as cron:
        cron.add("@triggered", recorder.failing("a"), name="a", wrappers=[retry_with_backoff(-1)])
        cron.trigger("a")
        await clock.until_timers(1)
    assert recorder.lines == ["a"]
    assert ends.results == ["failure"]


async def test_a_timeout_inside_a_retry_applies_to_each_attempt(cron: Cron, clock: FakeClock, ends: Ends) -> None:
    cancelled_before: list[bool] = []

    async def job() -> None:
        context = job_context()
        assert context is not None
        cancelled_before.append(context.cancelled)
        if len(cancelled_before) < 3:
            await asyncio.Event().wait()

    cron.add("@triggered", job, name="a", wrappers=[retry_with_backoff(5), timeout(SECOND)])
    cron.trigger("a")
    while not ends:
        await let_run()
        clock.advance(1)
    assert cancelled_before == [False, False, False]
    assert ends.results == ["success"]
