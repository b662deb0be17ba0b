"""Workflows change while runs are live: the runs continue on their version. And the trail of live runs is kept."""

from datetime import timedelta
from typing import Any

import pytest

from tests.engine.harness import Fails, ManualWorker, begin, letters, node, not_yet_archived, publish, state, tick
from windlass.core.workflows.step import ChildAction, Foreach, HookAction, Parallel, SleepAction
from windlass.engine import upkeep, workflows
from windlass.engine.database import Tenant
from windlass.engine.runs import control as runs
from windlass.engine.runs import outputs, start
from windlass.engine.runs.start import RunSpec
from windlass.errors import NotFound
from windlass.store import runs as store
from windlass.testing import Clock

Connection = Any
MONTH = timedelta(days=30)
TABLES = [
    "workflow.workflow_run",
    *(f"windlass.{name}" for name in ("run", "item", "event", "timer", "notice", "hook")),
]


@pytest.mark.parametrize("how", ["edit", "disable", "delete", "replace"])
async def test_c2_28_live_runs_finish_on_their_version(db: Tenant, worker: ManualWorker, how: str) -> None:
    await publish(db, node("a"), node("b", "a"), node("c", "b"))
    ids = await start.start(db, "w", [RunSpec()] * 20)
    for job in (await worker.take())[:10]:
        await worker.end(job)  # some are at the first step, some at the second
    if how == "edit":
        await publish(db, node("c"), node("other", "c"))
    elif how == "disable":
        await workflows.enable(db, "w", False)
    else:
        await workflows.delete(db, "w")
        if how == "replace":
            await publish(db, node("x"))
    await worker.play()
    left = [id_ for id_ in ids if await state(db, id_) != "completed"]
    assert len(left) == 10  # their first jobs are still leased
    assert {await letters(db, id_) for id_ in left} == {"a.."}
    assert {(await runs.get(db, id_)).version for id_ in ids} == {1}


async def test_a_retry_of_an_old_run_uses_its_own_version(db: Tenant, worker: ManualWorker) -> None:
    run = await begin(db, node("a"), node("b", "a"))
    await worker.play({"a": Fails()})
    await publish(db, node("z"))
    await workflows.delete(db, "w")
    await runs.retry(db, run)
    await worker.play()
    assert (await state(db, run), await letters(db, run)) == ("completed", "ss")


async def test_a_child_run_starts_on_the_version_that_is_live_when_it_starts(db: Tenant, worker: ManualWorker) -> None:
    await publish(db, node("old"), name="kid")
    run = await begin(db, node("a"), node("sub", "a", action=ChildAction("kid")))
    await publish(db, node("new"), name="kid")
    await worker.play()
    assert (await state(db, run), worker.seen) == ("completed", ["a", "new"])


# Retention


async def counts(conn: Connection) -> dict[str, int]:
    return {table.split(".")[1]: await conn.fetchval(f"select count(*) from {table}") for table in TABLES}


async def test_an_old_finished_run_is_deleted_with_all_its_rows(
    db: Tenant, worker: ManualWorker, conn: Connection, clock: Clock
) -> None:
    run = await begin(db, node("a"), node("b", "a", fan_out=Foreach("a")), node("h", "a", action=HookAction()))
    await worker.play({"a": [1, 2, 3]})
    await runs.cancel(db, run)
    assert await upkeep.prune(db, age=MONTH) == 0
    assert (await counts(conn))["item"] == 3
    clock.move(MONTH + timedelta(days=1))
    while await upkeep.prune(db, age=MONTH):
        pass
    assert set((await counts(conn)).values()) == {0}


@not_yet_archived
async def test_runs_are_deleted_in_batches_limited_by_jobs_and_an_oversized_run_alone(
    db: Tenant, worker: ManualWorker, conn: Connection, clock: Clock
) -> None:
    """Runs of 3, 3, 9 and 1 jobs with room for six: the first two, the third, the last."""
    for size in (3, 3, 9, 1):
        await begin(db, node("a", fan_out=Parallel(size)), name=f"of-{size}")
        await worker.play()
        clock.move(timedelta(minutes=1))
    clock.move(MONTH)

    async def prune() -> int:
        async with db.database.once() as engine:
            return await store.prune(engine, age=MONTH, batch=100, most_jobs=6)

    left = []
    while await prune():
        left.append(await conn.fetchval("select count(*) from workflow.workflow_run"))
    assert left == [10, 1, 0]
    assert set((await counts(conn)).values()) == {0}


async def test_old_jobs_of_a_live_run_are_kept(
    db: Tenant, worker: ManualWorker, conn: Connection, clock: Clock
) -> None:
    run = await begin(
        db,
        node("a"),
        node("b", "a", fan_out=Foreach("a")),
        node("s", "b", action=SleepAction(timedelta(days=100))),
        node("c", "s"),
        max_duration=timedelta(days=1000),
    )
    await worker.play({"a": [1, 2]})
    before = await counts(conn)
    clock.move(timedelta(days=90))
    while await upkeep.prune(db, age=MONTH):
        pass
    assert await counts(conn) == before
    clock.move(timedelta(days=90))
    await worker.play()
    assert await state(db, run) == "completed"


async def test_old_jobs_of_a_run_that_ended_recently_are_kept(db: Tenant, worker: ManualWorker, clock: Clock) -> None:
    """The run may be retried, and then it needs the old outputs."""
    run = await begin(
        db,
        node("a"),
        node("s", "a", action=SleepAction(timedelta(days=50))),
        node("b", "a", "s"),
        max_duration=timedelta(days=1000),
    )
    await worker.play()
    clock.move(timedelta(days=50))
    await worker.play({"b": Fails()})
    while await upkeep.prune(db, age=MONTH):
        pass
    await runs.retry(db, run)
    job = await worker.take_one("b")
    assert (await outputs.of_needs(db, [job]))[job.id]["a"] == "a"


async def test_old_child_runs_of_a_live_run_are_kept(
    db: Tenant, worker: ManualWorker, conn: Connection, clock: Clock
) -> None:
    """The live run reads their outputs."""
    await publish(db, node("x"), name="grandkid")
    await publish(db, node("sub", action=ChildAction("grandkid")), name="kid")
    nap = node("s", "sub", action=SleepAction(timedelta(days=50)))
    run = await begin(db, node("sub", action=ChildAction("kid")), nap, node("b", "s", "sub"))
    await conn.execute("update windlass.run set expires_at = now() + interval '1000 days'")
    await worker.play({"x": 42})
    clock.move(timedelta(days=50))
    while await upkeep.prune(db, age=MONTH):
        pass
    await tick(db)
    job = await worker.take_one("b")
    assert (await outputs.of_needs(db, [job]))[job.id]["sub"] == 42
    await worker.end(job)
    assert await state(db, run) == "completed"


async def test_a_pruned_run_is_unknown_and_its_key_is_free(db: Tenant, worker: ManualWorker, clock: Clock) -> None:
    run = await begin(db, node("a", fan_out=Parallel(0)), idempotency_key="k")
    clock.move(MONTH * 2)
    await upkeep.prune(db, age=MONTH)
    with pytest.raises(NotFound):
        await runs.get(db, run)
    assert await begin(db, idempotency_key="k") != run


async def test_a_child_run_that_outlives_its_pruned_parent_leaves_no_notice(
    db: Tenant, worker: ManualWorker, conn: Connection, clock: Clock
) -> None:
    await publish(db, node("x"), name="kid")
    await begin(db, node("sub", action=ChildAction("kid")), name="w")
    await tick(db)
    job = await worker.take_one("x")
    await conn.execute("update windlass.run set state = 'failed', finished_at = now() where parent_id is null")
    clock.move(MONTH * 2)
    await conn.execute("update windlass.run set expires_at = now() + interval '1000 days'")
    while await upkeep.prune(db, age=MONTH):
        pass
    await worker.end(job)
    assert await tick(db) == 0
    assert (await counts(conn))["notice"] == 0  # no run would ever process it


async def test_the_old_trail_of_a_live_run_is_kept(
    db: Tenant, worker: ManualWorker, conn: Connection, clock: Clock
) -> None:
    week = "select count(*) from pg_inherits where inhparent = 'workflow.workflow_event'::regclass"
    run = await begin(db, node("a"), node("s", "a", action=SleepAction(timedelta(days=80))), max_duration=MONTH * 30)
    await worker.play()
    lines = await conn.fetchval("select count(*) from workflow.workflow_event")
    clock.move(timedelta(days=70))
    await upkeep.tend(db, age=MONTH)
    assert await conn.fetchval("select count(*) from workflow.workflow_event") == lines
    before = await conn.fetchval(week)
    clock.move(timedelta(days=20))
    await worker.play()
    assert await state(db, run) == "completed"
    await upkeep.tend(db, age=MONTH)
    assert await conn.fetchval(week) < before + 3
    assert await conn.fetchval("select count(*) from workflow.workflow_event") < lines
