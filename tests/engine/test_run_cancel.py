"""Cancel: pending jobs end immediately, workers with jobs of the run are requested to stop, and their outcomes are
recorded."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from tests.engine.harness import LEASE, Fails, ManualWorker, begin, events_of, letters, node, reasons, state, tick
from windlass.core.jobs.job import Cancelled
from windlass.core.workflows.step import Parallel, SleepAction
from windlass.engine import upkeep
from windlass.engine.database import Tenant
from windlass.engine.jobs import control as jobs
from windlass.engine.runs import control as runs
from windlass.engine.runs import sweep
from windlass.engine.workers import turn
from windlass.errors import Conflict, Invalid, NotFound
from windlass.testing import Clock

pytestmark = pytest.mark.usefixtures("an_hour_later")

Connection = Any


async def test_steps_without_a_leased_job_are_cancelled_immediately(
    db: Tenant, worker: ManualWorker, conn: Connection
) -> None:
    run = await begin(db, node("a"), node("b", "a"), node("s", action=SleepAction(timedelta(hours=1))))
    await runs.cancel(db, run, reason="enough")
    row = await runs.get(db, run)
    assert (row.state, row.letters) == ("cancelled", "ccc")
    assert row.finished_at is not None
    assert await reasons(db, run) == ["enough"]
    assert await events_of(db, run) == ["running", "cancelled"]
    assert await worker.take() == []
    assert await conn.fetchval("select count(*) from windlass.timer") == 0
    [job] = (await runs.view(db, run)).jobs.values()
    assert job.status == "cancelled"
    last = (await jobs.events(db, job.id))[-1]
    assert (last.event_type, last.data) == ("cancelled", {"reason": "enough"})


async def test_a_python_worker_is_requested_to_stop_and_keeps_its_lease(db: Tenant, worker: ManualWorker) -> None:
    run = await begin(db, node("a"), node("b", "a"))
    job = await worker.take_one("a")
    await runs.cancel(db, run)
    assert (await state(db, run), await letters(db, run)) == ("cancelled", "ac")
    assert await turn.heartbeat(db, [job.fence], worker="w1", lease=LEASE) == [(*job.fence, True, True)]
    assert (await jobs.get(db, job.id)).status == "leased"


@pytest.mark.parametrize(
    ("ending", "letter", "status"),
    [
        ({"n": 1}, "s", "succeeded"),
        (Fails(), "f", "failed"),  # with attempts left: never retried
        (Fails(for_good=True), "f", "failed"),
        (Fails(type="Timeout"), "t", "failed"),
        (Cancelled(), "c", "cancelled"),
    ],
)
async def test_the_outcome_of_a_job_of_a_cancelled_run_is_recorded_and_advances_nothing(
    db: Tenant, worker: ManualWorker, ending: Any, letter: str, status: str
) -> None:
    run = await begin(db, node("a", max_attempts=5), node("b", "a:complete"))
    job = await worker.take_one("a")
    await runs.cancel(db, run)
    assert await worker.end(job, ending)
    assert (await state(db, run), await letters(db, run)) == ("cancelled", letter + "c")
    assert (await jobs.get(db, job.id)).status == status
    assert await worker.take() == []


async def test_a_job_of_a_cancelled_run_is_not_claimed_again_after_a_lost_lease(
    db: Tenant, worker: ManualWorker, clock: Clock
) -> None:
    run = await begin(db, node("a", max_attempts=5))
    job = await worker.take_one("a")
    await runs.cancel(db, run)
    clock.move(LEASE * 2)
    await upkeep.release_expired(db)
    await tick(db)
    assert (await letters(db, run), (await jobs.get(db, job.id)).status) == ("c", "cancelled")
    assert await worker.take() == []


async def test_a_job_leased_by_plain_sql_is_cancelled_and_its_late_report_changes_nothing(
    db: Tenant, worker: ManualWorker, conn: Connection
) -> None:
    run = await begin(db, node("a"))
    await conn.execute(
        "update workflow.workflow_run set status = 'leased', leased_by = 'go-1', lease_until = now() + interval '1 day'"
    )
    await runs.cancel(db, run)
    row = await conn.fetchrow("select status, leased_by, settled from workflow.workflow_run")
    assert tuple(row) == ("cancelled", None, True)
    await conn.execute("update workflow.workflow_run set status = 'succeeded', result = '1' where status = 'leased'")
    await conn.execute("update workflow.workflow_run set status = 'succeeded', result = '1'")
    await tick(db)
    assert (await letters(db, run), await state(db, run)) == ("c", "cancelled")
    assert await conn.fetchval("select status from workflow.workflow_run") == "cancelled"


async def test_a_second_cancel_is_a_conflict(db: Tenant, worker: ManualWorker) -> None:
    run = await begin(db, node("a"))
    await worker.take()
    await runs.cancel(db, run)
    before = await runs.get(db, run)
    with pytest.raises(Conflict, match="is cancelled and cannot be cancelled: only pending and running runs can be"):
        await runs.cancel(db, run)
    assert await runs.get(db, run) == before


async def test_a_cancelled_run_cannot_be_retried_or_rerun(db: Tenant, worker: ManualWorker) -> None:
    run = await begin(db, node("a"))
    await runs.cancel(db, run)
    with pytest.raises(Conflict, match="cannot be retried: only failed and timeout runs can be"):
        await runs.retry(db, run)
    with pytest.raises(Conflict, match="cannot be rerun: only completed, failed and timeout runs can be"):
        await runs.rerun(db, run, "a")


async def test_each_leased_instance_of_a_cancelled_fan_out_records_its_own_outcome(
    db: Tenant, worker: ManualWorker
) -> None:
    run = await begin(db, node("a", fan_out=Parallel(10), concurrency=4), node("b", "a"))
    first, second = await worker.take(2)
    await runs.cancel(db, run)
    assert await letters(db, run) == "ac"
    await worker.end(first)
    await worker.end(second, Fails())
    assert await letters(db, run) == "fc"
    assert await reasons(db, run, "a") == ["1 of 10 instances failed"]
    assert len(await runs.instances(db, run, "a")) == 4  # no slot was filled again


async def test_the_reason_of_a_cancelled_fan_out_counts_its_cancelled_instances(db: Tenant) -> None:
    run = await begin(db, node("a", fan_out=Parallel(3)))
    await runs.cancel(db, run)
    assert (await letters(db, run), await reasons(db, run, "a")) == ("c", ["3 of 3 instances were cancelled"])


async def test_a_late_report_does_not_change_the_end_time_of_a_cancelled_run(
    db: Tenant, worker: ManualWorker, clock: Clock
) -> None:
    run = await begin(db, node("a"))
    job = await worker.take_one("a")
    await runs.cancel(db, run)
    before = (await runs.get(db, run)).finished_at
    clock.move(timedelta(seconds=20))
    await worker.end(job)
    assert (await runs.get(db, run)).finished_at == before
    assert await events_of(db, run) == ["running", "cancelled"]


async def test_a_reason_that_is_too_long_is_refused(db: Tenant) -> None:
    run = await begin(db, node("a"))
    with pytest.raises(Invalid, match="reason"):
        await runs.cancel(db, run, reason="x" * 10_000)
    assert await state(db, run) == "running"


async def test_an_unknown_run_is_not_found(db: Tenant) -> None:
    for steer in (runs.cancel, runs.retry):
        with pytest.raises(NotFound, match="no run"):
            await steer(db, uuid4())


# Expiry takes the same path


async def test_a_run_that_exceeds_its_max_duration_ends_as_timeout(
    db: Tenant, worker: ManualWorker, clock: Clock
) -> None:
    steps = node("a"), node("h"), node("b", "a"), node("s", action=SleepAction(timedelta(days=1)))
    run = await begin(db, *steps, max_duration=timedelta(hours=1))
    held = next(job for job in await worker.take(2) if worker.step(job) == "h")
    clock.move(timedelta(minutes=59))
    assert await sweep.expire(db) == 0
    clock.move(timedelta(minutes=1))
    assert await sweep.expire(db) == 1
    row = await runs.get(db, run)
    assert (row.state, row.letters) == ("timeout", "aacc")
    assert await reasons(db, run) == ["the run exceeded its max_duration"]
    assert await turn.held(db, [held.fence], worker="w1") == [(*held.fence, True, False)]
    await worker.end(held)
    assert (await state(db, run), (await letters(db, run))[1]) == ("timeout", "s")
    assert await sweep.expire(db) == 0


async def test_the_reason_of_a_step_cancelled_by_expiry_is_the_exceeded_max_duration(db: Tenant, clock: Clock) -> None:
    run = await begin(db, node("a"), max_duration=timedelta(hours=1))
    clock.move(timedelta(hours=2))
    await sweep.expire(db)
    assert await reasons(db, run, "a") == ["the run exceeded its max_duration"]
