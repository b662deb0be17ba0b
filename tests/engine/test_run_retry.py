"""Retry and rerun: which steps are repeated, which results are kept, and late reports of an earlier round."""

from datetime import timedelta
from typing import Any

import pytest

from tests.engine.harness import LEASE, Fails, ManualWorker, begin, events_of, letters, node, reasons, state, tick
from windlass.core.jobs.job import Cancelled
from windlass.core.workflows.step import Foreach, SleepAction
from windlass.engine import upkeep
from windlass.engine.database import Tenant
from windlass.engine.jobs import control as jobs
from windlass.engine.runs import control as runs
from windlass.engine.runs import outputs, sweep
from windlass.errors import Conflict, Invalid
from windlass.testing import Clock

pytestmark = pytest.mark.usefixtures("an_hour_later")

Connection = Any


async def test_c2_27_a_retry_repeats_failed_and_skipped_steps_and_keeps_successful_ones(
    db: Tenant, worker: ManualWorker
) -> None:
    run = await begin(db, node("a"), node("b", "a"), node("c", "b"), node("d", "c"))
    await worker.play({"b": Fails()})
    assert await letters(db, run) == "sfkk"
    worker.seen.clear()
    await runs.retry(db, run)
    row = await runs.get(db, run)
    assert (row.state, row.letters, row.round, row.finished_at) == ("running", "sa..", 1, None)
    await worker.play()
    assert (await state(db, run), await letters(db, run)) == ("completed", "ssss")
    assert worker.seen == ["b", "c", "d"]


async def test_the_trail_contains_both_rounds(db: Tenant, worker: ManualWorker) -> None:
    run = await begin(db, node("a"))
    await worker.play({"a": Fails()})
    await runs.retry(db, run)
    await worker.play()
    assert await events_of(db, run) == ["running", "failed", "retried", "running", "completed"]
    assert await reasons(db, run) == ["step a failed and no step handled it", "failed steps run again"]


async def test_a_retry_resets_the_attempts_and_keeps_the_errors(db: Tenant, worker: ManualWorker) -> None:
    run = await begin(db, node("a", max_attempts=2))
    await worker.play({"a": Fails("old")})
    await runs.retry(db, run)
    job = await worker.take_one("a")
    assert (job.number, job.attempt, job.lost) == (1, 0, 0)
    await worker.end(job, Fails("new"))
    await worker.play()
    assert await state(db, run) == "completed"
    errors = (await jobs.get(db, job.id)).errors
    assert [error["message"] for error in errors] == ["old", "old", "new"]


async def test_c2_17_a_retry_clears_the_result_and_the_error_of_the_job(db: Tenant, worker: ManualWorker) -> None:
    run = await begin(db, node("a"))
    await worker.play({"a": Fails()})
    await runs.retry(db, run)
    [job] = (await runs.view(db, run)).jobs.values()
    whole = await jobs.get(db, job.id)
    assert (whole.status, whole.result, whole.last_error, whole.attempt) == ("pending", None, None, 0)


async def test_a_run_can_be_retried_repeatedly(db: Tenant, worker: ManualWorker) -> None:
    run = await begin(db, node("a"), node("b", "a"))
    for _ in range(3):
        await worker.play({"a": Fails()})
        assert await letters(db, run) == "fk"
        await runs.retry(db, run)
    await worker.play()
    assert (await runs.get(db, run)).round == 3
    assert await state(db, run) == "completed"


async def test_a_retry_that_fails_immediately_has_a_new_end_time_and_event(
    db: Tenant, worker: ManualWorker, clock: Clock
) -> None:
    """No worker is needed: the run is failed before and after the retry, and was running in between."""
    run = await begin(db, node("b", fan_out=Foreach("input")), input="no list")
    before = await runs.get(db, run)
    clock.move(timedelta(minutes=1))
    await runs.retry(db, run)
    row = await runs.get(db, run)
    assert row.state == "failed"
    assert before.finished_at is not None
    assert row.finished_at == before.finished_at + timedelta(minutes=1)
    assert (await events_of(db, run))[-2:] == ["retried", "failed"]


@pytest.mark.parametrize("how", ["running", "completed", "cancelled"])
async def test_only_failed_and_timed_out_runs_can_be_retried(db: Tenant, worker: ManualWorker, how: str) -> None:
    run = await begin(db, node("a"))
    if how == "completed":
        await worker.play()
    elif how == "cancelled":
        await runs.cancel(db, run)
    with pytest.raises(
        Conflict, match=f"run {run} is {how} and cannot be retried: only failed and timeout runs can be"
    ):
        await runs.retry(db, run)
    assert (await runs.get(db, run)).round == 0


# After an expiry


async def expired(db: Tenant, clock: Clock) -> None:
    clock.move(timedelta(days=31))
    assert await sweep.expire(db) == 1


async def test_a_retried_timed_out_run_continues_where_it_was_with_a_new_expiry(
    db: Tenant, worker: ManualWorker, clock: Clock
) -> None:
    run = await begin(db, node("a"), node("b", "a"), node("s", "b", action=SleepAction(timedelta(days=40))))
    await worker.end(await worker.take_one("a"))
    await expired(db, clock)
    assert await letters(db, run) == "scc"
    await runs.retry(db, run)
    assert await sweep.expire(db) == 0
    await worker.play()
    assert (await state(db, run), await letters(db, run)) == ("running", "ssa")


async def test_a_retry_keeps_the_max_duration_of_the_run(db: Tenant, clock: Clock) -> None:
    run = await begin(db, node("a"), max_duration=timedelta(minutes=5))
    clock.move(timedelta(minutes=6))
    await sweep.expire(db)
    await runs.retry(db, run)
    row = await runs.get(db, run)
    assert row.expires_at - (clock.now() or row.created_at) == timedelta(minutes=5)


async def test_a_job_that_is_still_leased_when_its_run_is_retried_can_finish(
    db: Tenant, worker: ManualWorker, clock: Clock
) -> None:
    run = await begin(db, node("a"), node("b", "a"), max_duration=timedelta(seconds=10))
    job = await worker.take_one("a")
    clock.move(timedelta(seconds=11))
    await sweep.expire(db)
    assert (await jobs.get(db, job.id)).status == "leased"
    await runs.retry(db, run)
    assert await letters(db, run) == "a."
    assert await worker.take() == []
    await worker.end(job)
    assert await letters(db, run) == "sa"
    await worker.play()
    assert await state(db, run) == "completed"


# Reports of an earlier round


async def test_a_report_of_an_earlier_round_is_refused(db: Tenant, worker: ManualWorker, clock: Clock) -> None:
    run = await begin(db, node("a", max_attempts=1), node("b", "a"))
    zombie = await worker.take_one("a")
    clock.move(LEASE * 2)
    await upkeep.release_expired(db)
    await tick(db)
    assert await state(db, run) == "failed"
    await runs.retry(db, run)
    assert not await worker.end(zombie, "from the grave")
    assert await letters(db, run) == "a."
    fresh = await worker.take_one("a")
    assert fresh.claim_no > zombie.claim_no
    assert not await worker.end(zombie, "from the grave")
    assert await worker.end(fresh, "alive")
    await worker.play()
    assert (await jobs.get(db, fresh.id)).result == "alive"


async def test_a_duplicate_report_changes_nothing(db: Tenant, worker: ManualWorker) -> None:
    run = await begin(db, node("a"), node("b", "a"), node("c", "a"))
    job = await worker.take_one("a")
    assert await worker.end(job)
    before = await runs.view(db, run)
    assert not await worker.end(job)
    assert not await worker.end(job, Fails())
    assert await runs.view(db, run) == before


# Rerun


async def test_a_rerun_repeats_a_step_and_all_steps_after_it_and_keeps_the_others(
    db: Tenant, worker: ManualWorker
) -> None:
    steps = node("a"), node("b", "a"), node("c", "b"), node("d", "a"), node("e", "c", "d")
    run = await begin(db, *steps)
    await worker.play()
    worker.seen.clear()
    await runs.rerun(db, run, "b")
    assert (await state(db, run), await letters(db, run)) == ("running", "sa.s.")
    await worker.play({"e": "again"})
    assert worker.seen == ["b", "c", "e"]
    assert (await state(db, run), await runs.output(db, run)) == ("completed", "again")
    assert await events_of(db, run) == ["running", "completed", "rerun", "running", "completed"]
    assert await reasons(db, run) == ["from step b"]


async def test_a_rerun_may_have_another_input(db: Tenant, worker: ManualWorker) -> None:
    run = await begin(db, node("b", fan_out=Foreach("input.files")), node("c", "b"), input={"files": [1, 2]})
    await worker.play()
    await runs.rerun(db, run, "b", input_={"files": [1, 2, 3]}, with_input=True)
    await worker.play()
    assert (await runs.get(db, run)).input == {"files": [1, 2, 3]}
    assert worker.seen.count("b") == 2 + 3
    await runs.rerun(db, run, "c")
    assert (await runs.get(db, run)).input == {"files": [1, 2, 3]}


async def test_a_rerun_accepts_null_as_the_input(db: Tenant, worker: ManualWorker) -> None:
    run = await begin(db, node("a"), input={"n": 1})
    await worker.play()
    await runs.rerun(db, run, "a", input_=None, with_input=True)
    assert (await runs.get(db, run)).input is None


async def test_a_failed_run_can_be_rerun_from_a_step_that_succeeded(db: Tenant, worker: ManualWorker) -> None:
    run = await begin(db, node("a"), node("b", "a"))
    await worker.play({"b": Fails()})
    await runs.rerun(db, run, "a")
    assert await letters(db, run) == "a."
    await worker.play()
    assert await state(db, run) == "completed"


async def test_every_rerun_repeats_the_final_step(db: Tenant, worker: ManualWorker) -> None:
    run = await begin(db, node("a"), node("b"), node("z", final=True))
    await worker.play()
    worker.seen.clear()
    await runs.rerun(db, run, "a")
    await worker.play()
    assert worker.seen == ["a", "z"]


async def test_a_step_that_is_skipped_in_a_rerun_has_no_output(db: Tenant, worker: ManualWorker) -> None:
    """Its output of the earlier round is not used."""
    run = await begin(db, node("a"), node("b", "a"), node("c", "a:complete", "b:complete"))
    await worker.play({"b": "old"})
    await runs.rerun(db, run, "a")
    await worker.end(await worker.take_one("a"), Fails(for_good=True))
    job = await worker.take_one("c")
    assert await letters(db, run) == "fka"
    assert (await outputs.of_needs(db, [job]))[job.id] == {"a": None, "b": None}


async def test_a_rerun_from_an_unknown_step_is_refused_with_a_list_of_the_steps(
    db: Tenant, worker: ManualWorker
) -> None:
    run = await begin(db, node("a"), node("b"))
    await worker.play()
    with pytest.raises(Invalid, match="workflow 'w' has no step 'x': it has a, b"):
        await runs.rerun(db, run, "x")
    assert (await runs.get(db, run)).round == 0


async def test_a_handler_that_stops_after_its_run_was_retried_is_executed_again(
    db: Tenant, worker: ManualWorker, clock: Clock
) -> None:
    """The run expired, its handler was requested to stop, and the run was retried before the handler had ended."""
    run = await begin(db, node("a", max_attempts=1), max_duration=timedelta(minutes=1))
    job = await worker.take_one("a")
    clock.move(timedelta(minutes=2))
    await tick(db)
    assert (await state(db, run), await letters(db, run)) == ("timeout", "a")
    await runs.retry(db, run)
    assert await worker.end(job, Cancelled())
    assert (await state(db, run), await letters(db, run)) == ("running", "a")
    await worker.play()
    assert (await state(db, run), worker.seen) == ("completed", ["a", "a"])
