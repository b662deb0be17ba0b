"""A retry or rerun respects the concurrency limit of the workflow: the run is pending until there is capacity."""

import pytest

from tests.engine.harness import Fails, ManualWorker, begin, letters, node, publish, state, tick
from windlass.engine.database import Tenant
from windlass.engine.runs import control as runs
from windlass.engine.runs import search
from windlass.engine.runs.search import RunQuery

STEPS = node("a"), node("b", "a"), node("c", "b:failure")
BAD = {"b": Fails(for_good=True), "c": Fails(for_good=True)}


@pytest.mark.parametrize("how", ["retry", "rerun"])
async def test_a_retried_or_rerun_run_is_pending_while_the_limit_is_reached(
    db: Tenant, worker: ManualWorker, how: str
) -> None:
    await publish(db, *STEPS, concurrency=1)
    run = await begin(db)
    await worker.play(BAD)
    before = await letters(db, run)
    other = await begin(db)
    await (runs.retry(db, run) if how == "retry" else runs.rerun(db, run, "c"))
    assert (await state(db, run), await letters(db, run)) == ("pending", before)
    await tick(db)
    assert await state(db, run) == "pending"
    worker.seen.clear()
    await worker.play()
    assert (await state(db, other), await state(db, run)) == ("completed", "completed")
    assert worker.seen == ["a", "b", *(["b"] if how == "retry" else ["c"])]


async def test_a_retry_below_the_limit_starts_immediately(db: Tenant, worker: ManualWorker) -> None:
    await publish(db, *STEPS, concurrency=2)
    run = await begin(db)
    await worker.play(BAD)
    await begin(db)
    await runs.retry(db, run)
    assert await state(db, run) == "running"


async def test_a_bulk_retry_starts_as_many_runs_as_the_limit_allows(db: Tenant, worker: ManualWorker) -> None:
    await publish(db, *STEPS, concurrency=2)
    ids = [await begin(db) for _ in range(4)]
    await worker.play(BAD)
    await search.retry(db, RunQuery(workflow="w"))
    assert sorted([await state(db, run) for run in ids]) == ["pending", "pending", "running", "running"]
    await worker.play()
    assert {await state(db, run) for run in ids} == {"completed"}


async def test_a_retried_run_that_is_pending_can_be_cancelled(db: Tenant, worker: ManualWorker) -> None:
    await publish(db, *STEPS, concurrency=1)
    run = await begin(db)
    await worker.play(BAD)
    await begin(db)
    await runs.retry(db, run)
    await runs.cancel(db, run)
    await worker.play()
    assert (await state(db, run), await letters(db, run)) == ("cancelled", "sff")
