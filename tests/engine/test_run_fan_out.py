"""Fan-out: the number of instances, their inputs, concurrency windows, wrong types, and nested fan-outs."""

from typing import Any

import pytest

from tests.engine.harness import Fails, ManualWorker, begin, letters, node, reasons, report, state
from windlass.core.jobs.job import Claimed
from windlass.core.json_value import decode
from windlass.core.workflows.step import Foreach, JobAction, Parallel, Step
from windlass.engine.database import Tenant
from windlass.engine.runs import control as runs

Connection = Any
LIVE = "select count(*) from workflow.workflow_run where step = $1 and status in ('pending', 'leased')"


def item_of(job: Claimed) -> Any:
    return decode(job.payload)["item"]


def squared(job: Claimed) -> int:
    return int(item_of(job) ** 2)


def fan(source: str = "a.files", *needs: str, **more: Any) -> Step:
    return node("b", *(needs or ("a",)), fan_out=Foreach(source), **more)


async def test_jobs_of_a_fan_out_have_an_index_a_count_and_an_item(db: Tenant, worker: ManualWorker) -> None:
    action = JobAction("test.b.v1", {"bucket": "landing"})
    await begin(db, node("a"), fan(action=action))
    await worker.end(await worker.take_one("a"), {"files": ["x", {"y": 1}, None]})
    claimed = sorted(await worker.take(), key=lambda job: job.item or 0)
    assert [(job.item, job.items) for job in claimed] == [(0, 3), (1, 3), (2, 3)]
    assert [decode(job.payload) for job in claimed] == [
        {"bucket": "landing", "item": "x"},
        {"bucket": "landing", "item": {"y": 1}},
        {"bucket": "landing", "item": None},
    ]


@pytest.mark.parametrize("source", ["input.files", "trigger.body.files"])
async def test_a_fan_out_can_iterate_over_a_list_in_the_input(db: Tenant, worker: ManualWorker, source: str) -> None:
    run = await begin(db, node("b", fan_out=Foreach(source)), input={"files": [1, 2, 3]})
    await worker.play({"b": squared})
    assert await runs.output(db, run) == [1, 4, 9]


async def test_a_fan_out_can_iterate_over_the_whole_input(db: Tenant, worker: ManualWorker) -> None:
    run = await begin(db, node("b", fan_out=Foreach("input")), input=[3, 4])
    await worker.play({"b": squared})
    assert await runs.output(db, run) == [9, 16]


async def test_a_fan_out_can_iterate_over_a_whole_result_and_over_a_deep_path(db: Tenant, worker: ManualWorker) -> None:
    deep = node("c", "a", fan_out=Foreach("a.0.deep.list"))
    run = await begin(db, node("a"), fan("a"), deep)
    await worker.play({"a": [{"deep": {"list": [5]}}, 2], "b": 1, "c": squared})
    assert await runs.output(db, run) == {"b": [1, 1], "c": [25]}


async def test_a_fan_out_can_iterate_over_the_output_of_another_fan_out(db: Tenant, worker: ManualWorker) -> None:
    second = node("c", "b", fan_out=Foreach("b"))
    run = await begin(db, node("a"), fan(), second)
    await worker.play({"a": {"files": [1, 2, 3]}, "b": squared, "c": squared})
    assert await runs.output(db, run) == [1, 16, 81]


async def test_a_fan_out_can_iterate_over_the_result_of_an_indirect_upstream_step(
    db: Tenant, worker: ManualWorker
) -> None:
    run = await begin(db, node("a"), node("m", "a"), fan("a.files", "m"))
    await worker.play({"a": {"files": [2]}, "b": squared})
    assert await runs.output(db, run) == [4]


async def test_the_next_step_begins_when_all_instances_succeeded(db: Tenant, worker: ManualWorker) -> None:
    run = await begin(db, node("a"), fan(), node("c", "b"))
    await worker.end(await worker.take_one("a"), {"files": [1, 2, 3]})
    claimed = await worker.take()
    for job in claimed[:2]:
        await worker.end(job)
        assert (await letters(db, run), await worker.take()) == ("sa.", [])
    await worker.end(claimed[2])
    await worker.take_one("c")


async def test_outputs_are_in_the_order_of_items_and_not_of_completion(db: Tenant, worker: ManualWorker) -> None:
    run = await begin(db, node("b", fan_out=Foreach("input")), input=list("xyz"))
    for job in sorted(await worker.take(), key=lambda job: -(job.item or 0)):
        await worker.end(job, item_of(job))
    assert await runs.output(db, run) == ["x", "y", "z"]


# Windows


@pytest.mark.parametrize("source", [Foreach("input"), Parallel(17)])
async def test_the_number_of_live_instances_never_exceeds_the_window(
    db: Tenant, worker: ManualWorker, conn: Connection, source: Any
) -> None:
    run = await begin(db, node("b", fan_out=source, concurrency=4), input=list(range(17)))
    seen: list[int] = []
    for share in [1, 3, 4, 2] * 10:
        assert await conn.fetchval(LIVE, 0) == min(4, 17 - len(seen))
        claimed = await worker.take(share)
        await worker.send(*(report(job, None) for job in claimed))
        seen += [job.item or 0 for job in claimed]
        if len(seen) == 17:
            break
    assert sorted(seen) == list(range(17))
    assert await state(db, run) == "completed"


async def test_a_window_may_be_larger_than_the_list(db: Tenant, worker: ManualWorker) -> None:
    run = await begin(db, node("b", fan_out=Foreach("input"), concurrency=1000), input=[1, 2])
    await worker.play()
    assert await runs.output(db, run) == ["b", "b"]


async def test_a_retried_instance_keeps_its_slot_in_the_window(
    db: Tenant, worker: ManualWorker, conn: Connection
) -> None:
    await begin(db, node("b", fan_out=Parallel(5), concurrency=2, max_attempts=3))
    for _ in range(2):
        for job in await worker.take():
            await worker.end(job, Fails())
        assert await conn.fetchval(LIVE, 0) == 2
        assert await conn.fetchval("select max(item) from workflow.workflow_run") == 1


async def test_windows_of_two_runs_are_independent(db: Tenant, worker: ManualWorker, conn: Connection) -> None:
    await begin(db, node("b", fan_out=Parallel(5), concurrency=2))
    await begin(db)
    assert await conn.fetchval(LIVE, 0) == 4


# Invalid sources

WRONG = [
    (Foreach("a.files"), {"files": 3}, "cannot expand: a.files is a number (3), not a list"),
    (Foreach("a.files"), {"files": "x"}, "cannot expand: a.files is a string, not a list"),
    (Foreach("a.files"), {"files": {}}, "cannot expand: a.files is an object, not a list"),
    (Foreach("a.files"), {"files": None}, "cannot expand: a.files is null, not a list"),
    (Foreach("a.files"), {"files": True}, "cannot expand: a.files is true or false (true), not a list"),
    (Foreach("a.files"), {}, "cannot expand: a.files is missing, not a list"),
    (Foreach("a.files.deep"), {"files": [1]}, "cannot expand: a.files.deep is missing, not a list"),
    (Foreach("a"), None, "cannot expand: a is null, not a list"),
    (Parallel("a.n"), {"n": -1}, "cannot expand: a.n is a number (-1), not a non-negative integer"),
    (Parallel("a.n"), {"n": 1.5}, "cannot expand: a.n is a number (1.5), not a non-negative integer"),
    (Parallel("a.n"), {"n": "4"}, "cannot expand: a.n is a string, not a non-negative integer"),
    (Parallel("a.n"), {"n": [1]}, "cannot expand: a.n is a list, not a non-negative integer"),
    (Parallel("a.n"), {}, "cannot expand: a.n is missing, not a non-negative integer"),
    (Parallel("a.n"), {"n": 10**7}, "cannot expand: a.n requires 10000000 instances, the limit is 1000000"),
]


@pytest.mark.parametrize(("source", "result", "sentence"), WRONG, ids=lambda value: str(value)[:40])
async def test_c2_22_a_source_of_the_wrong_type_fails_the_step_with_a_reason_and_no_retry(
    db: Tenant, worker: ManualWorker, source: Any, result: Any, sentence: str
) -> None:
    run = await begin(db, node("a"), node("b", "a", fan_out=source, max_attempts=5), node("c", "b"))
    await worker.play({"a": result})
    assert (await state(db, run), await letters(db, run)) == ("failed", "sfk")
    assert await reasons(db, run, "b") == [sentence]
    assert worker.seen == ["a"]


async def test_an_input_of_the_wrong_type_fails_the_run_as_it_starts(db: Tenant) -> None:
    run = await begin(db, node("b", fan_out=Foreach("input.files")), input={"files": "x"})
    row = await runs.get(db, run)
    assert (row.state, row.letters) == ("failed", "f")
    assert row.finished_at is not None
    assert await reasons(db, run, "b") == ["cannot expand: input.files is a string, not a list"]


async def test_a_path_into_a_fanned_out_step_does_not_refer_to_its_first_instance(
    db: Tenant, worker: ManualWorker
) -> None:
    """Its output is a list, which has no such field and is not a number."""
    run = await begin(
        db,
        node("a", fan_out=Parallel(2)),
        fan("a.files"),
        node("c", "a", fan_out=Parallel("a")),
    )
    await worker.play({"a": {"files": [1, 2]}})
    assert await letters(db, run) == "sff"


# Volume


@pytest.mark.parametrize("count", [1_000, pytest.param(10_000, marks=pytest.mark.soak)])
async def test_all_instances_of_a_fan_out_without_a_window_are_created_at_once(
    db: Tenant, worker: ManualWorker, conn: Connection, count: int
) -> None:
    run = await begin(db, node("a"), fan("a"), node("c", "b"))
    await worker.end(await worker.take_one("a"), list(range(count)))
    assert await conn.fetchval(LIVE, 1) == count
    await worker.play({"b": item_of})
    assert await state(db, run) == "completed"
    assert await conn.fetchval("select sum((result)::int) from workflow.workflow_run where step = 1") == sum(
        range(count)
    )
