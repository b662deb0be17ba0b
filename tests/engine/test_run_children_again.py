"""Child runs that are cancelled or repeated: cancel applies to all descendants, a retry starts new children, and
reports of old children change nothing."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.engine.harness import Fails, ManualWorker, begin, letters, node, publish, reasons, state, tick
from windlass.core.workflows.step import ChildAction, Parallel, Step
from windlass.engine.database import Tenant
from windlass.engine.runs import control as runs
from windlass.engine.runs import sweep
from windlass.testing import Clock

Connection = Any


def child(name: str = "sub", *needs: str, workflow: str = "kid", **more: Any) -> Step:
    return node(name, *needs, action=ChildAction(workflow), **more)


async def below(conn: Connection, run: UUID) -> list[UUID]:
    """Return the child runs of this run, ordered by round and item."""
    rows = await conn.fetch("select id from windlass.run where parent_id = $1 order by parent_round, parent_item", run)
    return [row["id"] for row in rows]


# Cancel


async def test_a_cancel_is_propagated_to_grandchild_runs(db: Tenant, worker: ManualWorker, conn: Connection) -> None:
    await publish(db, node("x"), node("y", "x"), name="grandkid")
    await publish(db, child(workflow="grandkid"), name="kid")
    run = await begin(db, child(), node("b", "sub"))
    await tick(db)
    await tick(db)
    [kid] = await below(conn, run)
    [grandkid] = await below(conn, kid)
    await runs.cancel(db, run, reason="enough")
    while await tick(db):
        pass
    assert [await state(db, each) for each in (run, kid, grandkid)] == ["cancelled"] * 3
    assert [await letters(db, each) for each in (run, kid, grandkid)] == ["cc", "c", "cc"]
    assert await reasons(db, kid) == ["enough"]
    assert await conn.fetchval("select count(*) from windlass.notice") == 0
    assert await worker.take() == []


async def test_jobs_of_the_descendants_of_a_cancelled_run_have_its_reason(db: Tenant, conn: Connection) -> None:
    await publish(db, node("deep"), name="grandkid")
    await publish(db, child(workflow="grandkid"), node("x"), name="kid")
    run, other = await begin(db, child()), await begin(db, child(), name="other")
    while await tick(db):
        pass
    await runs.cancel(db, run, reason="enough")
    await runs.cancel(db, other, reason="not now")
    while await tick(db):  # the notices of both trees are applied in one batch
        pass
    for root, reason in ((run, "enough"), (other, "not now")):
        [kid] = await below(conn, root)
        [grandkid] = await below(conn, kid)
        assert (await reasons(db, kid, "x"), await reasons(db, grandkid, "deep")) == ([reason], [reason])
        rows = await conn.fetch(
            """select e.data ->> 'reason' as reason from workflow.workflow_event e
                 join workflow.workflow_run j on j.id = e.workflow_id
                where j.run_id = any($1) and e.event_type = 'cancelled'""",
            [kid, grandkid],
        )
        assert [row["reason"] for row in rows] == [reason, reason]


async def test_a_child_run_that_has_not_started_is_cancelled_too(db: Tenant, conn: Connection) -> None:
    await publish(db, node("x"), name="kid")
    run = await begin(db, child())
    await runs.cancel(db, run)
    await tick(db)
    [kid] = await below(conn, run)
    row = await runs.get(db, kid)
    assert (row.state, row.letters, row.started_at) == ("cancelled", "c", None)
    await tick(db)
    assert await letters(db, run) == "c"


async def test_the_expiry_of_a_run_cancels_its_child_runs(db: Tenant, conn: Connection, clock: Clock) -> None:
    await publish(db, node("x"), name="kid")
    run = await begin(db, child(), max_duration=timedelta(minutes=1))
    await tick(db)
    clock.move(timedelta(minutes=2))
    while await tick(db):
        pass
    [kid] = await below(conn, run)
    assert (await state(db, run), await state(db, kid)) == ("timeout", "cancelled")
    assert await reasons(db, kid) == ["the run exceeded its max_duration"]


@pytest.mark.parametrize("cancel_first", [True, False])
async def test_a_child_run_that_starts_during_a_cancel_is_cancelled_too(
    db: Tenant, worker: ManualWorker, conn: Connection, cancel_first: bool
) -> None:
    """The end of one child frees a slot at the moment of the cancel."""
    await publish(db, node("x"), name="kid")
    await publish(db, child(fan_out=Parallel(3), concurrency=1), name="middle")
    run = await begin(db, child(workflow="middle"))
    await tick(db)
    await tick(db)
    [middle] = await below(conn, run)
    job = await worker.take_one("x")
    if cancel_first:
        await runs.cancel(db, run)
        await worker.end(job)
    else:
        await worker.end(job)
        await runs.cancel(db, run)
    while await tick(db):
        pass
    assert {await state(db, each) for each in (run, middle)} == {"cancelled"}
    assert await conn.fetchval("select count(*) from windlass.run where state in ('pending', 'running')") == 0
    assert await letters(db, middle) == "c"


# Retry and rerun


async def test_a_retry_of_the_parent_starts_a_new_child_run(db: Tenant, worker: ManualWorker, conn: Connection) -> None:
    await publish(db, node("x"), name="kid")
    run = await begin(db, child(), node("b", "sub"))
    await worker.play({"x": Fails()})
    assert await letters(db, run) == "fk"
    await runs.retry(db, run)
    await worker.play({"x": "new"})
    old, new = await below(conn, run)
    assert [await state(db, each) for each in (run, old, new)] == ["completed", "failed", "completed"]
    assert await letters(db, run) == "ss"


@pytest.mark.parametrize("window", [None, 1])
async def test_a_retry_starts_new_child_runs_only_for_the_failed_ones(
    db: Tenant, worker: ManualWorker, conn: Connection, window: int | None
) -> None:
    await publish(db, node("x"), name="kid")
    run = await begin(db, child(fan_out=Parallel(4), concurrency=window))
    count = iter(range(10))
    await worker.play({"x": lambda _: Fails() if next(count) in (1, 2) else "old"})
    assert await reasons(db, run, "sub") == ["2 of 4 instances failed"]
    assert len(await below(conn, run)) == 4
    await runs.retry(db, run)
    await worker.play({"x": "new"})
    assert await state(db, run) == "completed"
    assert len(await below(conn, run)) == 6
    assert sorted(await runs.output(db, run)) == ["new", "new", "old", "old"]


async def test_a_rerun_starts_new_child_runs_for_all_items(db: Tenant, worker: ManualWorker, conn: Connection) -> None:
    await publish(db, node("x"), name="kid")
    run = await begin(db, node("a"), child("sub", "a", fan_out=Parallel("a")))
    await worker.play({"a": 3, "x": "old"})
    await runs.rerun(db, run, "a")
    await worker.play({"a": 2, "x": "new"})
    assert (await state(db, run), await runs.output(db, run)) == ("completed", ["new", "new"])
    await runs.rerun(db, run, "a")
    await worker.play({"a": 0})
    assert await runs.output(db, run) == []


async def test_the_completion_of_a_retried_child_run_does_not_change_its_failed_parent(
    db: Tenant, worker: ManualWorker, conn: Connection
) -> None:
    await publish(db, node("x"), name="kid")
    run = await begin(db, child(), node("b", "sub"))
    await worker.play({"x": Fails()})
    before = await runs.get(db, run)
    [kid] = await below(conn, run)
    await runs.retry(db, kid)
    await worker.play()
    assert await state(db, kid) == "completed"
    assert await runs.get(db, run) == before


async def test_a_retried_child_run_is_not_counted_twice(db: Tenant, worker: ManualWorker, conn: Connection) -> None:
    await publish(db, node("x"), name="kid")
    run = await begin(db, child(fan_out=Parallel(2)))
    await tick(db)
    first, second = await worker.take()
    await worker.end(first, Fails(for_good=True))
    await tick(db)
    assert first.run_id is not None
    await runs.retry(db, first.run_id)
    await worker.end((await worker.take())[0])
    await tick(db)
    assert (await state(db, run), await letters(db, run)) == ("running", "a")  # the second one is under way
    await worker.end(second)
    await tick(db)
    assert (await state(db, run), await reasons(db, run, "sub")) == ("failed", ["1 of 2 instances failed"])


async def test_a_retry_while_the_child_run_is_being_cancelled_starts_a_new_one(
    db: Tenant, worker: ManualWorker, conn: Connection, clock: Clock
) -> None:
    """The parent expired, its child was requested to stop, and the parent was retried before the child ended."""
    await publish(db, node("x"), name="kid")
    run = await begin(db, child(), max_duration=timedelta(minutes=1))
    await tick(db)
    clock.move(timedelta(minutes=2))
    await sweep.expire(db)
    assert (await state(db, run), await letters(db, run)) == ("timeout", "a")
    await runs.retry(db, run)
    await tick(db)  # cancels the child
    await worker.play()
    assert (await state(db, run), await letters(db, run)) == ("completed", "s")
    assert [await state(db, kid) for kid in await below(conn, run)] == ["cancelled", "completed"]


async def test_a_retry_while_some_child_runs_are_being_cancelled_replaces_only_those(
    db: Tenant, worker: ManualWorker, conn: Connection, clock: Clock
) -> None:
    await publish(db, node("x"), name="kid")
    run = await begin(db, child(fan_out=Parallel(3)), max_duration=timedelta(minutes=1))
    await tick(db)
    first, *_ = await worker.take()
    await worker.end(first)
    await tick(db)
    clock.move(timedelta(minutes=2))
    await sweep.expire(db)
    await runs.retry(db, run)
    await tick(db)
    await worker.play()
    assert (await state(db, run), await letters(db, run)) == ("completed", "s")
    assert (await runs.get(db, run)).fans["0"][:5] == [3, 3, 3, 0, 0]


async def test_a_child_run_being_cancelled_is_not_replaced_if_its_parent_is_cancelled_too(
    db: Tenant, worker: ManualWorker, conn: Connection, clock: Clock
) -> None:
    await publish(db, node("x"), name="kid")
    run = await begin(db, child(), max_duration=timedelta(minutes=1))
    await tick(db)
    clock.move(timedelta(minutes=2))
    await sweep.expire(db)
    await runs.retry(db, run)
    await runs.cancel(db, run)
    await tick(db)
    await worker.play()
    assert (await state(db, run), await letters(db, run)) == ("cancelled", "c")
    assert len(await below(conn, run)) == 1


async def test_the_end_of_an_old_child_run_does_not_end_the_new_one(
    db: Tenant, worker: ManualWorker, conn: Connection
) -> None:
    await publish(db, node("x"), name="kid")
    run = await begin(db, child())
    await worker.play({"x": Fails()})
    [old] = await below(conn, run)
    await runs.retry(db, old)
    late = await worker.take_one("x")
    await runs.retry(db, run)
    await worker.end(late)
    await tick(db)
    assert (await state(db, run), await letters(db, run)) == ("running", "a")
    await worker.play()
    assert await state(db, run) == "completed"
