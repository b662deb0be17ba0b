"""The circuit breaker: closed, open, half-open."""

import asyncio
from datetime import timedelta

import pytest

from tests.cron.recorder import Recorder, run
from windlass.cron import BreakerState, CircuitBreaker, Cron, FakeClock, circuit_breaker, timeout
from windlass.errors import Invalid

MINUTE = timedelta(minutes=1)
CLOSED, OPEN, HALF_OPEN = BreakerState


class ToggledJob:
    """A job that fails while `ill` is set."""

    def __init__(self) -> None:
        self.ill, self.runs = True, 0

    async def __call__(self) -> None:
        self.runs += 1
        if self.ill:
            raise ValueError("ill")


@pytest.fixture
def breaker() -> CircuitBreaker:
    return CircuitBreaker(3, MINUTE)


async def test_the_breaker_opens_after_consecutive_failures_and_skips_further_starts(
    cron: Cron, clock: FakeClock, breaker: CircuitBreaker
) -> None:
    job = ToggledJob()
    cron.add("@triggered", job, name="a", wrappers=[breaker])
    for failures in (1, 2, 3):
        assert (breaker.state, breaker.cooldown_ends) == (CLOSED, None)
        await run(cron, "a")
        assert breaker.failures == failures
    assert (breaker.state, breaker.last_failure) == (OPEN, clock.now())
    assert breaker.cooldown_ends == clock.now() + MINUTE
    await run(cron, "a")
    assert job.runs == 3


async def test_a_success_resets_the_failure_count(cron: Cron, breaker: CircuitBreaker) -> None:
    job = ToggledJob()
    cron.add("@triggered", job, name="a", wrappers=[breaker])
    for ill in (True, True, False, True, True):
        job.ill = ill
        await run(cron, "a")
    assert (breaker.state, breaker.failures) == (CLOSED, 2)


@pytest.mark.parametrize(("ill", "state"), [(False, CLOSED), (True, OPEN)])
async def test_after_the_cooldown_one_trial_start_closes_or_reopens_the_breaker(
    cron: Cron, clock: FakeClock, breaker: CircuitBreaker, ill: bool, state: BreakerState
) -> None:
    job = ToggledJob()
    cron.add("@triggered", job, name="a", wrappers=[breaker])
    for _ in range(3):
        await run(cron, "a")
    clock.advance(MINUTE)
    job.ill = ill
    await run(cron, "a")
    assert job.runs == 4
    assert (breaker.state, breaker.failures) == (state, 4 if ill else 0)


async def test_a_half_open_breaker_skips_other_starts_while_its_trial_runs(
    cron: Cron, clock: FakeClock, recorder: Recorder, breaker: CircuitBreaker
) -> None:
    cron.add("@triggered", recorder.failing("a"), name="a", wrappers=[breaker])
    for _ in range(3):
        await run(cron, "a")
    clock.advance(MINUTE)
    job, gate = recorder.held("trial")
    cron.update("a", job=job)
    cron.trigger("a")
    cron.trigger("a")
    await asyncio.sleep(0)
    assert breaker.state is HALF_OPEN
    gate.set()
    await cron.done()
    assert recorder.lines == ["a", "a", "a", "trial"]


async def test_state_changes_are_reported_to_on_change(cron: Cron, clock: FakeClock) -> None:
    told: list[tuple[BreakerState, BreakerState]] = []
    job = ToggledJob()
    wrapper = CircuitBreaker(1, MINUTE, on_change=lambda old, new: told.append((old, new)))
    cron.add("@triggered", job, name="a", wrappers=[wrapper])
    await run(cron, "a")
    clock.advance(MINUTE)
    job.ill = False
    await run(cron, "a")
    assert told == [(CLOSED, OPEN), (OPEN, HALF_OPEN), (HALF_OPEN, CLOSED)]


async def test_a_breaker_that_wraps_all_entries_keeps_separate_state_per_entry(
    clock: FakeClock, recorder: Recorder
) -> None:
    async with Cron(clock=clock, wrappers=[circuit_breaker(1, MINUTE)]) as cron:
        cron.add("@triggered", recorder.failing("bad"), name="bad")
        cron.add("@triggered", recorder.job("good"), name="good")
        for name in ("bad", "bad", "good"):
            await run(cron, name)
    assert recorder.lines == ["bad", "good"]


@pytest.mark.parametrize(("threshold", "cooldown"), [(0, MINUTE), (1, timedelta())])
def test_a_threshold_or_cooldown_of_zero_is_refused(threshold: int, cooldown: timedelta) -> None:
    with pytest.raises(Invalid):
        circuit_breaker(threshold, cooldown)


async def test_a_start_cancelled_by_a_timeout_counts_as_a_failure(
    cron: Cron, clock: FakeClock, recorder: Recorder
) -> None:
    breaker = CircuitBreaker(1, MINUTE)
    job, _ = recorder.held("a")
    cron.add("@triggered", job, name="a", wrappers=[timeout(MINUTE), breaker])
    cron.trigger("a")
    await clock.until_timers(1)
    clock.advance(MINUTE)
    await cron.done()
    await asyncio.sleep(0)
    assert breaker.state is OPEN
