"""Pause: no job of the run is claimed until it is resumed; running jobs end, and all due times are restored."""

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.engine.harness import Fails, ManualWorker, begin, events_of, letters, node, publish, report, state, tick
from windlass.core.jobs.job import Failed
from windlass.core.workflows.step import ChildAction, Parallel, SleepAction
from windlass.engine import upkeep
from windlass.engine.database import Tenant
from windlass.engine.jobs import control as jobs
from windlass.engine.runs import control as runs
from windlass.engine.runs import inspect, sweep
from windlass.errors import Conflict, NotFound
from windlass.testing import Clock

Connection = Any
TIMES = "select step, item, run_at, due from workflow.workflow_run where run_id = $1 order by step, item"


async def test_jobs_of_a_paused_run_are_not_claimed_until_it_is_resumed(db: Tenant, worker: ManualWorker) -> None:
    run = await begin(db, node("a"), node("b", "a"))
    await runs.pause(db, run, reason="the bank is down")
    assert await worker.take() == []
    row = await runs.get(db, run)
    assert row.state == "running"
    assert row.paused_at is not None
    await runs.resume(db, run)
    assert (await runs.get(db, run)).paused_at is None
    await worker.play()
    assert (await state(db, run), await letters(db, run)) == ("completed", "ss")
    assert await events_of(db, run) == ["running", "paused", "resumed", "completed"]


async def test_a_leased_job_of_a_paused_run_can_finish_and_the_next_steps_wait(
    db: Tenant, worker: ManualWorker
) -> None:
    run = await begin(db, node("a"), node("b", "a"))
    job = await worker.take_one("a")
    await runs.pause(db, run)
    assert await worker.end(job)
    assert await letters(db, run) == "sa"
    assert await worker.take() == []
    await runs.resume(db, run)
    await worker.take_one("b")


@pytest.mark.parametrize("how", ["fails", "lost"])
async def test_a_failed_or_lost_attempt_of_a_paused_run_is_not_retried_before_the_resume(
    db: Tenant, worker: ManualWorker, clock: Clock, how: str
) -> None:
    run = await begin(db, node("a", max_attempts=3))
    job = await worker.take_one("a")
    await runs.pause(db, run)
    if how == "fails":
        await worker.end(job, Fails())
    else:
        clock.move(timedelta(hours=1))
        await upkeep.release_expired(db)
    assert (await jobs.get(db, job.id)).status == "pending"
    await tick(db)
    assert await worker.take() == []
    await runs.resume(db, run)
    await tick(db)
    await worker.take_one("a")


async def test_a_resume_restores_all_due_times_including_backoffs(
    db: Tenant, worker: ManualWorker, conn: Connection, clock: Clock
) -> None:
    run = await begin(db, node("a", max_attempts=3), node("b", fan_out=Parallel(3)))
    first = next(job for job in await worker.take() if worker.step(job) == "a")
    later = Failed({"type": "E", "message": "x"}, retryable=True, retry_after=timedelta(minutes=7))
    await worker.send(report(first, later))
    before = await conn.fetch(TIMES, run)
    await runs.pause(db, run)
    await runs.pause(db, run)  # changes nothing
    clock.move(timedelta(minutes=1))
    await tick(db)
    await runs.resume(db, run)
    assert await conn.fetch(TIMES, run) == before
    clock.move(timedelta(minutes=10))
    await tick(db)
    assert "a" in [worker.step(job) for job in await worker.take()]


async def test_timers_of_a_paused_run_fire_and_the_steps_they_start_wait(
    db: Tenant, worker: ManualWorker, clock: Clock
) -> None:
    run = await begin(db, node("s", action=SleepAction(timedelta(minutes=1))), node("b", "s"))
    await runs.pause(db, run)
    clock.move(timedelta(minutes=2))
    await sweep.wake(db)
    assert await letters(db, run) == "sa"
    assert await worker.take() == []
    await runs.resume(db, run)
    await worker.take_one("b")


async def child_of(conn: Connection, run: UUID) -> UUID:
    id_: UUID = await conn.fetchval("select id from windlass.run where parent_id = $1", run)
    return id_


async def test_child_runs_pause_with_their_parent_even_if_they_start_later(
    db: Tenant, worker: ManualWorker, conn: Connection
) -> None:
    await publish(db, node("x"), name="kid")
    early = await begin(db, node("sub", action=ChildAction("kid")), name="early")
    late = await begin(db, node("a"), node("sub", "a", action=ChildAction("kid")), name="late")
    await tick(db)
    job = next(job for job in await worker.take() if worker.step(job) == "a")
    await runs.resume(db, early)  # it is not paused: nothing changes
    for run in (early, late):
        await runs.pause(db, run)
    await worker.end(job)
    await tick(db)
    for run in (early, late):
        kid = await child_of(conn, run)
        assert (await state(db, kid), (await runs.get(db, kid)).paused_at is not None) == ("running", True)
        await runs.resume(db, run)
    await worker.play()
    assert [await state(db, run) for run in (early, late)] == ["running", "completed"]  # x of the first is under way


async def test_a_run_that_a_handler_waits_for_pauses_with_the_run_of_the_handler(
    db: Tenant, worker: ManualWorker, conn: Connection
) -> None:
    run = await begin(db, node("a"))
    job = await worker.take_one("a")
    below = await begin(db, node("x"), name="kid")
    await conn.execute("update windlass.run set job_id = $1 where id = $2", job.id, below)
    for act, paused in ((runs.pause, True), (runs.resume, False)):
        await act(db, run)
        await tick(db)
        assert ((await runs.get(db, below)).paused_at is not None) is paused


async def test_a_pending_run_can_be_paused_and_starts_paused(db: Tenant, worker: ManualWorker) -> None:
    await publish(db, node("a"), concurrency=1)
    first, second = await begin(db), await begin(db)
    await runs.pause(db, second)
    await worker.play()
    assert (await state(db, first), await state(db, second)) == ("completed", "running")
    await runs.resume(db, second)
    await worker.play()
    assert await state(db, second) == "completed"


async def test_a_paused_run_can_be_cancelled_and_is_then_not_paused(db: Tenant, worker: ManualWorker) -> None:
    run = await begin(db, node("a"), node("b", "a"))
    await runs.pause(db, run)
    await runs.cancel(db, run)
    row = await runs.get(db, run)
    assert (row.state, row.letters, row.paused_at) == ("cancelled", "cc", None)


async def test_a_paused_run_expires_and_its_retry_is_not_paused(db: Tenant, worker: ManualWorker, clock: Clock) -> None:
    await publish(db, node("a"), max_duration=timedelta(minutes=1))
    run = await begin(db)
    await runs.pause(db, run)
    clock.move(timedelta(minutes=2))
    await sweep.expire(db)
    assert await state(db, run) == "timeout"
    await runs.retry(db, run)
    await worker.play()
    assert await state(db, run) == "completed"


async def test_the_explanation_of_a_paused_run_contains_the_command_that_resumes_it(db: Tenant) -> None:
    run = await begin(db, node("a"))
    await runs.pause(db, run)
    _, explained = await inspect.explanation(db, run)
    assert f"`windlass runs resume {run}`" in " ".join(explained.run)
    assert explained.now == ["a: its job starts when the run is resumed."]


async def test_a_run_that_ended_cannot_be_paused(db: Tenant, worker: ManualWorker) -> None:
    run = await begin(db, node("a"))
    await worker.play()
    for act in (runs.pause, runs.resume):
        with pytest.raises(Conflict, match="only pending and running runs can be"):
            await act(db, run)
    with pytest.raises(NotFound):
        await runs.pause(db, UUID(int=1))


async def wait_for_a_blocked_session(db: Tenant) -> None:
    look = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    async with asyncio.timeout(30), db.once() as watcher:
        while not await watcher.fetchval(look):
            await asyncio.sleep(0.005)


async def test_a_job_that_is_reported_concurrently_with_a_pause_is_paused_too(
    db: Tenant, worker: ManualWorker, conn: Connection
) -> None:
    """The session that reports reads the run before it is paused and commits afterwards."""
    run = await begin(db, node("a", max_attempts=3))
    job = await worker.take_one("a")
    async with conn.transaction():
        back = "update workflow.workflow_run set status = 'pending', leased_by = null, lease_until = null where id = $1"
        await conn.execute(back, job.id)
        pausing = asyncio.create_task(runs.pause(db, run))
        await wait_for_a_blocked_session(db)
    await pausing
    assert await worker.take() == []
    await runs.resume(db, run)
    await worker.take_one("a")
