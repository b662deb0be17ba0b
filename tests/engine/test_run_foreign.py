"""Plain SQL and external workers: the end of a step's job is applied to its run within one tick, exactly once,
whichever client recorded it."""

from datetime import timedelta
from typing import Any

import pytest

from tests.engine.harness import LEASE, Fails, ManualWorker, begin, letters, node, reasons, state, tick
from windlass.core.workflows.step import Parallel
from windlass.engine import quarantine, upkeep
from windlass.engine.database import Tenant
from windlass.engine.jobs import control as jobs
from windlass.engine.runs import control as runs
from windlass.engine.runs import sweep
from windlass.runtime.loops.background import Sweeper
from windlass.testing import Clock

Connection = Any

# The SQL contract's own statements.
CLAIM = """
update workflow.workflow_run
   set status = 'leased', leased_by = $1, lease_until = now() + interval '30 seconds', updated_at = now()
 where id = (select id from workflow.workflow_run
              where status = 'pending' and run_at <= now() and deleted_at is null and type like $2
              order by priority, created_at limit 1 for update skip locked)
returning *"""
SUCCEED = "update workflow.workflow_run set status = 'succeeded', result = $2, updated_at = now() where id = $1"
FAIL = """
update workflow.workflow_run
   set attempt = attempt + 1, last_error = $2, updated_at = now(), leased_by = null, lease_until = null,
       status = case when attempt + 1 < max_attempts then 'pending' else 'failed' end
 where id = $1"""


@pytest.mark.parametrize(
    ("statement", "letter", "why"),
    [
        ("set status = 'succeeded', result = '{\"n\": 1}'", "s", []),
        ("set status = 'failed', last_error = 'out of paper'", "f", ["out of paper"]),
        ("set status = 'failed'", "f", ["its job was failed"]),
        ("set status = 'cancelled'", "c", ["its job was cancelled"]),
        ("set deleted_at = now()", "c", ["its job was deleted"]),
    ],
)
@pytest.mark.parametrize("claimed", [True, False])
async def test_a_completion_by_plain_sql_is_applied_within_one_tick(
    db: Tenant, worker: ManualWorker, conn: Connection, statement: str, letter: str, why: list[str], claimed: bool
) -> None:
    run = await begin(db, node("a"), node("b", "a"))
    if claimed:
        await worker.take_one("a")
    await conn.execute(f"update workflow.workflow_run {statement}")
    assert await Sweeper(db).tick() == 1
    assert await letters(db, run) == letter + ("a" if letter == "s" else "k")
    assert await reasons(db, run, "a") == why
    assert await Sweeper(db).tick() == 0
    assert await conn.fetchval("select count(*) from workflow.workflow_run where not settled and step = 0") == 0


async def test_cancelling_or_deleting_a_job_through_the_api_is_applied_too(db: Tenant, worker: ManualWorker) -> None:
    run = await begin(db, node("a"), node("b"), node("c", "a:failure"))
    first, second = await worker.take()
    await jobs.cancel(db, first.id, reason="enough")
    await jobs.delete(db, second.id)
    await tick(db)
    assert await letters(db, run) == "cca"
    assert not await worker.end(first)
    assert not await worker.end(second)


async def test_a_cancelled_job_activates_only_complete_and_failure_edges(db: Tenant, conn: Connection) -> None:
    run = await begin(db, node("a"), node("b", "a"), node("c", "a:failure"), node("d", "a:complete"))
    await conn.execute("update workflow.workflow_run set status = 'cancelled'")
    await tick(db)
    assert await letters(db, run) == "ckaa"


async def test_d2_3_an_external_worker_executes_a_whole_run_with_the_statements_of_the_contract(
    db: Tenant, conn: Connection
) -> None:
    run = await begin(db, node("a"), node("b", "a", fan_out=Parallel("a.n"), max_attempts=2), node("c", "b"))
    failed = False
    for _ in range(20):
        job = await conn.fetchrow(CLAIM, "go-1", "test.%")
        if job is None:
            if not await Sweeper(db).tick():
                break
        elif job["item"] == 1 and not failed:
            failed = True
            await conn.execute(FAIL, job["id"], "out of paper")
        else:
            await conn.execute(SUCCEED, job["id"], '{"n": 3}')
    assert (await state(db, run), await letters(db, run)) == ("completed", "sss")
    assert failed


async def test_a_failure_by_plain_sql_with_attempts_left_does_not_end_the_step(db: Tenant, conn: Connection) -> None:
    run = await begin(db, node("a", max_attempts=2))
    job = await conn.fetchrow(CLAIM, "go-1", "test.%")
    await conn.execute(FAIL, job["id"], "once")
    assert await Sweeper(db).tick() == 0
    await conn.execute(FAIL, (await conn.fetchrow(CLAIM, "go-1", "test.%"))["id"], "twice")
    assert await Sweeper(db).tick() == 1
    assert (await letters(db, run), await reasons(db, run, "a")) == ("f", ["twice"])


async def test_the_first_report_of_several_external_clients_wins(db: Tenant, conn: Connection) -> None:
    run = await begin(db, node("a"))
    job = await conn.fetchrow(CLAIM, "go-1", "test.%")
    await conn.execute(SUCCEED, job["id"], '"first"')
    await conn.execute(SUCCEED, job["id"], '"second"')
    await tick(db)
    await conn.execute("update workflow.workflow_run set status = 'failed' where id = $1", job["id"])
    await tick(db)
    assert (await state(db, run), await runs.output(db, run)) == ("completed", "first")


async def test_a_report_of_a_python_worker_is_refused_after_plain_sql_ended_the_job(
    db: Tenant, worker: ManualWorker, conn: Connection
) -> None:
    run = await begin(db, node("a"), node("b", "a"))
    job = await worker.take_one("a")
    await conn.execute(SUCCEED, job.id, '"foreign"')
    assert not await worker.end(job, "ours")
    await tick(db)
    assert await letters(db, run) == "sa"
    assert (await jobs.get(db, job.id)).result == "foreign"


async def test_a_report_with_a_stale_fence_is_refused(db: Tenant, worker: ManualWorker, clock: Clock) -> None:
    clock.move(timedelta(hours=1))  # the server has been up for long, so leases may run out
    run = await begin(db, node("a", max_attempts=3))
    zombie = await worker.take_one("a")
    clock.move(LEASE * 2)
    await upkeep.release_expired(db)
    other = await ManualWorker.registered(db, "w2")
    fresh = await other.take_one("a")
    assert not await worker.end(zombie, "zombie")
    assert not await ManualWorker(db, "w2").end(zombie, "zombie with the right name")
    assert await letters(db, run) == "a"
    assert await other.end(fresh, "fresh")
    assert await runs.output(db, run) == "fresh"


async def test_duplicate_reports_change_nothing(db: Tenant, worker: ManualWorker, conn: Connection) -> None:
    run = await begin(db, node("a"), node("b", "a"))
    job = await worker.take_one("a")
    assert await worker.end(job)
    trail = await runs.view(db, run)
    for ending in (None, Fails(), "again"):
        assert not await worker.end(job, ending)
    await conn.execute(SUCCEED, job.id, '"again"')
    assert await Sweeper(db).tick() == 0
    assert await runs.view(db, run) == trail
    assert await conn.fetchval("select count(*) from workflow.workflow_run") == 2


async def test_many_completions_of_many_runs_by_plain_sql_are_applied_in_one_tick(db: Tenant, conn: Connection) -> None:
    ids = [await begin(db, node("a", fan_out=Parallel(20)), node("b", "a"))]
    ids += [await begin(db) for _ in range(19)]
    await conn.execute("update workflow.workflow_run set status = 'succeeded', result = '1'")
    assert await sweep.sweep_runs(db) == 20
    assert {await letters(db, id_) for id_ in ids} == {"sa"}


async def test_many_completions_of_one_run_are_applied_in_several_batches(db: Tenant, conn: Connection) -> None:
    run = await begin(db, node("a", fan_out=Parallel(100)))
    await conn.execute("update workflow.workflow_run set status = 'succeeded', result = '1'")
    ticks = 0
    while await sweep.sweep_runs(db, batch=3):
        ticks += 1
    assert (ticks, await state(db, run)) == (4, "completed")


async def test_a_run_locked_by_another_session_is_left_for_the_next_tick(db: Tenant, conn: Connection) -> None:
    run = await begin(db, node("a"))
    await conn.execute("update workflow.workflow_run set status = 'succeeded'")
    async with conn.transaction():
        await conn.execute("select from windlass.run where id = $1 for update", run)
        assert await Sweeper(db).tick() == 0
    assert await Sweeper(db).tick() == 1


async def test_a_soft_deleted_job_has_an_event_in_its_trail(db: Tenant, conn: Connection) -> None:
    await begin(db, node("a"))
    await conn.execute("update workflow.workflow_run set deleted_at = now()")
    await tick(db)
    words = await conn.fetch("select event_type from workflow.workflow_event order by id")
    assert [row[0] for row in words] == ["created", "cancelled"]


async def test_a_run_that_cannot_be_advanced_does_not_block_others(db: Tenant, conn: Connection) -> None:
    """Its pending events are kept: it continues once its state is repaired."""
    ids = [await begin(db, node("a"), node("b", "a"))] + [await begin(db) for _ in range(8)]
    await conn.execute("update windlass.run set steps = 'a' where id = $1", ids[4])
    await conn.execute("update workflow.workflow_run set status = 'succeeded'")
    assert await sweep.sweep_runs(db) == 8
    heard = [await conn.fetchval("select steps from windlass.run where id = $1", id_) for id_ in ids]
    assert heard == ["sa"] * 4 + ["a"] + ["sa"] * 4
    [entry] = await quarantine.list_(db)
    assert (entry.kind, entry.key, entry.error_type, entry.failures) == ("run", str(ids[4]), "IndexError", 1)
    assert await sweep.sweep_runs(db) == 0  # it is not retried before its retry time
    await conn.execute("update windlass.run set steps = 'a.' where id = $1", ids[4])
    assert await sweep.retry(db, ids[4])
    assert await conn.fetchval("select steps from windlass.run where id = $1", ids[4]) == "sa"
