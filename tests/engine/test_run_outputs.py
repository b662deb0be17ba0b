"""The output of a run: that of its last step, or of its last steps by name."""

from datetime import timedelta
from typing import Any

import pytest

from tests.engine.harness import Fails, ManualWorker, begin, node, state
from windlass.core.workflows.step import Parallel, SleepAction, Step
from windlass.engine.database import Tenant
from windlass.engine.runs import control as runs
from windlass.engine.runs import outputs, sweep
from windlass.engine.runs.outputs import MOST_INSTANCES, TooMany
from windlass.testing import Clock

Connection = Any


FINAL = node("z", final=True)
CASES: list[tuple[list[Step], dict[str, Any], Any]] = [
    ([node("a"), node("b", "a")], {}, "b"),
    ([node("a")], {"a": None}, None),
    ([node("a"), node("b", "a"), node("c", "a")], {}, {"b": "b", "c": "c"}),
    ([node("a"), node("b")], {"b": None}, {"a": "a", "b": None}),
    ([node("a"), node("b"), FINAL], {}, {"a": "a", "b": "b"}),
    ([node("a"), FINAL], {}, "a"),
    ([FINAL], {}, "z"),
    ([node("a", fan_out=Parallel(3))], {"a": lambda job: job.item * 2}, [0, 2, 4]),
    ([node("a", fan_out=Parallel(1))], {}, ["a"]),
    ([node("a", fan_out=Parallel(2)), node("b")], {}, {"a": ["a", "a"], "b": "b"}),
    # Steps that did not succeed have no output.
    ([node("a"), node("b", "a")], {"b": Fails()}, None),
    ([node("a"), node("b", "a"), node("c", "a:failure")], {}, {"b": "b"}),
    ([node("a"), node("b", "a"), node("c", "a:failure")], {"a": Fails()}, {"c": "c"}),
]


@pytest.mark.parametrize(("steps", "endings", "expected"), CASES)
async def test_the_output_of_a_run_is_that_of_its_last_steps(
    db: Tenant, worker: ManualWorker, steps: list[Step], endings: dict[str, Any], expected: Any
) -> None:
    run = await begin(db, *steps)
    await worker.play(endings)
    assert await runs.output(db, run) == expected


async def test_a_running_run_returns_the_outputs_it_has_so_far(db: Tenant, worker: ManualWorker) -> None:
    run = await begin(db, node("a"), node("b"))
    assert await runs.output(db, run) == {}
    first = (await worker.take(1))[0]
    await worker.end(first, 1)
    assert await runs.output(db, run) == {worker.step(first): 1}


async def test_a_run_that_ends_with_a_sleep_has_no_output(db: Tenant, worker: ManualWorker, clock: Clock) -> None:
    run = await begin(db, node("a"), node("s", "a", action=SleepAction(timedelta(hours=1))))
    await worker.play()
    clock.move(timedelta(hours=2))
    await worker.play()
    assert (await state(db, run), await runs.output(db, run)) == ("completed", None)


async def test_outputs_of_more_instances_than_the_limit_are_reported_as_too_many(
    db: Tenant, worker: ManualWorker, conn: Connection
) -> None:
    run = await begin(db, node("a", fan_out=Parallel(MOST_INSTANCES + 1)), node("b", "a"))
    await conn.execute("update workflow.workflow_run set status = 'succeeded', result = '1'")
    while await sweep.sweep_runs(db):
        pass
    job = await worker.take_one("b")
    found = (await outputs.of_needs(db, [job]))[job.id]["a"]
    assert isinstance(found, TooMany)
    assert found.text == "a has 10001 instances, a list holds 10000 at most: read them page by page"
    page = await runs.instances(db, run, "a", after=9_990, limit=100)
    assert [one.item for one in page] == list(range(9_991, 10_001))


async def test_a_step_receives_only_the_outputs_of_its_needs(db: Tenant, worker: ManualWorker) -> None:
    """C2 25: by the names of the steps."""
    await begin(db, node("a"), node("b"), node("c", "a", "b:complete"), node("d", "c"))
    for job in await worker.take():
        await worker.end(job, {"from": worker.step(job)} if worker.step(job) == "a" else Fails())
    job = await worker.take_one("c")
    assert await outputs.of_needs(db, [job]) == {job.id: {"a": {"from": "a"}, "b": None}}
    await worker.end(job, "c")
    job = await worker.take_one("d")
    assert await outputs.of_needs(db, [job]) == {job.id: {"c": "c"}}


async def test_the_final_step_receives_the_outputs_of_all_steps(db: Tenant, worker: ManualWorker) -> None:
    await begin(db, node("a"), node("b"), node("c", "b"), node("z", final=True))
    for job in await worker.take():
        await worker.end(job, 1 if worker.step(job) == "a" else Fails())
    job = await worker.take_one("z")
    assert (await outputs.of_needs(db, [job]))[job.id] == {"a": 1, "b": None, "c": None}


async def test_the_inputs_of_jobs_of_many_runs_are_read_together(db: Tenant, worker: ManualWorker) -> None:
    await begin(db, node("a"), node("b", "a", fan_out=Parallel(2)))
    for _ in range(4):
        await begin(db)
    for n, job in enumerate(await worker.take()):
        await worker.end(job, n)
    claimed = await worker.take()
    assert len(claimed) == 10
    found = await outputs.of_needs(db, claimed)
    by_run = {job.run_id: found[job.id]["a"] for job in claimed}
    assert sorted(by_run.values()) == [0, 1, 2, 3, 4]
    assert all(found[job.id]["a"] == by_run[job.run_id] for job in claimed)
