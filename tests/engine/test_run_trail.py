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
    """The lines about the run itself after the first."""
    lines = [event for step, event in await runs.events(db, run) if step is None]
    return [(event.word, event.code, event.reason) for event in lines[1:]]


async def test_a_cancelled_run_has_one_line_that_says_so_and_why(db: Tenant, worker: ManualWorker) -> None:
    run = await begin(db, node("a"), node("nap", action=NAP))
    await runs.cancel(db, run, reason="enough")
    assert await ending(db, run) == [("cancelled", "cancelled", "enough")]
    assert (await trail(db, run))[-1] == (None, "cancelled")


async def test_a_run_that_expires_has_one_line_that_says_so_and_why(db: Tenant, clock: Clock) -> None:
    run = await begin(db, node("nap", action=SleepAction(3 * HOUR)), max_duration=HOUR)
    clock.move(2 * HOUR)
    await tick(db)
    assert await ending(db, run) == [("timeout", "expired", "the run exceeded its max_duration")]
    assert (await trail(db, run))[-2:] == [("nap", "cancelled"), (None, "timeout")]


async def test_a_held_run_that_is_cancelled_has_one_line_about_its_end(db: Tenant, worker: ManualWorker) -> None:
    await publish(db, node("a"), concurrency=1)
    await begin(db)
    held = await begin(db)
    await runs.cancel(db, held, reason="not needed")
    assert await ending(db, held) == [("cancelled", "cancelled", "not needed")]


async def test_a_failed_run_says_which_failures_nobody_handled(db: Tenant, worker: ManualWorker) -> None:
    run = await begin(db, node("a"), node("b"), node("c", "a"))
    await worker.play({"a": Fails(for_good=True), "b": Fails(for_good=True)})
    assert await ending(db, run) == [("failed", "unhandled", "steps a and b failed and no step handled it")]


async def test_a_run_ends_after_the_sleep_that_was_its_last_step(db: Tenant, clock: Clock) -> None:
    run = await begin(db, node("nap", action=NAP))
    clock.move(2 * HOUR)
    await tick(db)
    assert await trail(db, run) == [(None, "running"), ("nap", "active"), ("nap", "succeeded"), (None, "completed")]


async def test_a_run_ends_after_the_step_whose_failure_ends_it(db: Tenant, worker: ManualWorker) -> None:
    run = await begin(db, node("a"), node("b", "a"))
    await worker.play({"a": Fails(for_good=True)})
    assert (await trail(db, run))[-3:] == [("a", "failed"), ("b", "skipped"), (None, "failed")]


async def test_a_run_ends_after_the_callback_that_nobody_made(db: Tenant, clock: Clock) -> None:
    run = await begin(db, node("ask", action=HookAction(HOUR)))
    clock.move(2 * HOUR)
    await tick(db)
    assert (await trail(db, run))[-2:] == [("ask", "timed out"), (None, "failed")]


async def test_a_run_that_ends_as_it_starts_says_that_it_ran_first(db: Tenant) -> None:
    run = await begin(db, node("a", fan_out=Parallel(0)))
    assert await trail(db, run) == [(None, "running"), ("a", "succeeded"), (None, "completed")]
    row = await runs.get(db, run)
    assert row.started_at is not None
    assert row.finished_at is not None


async def test_a_step_with_a_job_has_the_lines_of_its_job(db: Tenant, worker: ManualWorker) -> None:
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


async def test_a_fanned_out_step_has_a_line_for_its_start_and_one_for_its_end(db: Tenant, worker: ManualWorker) -> None:
    run = await begin(db, node("a", fan_out=Parallel(3)), node("b", "a", condition="true", fan_out=Parallel(2)))
    await worker.play()
    told = await trail(db, run)
    assert [word for step, word in told if step == "a"] == ["active", "succeeded"]
    assert [word for step, word in told if step == "b"] == ["active", "succeeded"]
    assert told[-1] == (None, "completed")


async def test_a_step_that_failed_says_so_once(db: Tenant, worker: ManualWorker) -> None:
    run = await begin(db, node("a"))
    await worker.play({"a": Fails(for_good=True)})
    assert [word for step, word in await trail(db, run) if step == "a"] == ["queued", "active", "failed"]


async def test_the_trail_comes_in_pages_of_any_size(db: Tenant, worker: ManualWorker) -> None:
    run = await begin(db, node("a"), node("nap", "a", action=SleepAction(timedelta())), node("b", "nap"))
    await worker.play()
    whole = await runs.events(db, run)
    for size in range(1, len(whole) + 1):
        place, found = runs.TrailPlace(), []
        while page := await runs.events(db, run, after=place, limit=size):
            found += page
            place = place.after([event for _, event in page])
        assert found == whole


async def test_a_run_that_begins_says_so_before_its_steps_do(db: Tenant, worker: ManualWorker) -> None:
    await publish(db, node("nap", action=NAP), concurrency=1)
    first, held = await begin(db), await begin(db)
    await runs.cancel(db, first)
    await tick(db)
    assert await trail(db, held) == [(None, "pending"), (None, "running"), ("nap", "active")]
