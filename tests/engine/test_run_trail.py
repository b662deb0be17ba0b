"""The trail of a run: its end is recorded once, with the reason, after the ends of its steps."""

from datetime import timedelta
from uuid import UUID

from tests.engine.harness import Fails, ManualWorker, begin, node, publish, tick
from windlass.core.workflows.step import HookAction, Parallel, SleepAction
from windlass.engine.database import Tenant
from windlass.engine.runs import control as runs
from windlass.testing import Clock

HOUR = timedelta(hours=1)
NAP = SleepAction(HOUR)


async def trail(db: Tenant, run: UUID) -> list[tuple[str | None, str]]:
    return [(step.name if step else None, event.word) for step, event in await runs.events(db, run)]


async def ending(db: Tenant, run: UUID) -> list[tuple[str, str | None, str | None]]:
    """Return the events of the run itself, without the first."""
    lines = [event for step, event in await runs.events(db, run) if step is None]
    return [(event.word, event.code, event.reason) for event in lines[1:]]


async def test_a_cancelled_run_has_one_final_event_with_the_reason(db: Tenant, worker: ManualWorker) -> None:
    run = await begin(db, node("a"), node("nap", action=NAP))
    await runs.cancel(db, run, reason="enough")
    assert await ending(db, run) == [("cancelled", "cancelled", "enough")]
    assert (await trail(db, run))[-1] == (None, "cancelled")


async def test_an_expired_run_has_one_final_event_with_the_reason(db: Tenant, clock: Clock) -> None:
    run = await begin(db, node("nap", action=SleepAction(3 * HOUR)), max_duration=HOUR)
    clock.move(2 * HOUR)
    await tick(db)
    assert await ending(db, run) == [("timeout", "expired", "the run exceeded its max_duration")]
    assert (await trail(db, run))[-2:] == [("nap", "cancelled"), (None, "timeout")]


async def test_a_cancelled_held_run_has_one_final_event(db: Tenant, worker: ManualWorker) -> None:
    await publish(db, node("a"), concurrency=1)
    await begin(db)
    held = await begin(db)
    await runs.cancel(db, held, reason="not needed")
    assert await ending(db, held) == [("cancelled", "cancelled", "not needed")]


async def test_the_reason_of_a_failed_run_names_the_unhandled_failures(db: Tenant, worker: ManualWorker) -> None:
    run = await begin(db, node("a"), node("b"), node("c", "a"))
    await worker.play({"a": Fails(for_good=True), "b": Fails(for_good=True)})
    assert await ending(db, run) == [("failed", "unhandled", "steps a and b failed and no step handled it")]


async def test_the_end_of_a_run_is_recorded_after_the_end_of_its_last_sleep(db: Tenant, clock: Clock) -> None:
    run = await begin(db, node("nap", action=NAP))
    clock.move(2 * HOUR)
    await tick(db)
    assert await trail(db, run) == [(None, "running"), ("nap", "active"), ("nap", "succeeded"), (None, "completed")]


async def test_the_end_of_a_run_is_recorded_after_the_failure_that_ends_it(db: Tenant, worker: ManualWorker) -> None:
    run = await begin(db, node("a"), node("b", "a"))
    await worker.play({"a": Fails(for_good=True)})
    assert (await trail(db, run))[-3:] == [("a", "failed"), ("b", "skipped"), (None, "failed")]


async def test_the_end_of_a_run_is_recorded_after_the_timeout_of_its_callback(db: Tenant, clock: Clock) -> None:
    run = await begin(db, node("ask", action=HookAction(HOUR)))
    clock.move(2 * HOUR)
    await tick(db)
    assert (await trail(db, run))[-2:] == [("ask", "timed out"), (None, "failed")]


async def test_a_run_that_ends_as_it_starts_has_a_running_event_first(db: Tenant) -> None:
    run = await begin(db, node("a", fan_out=Parallel(0)))
    assert await trail(db, run) == [(None, "running"), ("a", "succeeded"), (None, "completed")]
    row = await runs.get(db, run)
    assert row.started_at is not None
    assert row.finished_at is not None


async def test_the_trail_of_a_step_contains_the_events_of_its_job(db: Tenant, worker: ManualWorker) -> None:
    run = await begin(db, node("a", max_attempts=2), node("b", "a"))
    await worker.play({"a": lambda job: Fails("no luck") if not job.attempt else None})
    assert await trail(db, run) == [
        (None, "running"),
        ("a", "queued"),
        ("a", "active"),
        ("a", "retrying"),
        ("a", "active"),
        ("a", "succeeded"),
        ("b", "queued"),
        ("b", "active"),
        ("b", "succeeded"),
        (None, "completed"),
    ]
    lines = [(event.attempt, event.reason) for step, event in await runs.events(db, run) if step and step.name == "a"]
    assert [attempt for attempt, _ in lines[1:]] == [1, 1, 2, 2]
    assert lines[2][1] == "no luck"


async def test_a_fanned_out_step_has_one_event_for_its_start_and_one_for_its_end(
    db: Tenant, worker: ManualWorker
) -> None:
    run = await begin(db, node("a", fan_out=Parallel(3)), node("b", "a", condition="true", fan_out=Parallel(2)))
    await worker.play()
    told = await trail(db, run)
    assert [word for step, word in told if step == "a"] == ["active", "succeeded"]
    assert [word for step, word in told if step == "b"] == ["active", "succeeded"]
    assert told[-1] == (None, "completed")


async def test_a_failed_step_has_one_failed_event(db: Tenant, worker: ManualWorker) -> None:
    run = await begin(db, node("a"))
    await worker.play({"a": Fails(for_good=True)})
    assert [word for step, word in await trail(db, run) if step == "a"] == ["queued", "active", "failed"]


async def test_the_trail_can_be_read_in_pages_of_any_size(db: Tenant, worker: ManualWorker) -> None:
    run = await begin(db, node("a"), node("nap", "a", action=SleepAction(timedelta())), node("b", "nap"))
    await worker.play()
    whole = await runs.events(db, run)
    for size in range(1, len(whole) + 1):
        place, found = runs.TrailPlace(), []
        while page := await runs.events(db, run, after=place, limit=size):
            found += page
            place = place.after([event for _, event in page])
        assert found == whole


async def test_the_start_of_a_run_is_recorded_before_the_starts_of_its_steps(db: Tenant, worker: ManualWorker) -> None:
    await publish(db, node("nap", action=NAP), concurrency=1)
    first, held = await begin(db), await begin(db)
    await runs.cancel(db, first)
    await tick(db)
    assert await trail(db, held) == [(None, "pending"), (None, "running"), ("nap", "active")]
