"""Child runs: the parent waits, takes over the output of the child, and fails if the child fails."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.engine.harness import Fails, ManualWorker, begin, letters, node, publish, reasons, state, tick
from windlass.core.workflows.step import ChildAction, Foreach, Parallel, SleepAction, Step
from windlass.engine import workflows
from windlass.engine.database import Tenant
from windlass.engine.runs import control as runs
from windlass.engine.runs import sweep
from windlass.testing import Clock

Connection = Any


def child(name: str = "sub", *needs: str, workflow: str = "kid", input: Any = None, **more: Any) -> Step:  # noqa: A002
    return node(name, *needs, action=ChildAction(workflow, {} if input is None else input), **more)


async def below(conn: Connection, run: UUID) -> list[UUID]:
    """Return the child runs of this run, ordered by round and item."""
    rows = await conn.fetch("select id from windlass.run where parent_id = $1 order by parent_round, parent_item", run)
    return [row["id"] for row in rows]


async def test_a_parent_waits_for_its_child_run_and_both_complete(
    db: Tenant, worker: ManualWorker, conn: Connection
) -> None:
    await publish(db, node("x"), node("y", "x"), name="kid", labels={"tier": "1"})
    run = await begin(db, child(input={"n": 1}), node("b", "sub"))
    assert (await state(db, run), await letters(db, run)) == ("running", "a.")
    [kid] = await below(conn, run)
    assert await state(db, kid) == "pending"
    await tick(db)
    row = await runs.get(db, kid)
    assert (row.state, row.parent_id, row.input, row.labels) == ("running", run, {"n": 1}, {"tier": "1"})
    await worker.play({"y": {"out": 1}, "b": "end"})
    assert (await state(db, run), await letters(db, run)) == ("completed", "ss")
    assert worker.seen == ["x", "y", "b"]
    assert await runs.output(db, kid) == {"out": 1}


async def test_the_output_of_a_run_that_ends_with_a_child_run_is_that_of_the_child(
    db: Tenant, worker: ManualWorker
) -> None:
    await publish(db, node("x"), name="kid")
    run = await begin(db, child())
    await worker.play({"x": {"out": 1}})
    assert await runs.output(db, run) == {"out": 1}


@pytest.mark.parametrize(
    ("how", "letter", "why"),
    [("failed", "f", "failed"), ("cancelled", "c", "was cancelled"), ("timeout", "t", "timed out")],
)
async def test_a_child_run_that_does_not_complete_fails_its_parent_with_the_reason(
    db: Tenant, worker: ManualWorker, conn: Connection, clock: Clock, how: str, letter: str, why: str
) -> None:
    await publish(db, node("x"), name="kid", max_duration=timedelta(minutes=1))
    run = await begin(db, child(), node("b", "sub"))
    await tick(db)
    [kid] = await below(conn, run)
    if how == "cancelled":
        await runs.cancel(db, kid)
    elif how == "timeout":
        clock.move(timedelta(minutes=2))
        await sweep.expire(db)
    await worker.play({"x": Fails()})
    assert await state(db, kid) == how
    assert (await state(db, run), await letters(db, run)) == ("failed", f"{letter}k")
    assert await reasons(db, run, "sub") == [f"run {kid} {why}"]


async def test_a_missing_child_workflow_fails_the_step_with_its_name(db: Tenant) -> None:
    run = await begin(db, child(), node("b", "sub:failure"))
    assert await letters(db, run) == "fa"
    assert await reasons(db, run, "sub") == ["there is no workflow 'kid'"]


async def test_a_disabled_child_workflow_fails_the_step_and_a_retry_works_once_it_is_enabled(
    db: Tenant, worker: ManualWorker
) -> None:
    await publish(db, node("x"), name="kid")
    await workflows.enable(db, "kid", False)
    run = await begin(db, child())
    assert (await state(db, run), await reasons(db, run, "sub")) == ("failed", ["workflow 'kid' is disabled"])
    await workflows.enable(db, "kid")
    await runs.retry(db, run)
    await worker.play()
    assert await state(db, run) == "completed"


async def test_child_runs_can_be_nested_ten_levels_deep(db: Tenant, conn: Connection) -> None:
    run = await begin(db, child(workflow="w"))
    while await tick(db):
        pass
    assert await conn.fetchval("select max(depth) from windlass.run") == 10
    assert await conn.fetchval("select count(*) from windlass.run where state <> 'failed'") == 0
    deepest = await conn.fetchval("select id from windlass.run where depth = 10")
    assert await reasons(db, deepest, "sub") == ["child runs can be nested at most 10 deep"]
    assert await state(db, run) == "failed"


async def test_the_output_of_a_grandchild_run_is_propagated_to_the_root_run(db: Tenant, worker: ManualWorker) -> None:
    await publish(db, node("x"), name="grandkid")
    await publish(db, child(workflow="grandkid"), name="kid")
    run = await begin(db, child())
    await worker.play({"x": 42})
    assert (await state(db, run), await runs.output(db, run)) == ("completed", 42)


async def test_the_end_of_a_child_run_does_not_change_an_ended_parent(
    db: Tenant, worker: ManualWorker, conn: Connection
) -> None:
    await publish(db, node("x"), name="kid")
    run = await begin(db, child(), node("b", "sub"))
    await tick(db)
    job = await worker.take_one("x")
    await runs.cancel(db, run)
    await worker.end(job)
    await tick(db)
    assert await state(db, run) == "cancelled"
    assert await conn.fetchval("select count(*) from windlass.notice") == 0


# Fan-outs of child runs


async def test_each_child_run_of_a_fan_out_has_its_item_in_its_input(
    db: Tenant, worker: ManualWorker, conn: Connection
) -> None:
    await publish(db, node("x"), name="kid")
    run = await begin(db, child(fan_out=Foreach("input"), input={"k": 1}), node("b", "sub"), input=["p", "q", "r"])
    given = [(await runs.get(db, kid)).input for kid in await below(conn, run)]
    assert given == [{"k": 1, "item": "p"}, {"k": 1, "item": "q"}, {"k": 1, "item": "r"}]
    await worker.play()
    assert (await state(db, run), await letters(db, run)) == ("completed", "ss")


async def test_the_output_of_a_fan_out_of_child_runs_is_the_list_of_their_outputs(
    db: Tenant, worker: ManualWorker
) -> None:
    await publish(db, node("x"), name="kid")
    run = await begin(db, child(fan_out=Parallel(3)))
    count = iter(range(10))
    await worker.play({"x": lambda _: next(count)})
    output = await runs.output(db, run)
    assert sorted(output) == [0, 1, 2]


async def test_the_output_of_a_fan_out_without_child_runs_is_an_empty_list(db: Tenant) -> None:
    await publish(db, node("x"), name="kid")
    run = await begin(db, child(fan_out=Parallel(0)))
    assert (await state(db, run), await runs.output(db, run)) == ("completed", [])


async def test_a_concurrency_window_applies_to_child_runs(db: Tenant, worker: ManualWorker, conn: Connection) -> None:
    await publish(db, node("x"), name="kid")
    run = await begin(db, child(fan_out=Parallel(5), concurrency=2))
    for made in (2, 4, 5):
        assert len(await below(conn, run)) == made
        await tick(db)
        for job in await worker.take():
            await worker.end(job)
        await tick(db)
    assert await state(db, run) == "completed"


async def test_a_fan_out_can_iterate_over_the_outputs_of_child_runs(db: Tenant, worker: ManualWorker) -> None:
    await publish(db, node("x"), name="kid")
    steps = child(), node("b", "sub", fan_out=Foreach("sub.files"))
    more = child("subs", fan_out=Parallel(2)), node("c", "subs", fan_out=Foreach("subs"))
    run = await begin(db, *steps, *more)
    await worker.play({"x": {"files": [1, 2, 3]}})
    assert (await state(db, run), worker.seen.count("b"), worker.seen.count("c")) == ("completed", 3, 2)


async def test_failed_child_runs_of_a_fan_out_are_counted_in_the_reason(db: Tenant, worker: ManualWorker) -> None:
    await publish(db, node("x"), name="kid")
    run = await begin(db, child(fan_out=Parallel(3)))
    count = iter(range(10))
    await worker.play({"x": lambda _: Fails() if next(count) == 1 else 1})
    assert (await letters(db, run), await reasons(db, run, "sub")) == ("f", ["1 of 3 instances failed"])


async def test_a_missing_workflow_of_many_child_runs_is_reported_once(db: Tenant) -> None:
    run = await begin(db, child(fan_out=Parallel(50), concurrency=4))
    assert (await state(db, run), await reasons(db, run, "sub")) == ("failed", ["50 of 50 instances failed"])


# A limited child workflow


async def test_child_runs_respect_the_concurrency_limit_of_their_workflow(
    db: Tenant, worker: ManualWorker, conn: Connection
) -> None:
    await publish(db, node("x"), name="kid", concurrency=1)
    run = await begin(db, child(fan_out=Parallel(3)))
    running = "select count(*) from windlass.run where state = 'running' and parent_id is not null"
    for _ in range(3):
        await tick(db)
        assert await conn.fetchval(running) == 1
        await worker.end(await worker.take_one("x"))
    await worker.play()
    assert await state(db, run) == "completed"


async def test_the_timeout_of_a_step_limits_its_child_run(
    db: Tenant, worker: ManualWorker, conn: Connection, clock: Clock
) -> None:
    await publish(db, node("nap", action=SleepAction(timedelta(hours=5))), name="kid")
    run = await begin(db, child(timeout=timedelta(hours=1)), node("late", "sub:failure"))
    await tick(db)
    clock.move(timedelta(hours=2))
    await worker.play()
    [kid] = await below(conn, run)
    assert (await state(db, kid), await letters(db, kid)) == ("timeout", "c")
    assert (await state(db, run), await letters(db, run)) == ("completed", "ts")


async def test_a_child_run_of_a_step_with_a_longer_timeout_keeps_its_own_max_duration(
    db: Tenant, conn: Connection
) -> None:
    await publish(db, node("x"), name="kid", max_duration=timedelta(hours=1))
    run = await begin(db, child(timeout=timedelta(hours=5)))
    [kid] = [await runs.get(db, id_) for id_ in await below(conn, run)]
    assert timedelta(minutes=59) < kid.expires_at - kid.created_at <= timedelta(hours=1)
