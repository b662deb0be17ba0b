"""A retry or a rerun on the live version: finished steps must be unchanged there, all others may differ."""

from typing import Any
from uuid import UUID

import pytest

from tests.engine.harness import Fails, ManualWorker, begin, letters, node, publish, reasons, state, words
from windlass.core.workflows.step import ChildAction, JobAction, Parallel
from windlass.engine import workflows
from windlass.engine.database import Tenant
from windlass.engine.jobs import control as jobs
from windlass.engine.runs import control as runs
from windlass.errors import Conflict, Invalid
from windlass.schemas.runs import RestartPreview

Connection = Any
FIXED = JobAction("test.fixed.v1", {"n": 1}, "sql", 7)


async def failed(db: Tenant, worker: ManualWorker) -> UUID:
    run = await begin(db, node("a"), node("b", "a", max_attempts=1), node("c", "b"))
    await worker.play({"a": {"n": 1}, "b": Fails()})
    assert await letters(db, run) == "sfk"
    worker.seen.clear()
    return run


async def test_a_retry_on_the_live_version_runs_the_fixed_step_and_the_steps_added_before_it(
    db: Tenant, worker: ManualWorker
) -> None:
    run = await failed(db, worker)
    await publish(db, node("x"), node("c", "b"), node("a"), node("b", "a", "x", action=FIXED), node("d", "c"))
    before = await runs.preview(db, run, live=True)
    assert before == RestartPreview(kept=["a"], again=["b", "c"], new=["x", "d"], gone=[])
    assert (await runs.get(db, run)).version == 1
    await runs.retry(db, run, live=True)
    assert (await runs.get(db, run)).version == 2
    await worker.play()
    assert worker.seen == ["x", "b", "c", "d"]
    assert (await state(db, run), set((await words(db, run)).values())) == ("completed", {"succeeded"})
    assert await runs.step_output(db, run, "a") == {"n": 1}
    assert "kept: a; again: b and c; new: x and d" in " ".join(await reasons(db, run))


async def test_the_job_of_a_changed_step_is_that_of_the_new_version(
    db: Tenant, worker: ManualWorker, conn: Connection
) -> None:
    run = await failed(db, worker)
    await publish(db, node("a"), node("b", "a", action=FIXED, max_attempts=5), node("c", "b"))
    await runs.retry(db, run, live=True)
    [job] = await worker.take()
    row = await jobs.get(db, job.id)
    assert (row.type, row.queue, row.priority, row.max_attempts) == ("test.fixed.v1", "sql", 7, 5)
    trail = [(event.step, event.word) for event in (await runs.view(db, run)).events if not event.of_job]
    assert (1, "failed") in trail


@pytest.mark.parametrize(
    ("steps", "names"),
    [
        ([node("a", action=FIXED), node("b", "a"), node("c", "b")], "a"),
        ([node("z"), node("a", "z"), node("b", "a"), node("c", "b")], "a"),
        ([node("b"), node("c", "b")], "a"),
        ([node("a", fan_out=Parallel(2)), node("b", "a"), node("c", "b")], "a"),
    ],
    ids=["action", "edges", "gone", "fan-out"],
)
async def test_a_retry_on_a_version_with_a_changed_finished_step_is_refused_with_its_name(
    db: Tenant, worker: ManualWorker, steps: list[Any], names: str
) -> None:
    run = await failed(db, worker)
    await publish(db, *steps)
    for act in (runs.preview, runs.retry):
        with pytest.raises(Conflict, match=f"the live version differs in {names}, which the run has finished"):
            await act(db, run, live=True)
    row = await runs.get(db, run)
    assert (row.state, row.letters, row.version, row.round) == ("failed", "sfk", 1, 0)


async def test_a_failed_step_that_the_live_version_lacks_is_dropped(
    db: Tenant, worker: ManualWorker, conn: Connection
) -> None:
    run = await failed(db, worker)
    await publish(db, node("c", "a"), node("a"))
    assert (await runs.preview(db, run, live=True)).gone == ["b"]
    await runs.retry(db, run, live=True)
    await worker.play()
    assert (await state(db, run), worker.seen) == ("completed", ["c"])
    assert await conn.fetchval("select count(*) from workflow.workflow_run where run_id = $1", run) == 2


async def test_a_rerun_can_use_the_live_version(db: Tenant, worker: ManualWorker) -> None:
    run = await begin(db, node("a"), node("b", "a"))
    await worker.play()
    await publish(db, node("new"), node("a"), node("b", "a", action=FIXED))
    assert await runs.preview(db, run, step="b", live=True) == RestartPreview(
        kept=["a"], again=["b"], new=["new"], gone=[]
    )
    worker.seen.clear()
    await runs.rerun(db, run, "b", live=True)
    await worker.play()
    assert (await state(db, run), sorted(worker.seen)) == ("completed", ["b", "new"])
    await publish(db, node("new"), node("a"))
    with pytest.raises(Invalid, match="the live version has no step 'b'"):
        await runs.rerun(db, run, "b", live=True)


async def test_fanned_out_and_child_steps_keep_their_outputs_when_their_positions_change(
    db: Tenant, worker: ManualWorker
) -> None:
    await publish(db, node("k"), name="kid")
    fan, sub = node("fan", fan_out=Parallel(3)), node("sub", action=ChildAction("kid"))
    run = await begin(db, fan, sub, node("end", "fan", "sub", max_attempts=1))
    await worker.play({"fan": "f", "k": "kid's", "end": Fails()})
    await publish(db, node("first"), node("end", "fan", "sub", "first"), sub, fan)
    await runs.retry(db, run, live=True)
    await worker.play()
    assert await state(db, run) == "completed"
    assert await runs.step_output(db, run, "fan") == ["f", "f", "f"]
    assert await runs.step_output(db, run, "sub") == "kid's"


async def test_without_changes_the_preview_is_that_of_a_plain_retry(db: Tenant, worker: ManualWorker) -> None:
    run = await failed(db, worker)
    for live in (True, False):
        assert await runs.preview(db, run, live=live) == RestartPreview(kept=["a"], again=["b", "c"], new=[], gone=[])
    await runs.retry(db, run, live=True)
    assert (await runs.get(db, run)).version == 1


async def test_a_workflow_that_was_deleted_has_no_live_version(db: Tenant, worker: ManualWorker) -> None:
    run = await failed(db, worker)
    await workflows.delete(db, "w")
    await publish(db, node("a"), node("b", "a"), node("c", "b"))
    with pytest.raises(Conflict, match="was deleted"):
        await runs.retry(db, run, live=True)
