"""Chains, groups and batches: how the engine executes them, step by step."""

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.engine.harness import Fails, ManualWorker, events_of, state, tick
from windlass.core.compositions import Composition, Part
from windlass.core.ids import of_name
from windlass.core.workflows.workflow import CompositionKind
from windlass.engine import workflows
from windlass.engine.compositions import control as compositions
from windlass.engine.compositions import parent_results
from windlass.engine.compositions import retries as composition_retries
from windlass.engine.compositions import views as composition_views
from windlass.engine.compositions.views import View
from windlass.engine.database import Tenant
from windlass.engine.runs import sweep
from windlass.errors import Conflict, Duplicate, NotFound
from windlass.testing import Clock


def job(type_: str, *args: Any, **more: Any) -> Part:
    return Part(type=type_, fields={"payload": list(args), **more.pop("fields", {})}, **more)


def chain(*parts: Part | Composition, **more: Any) -> Composition:
    return Composition(kind=CompositionKind.CHAIN, parts=parts, **more)


def group(*parts: Part | Composition, **more: Any) -> Composition:
    return Composition(kind=CompositionKind.GROUP, parts=parts, **more)


def batch(
    *parts: Part | Composition, on: tuple[str, ...] = ("complete", "success", "failure"), **more: Any
) -> Composition:
    callbacks = {f"on_{word}": job(f"batch.{word}") for word in on}
    return Composition(kind=CompositionKind.BATCH, parts=parts, callbacks=callbacks, **more)


async def look(db: Tenant, run: UUID) -> View:
    return await composition_views.view(db, str(run))


async def test_a_chain_enqueues_one_step_at_a_time(db: Tenant, worker: ManualWorker) -> None:
    run = await compositions.create(db, chain(job("a.b", 1), job("a.c", 2), name="pair"))
    first = await worker.take_one("step-0")
    assert (first.payload, first.type) == ("[1]", "a.b")
    assert not await worker.take()
    await worker.end(first, {"x": 1})
    second = await worker.take_one("step-1")
    await worker.end(second, 2)
    view = await look(db, run)
    assert await state(db, run) == "completed"
    assert (view.letters, view.counts.completed, view.counts.jobs, view.node.name) == ("ss", 2, 2, "pair")


async def test_a_failed_step_ends_a_chain(db: Tenant, worker: ManualWorker) -> None:
    run = await compositions.create(db, chain(job("a.a"), job("a.b"), job("a.c")))
    await worker.play({"step-1": Fails(for_good=True)})
    view = await look(db, run)
    assert (await state(db, run), view.letters) == ("failed", "sfk")
    assert [bad.step for bad in view.bad] == [1]
    assert view.counts.failed == 1


@pytest.mark.parametrize(
    ("endings", "called", "ends"),
    [
        ({}, {"on_complete", "on_success"}, "completed"),
        ({"job-1": Fails(for_good=True)}, {"on_complete", "on_failure"}, "completed"),
        ({"on_complete": Fails(for_good=True)}, {"on_complete", "on_success"}, "failed"),
        ({"job-0": Fails(for_good=True), "on_failure": Fails(for_good=True)}, {"on_complete", "on_failure"}, "failed"),
    ],
    ids=["all succeed", "one fails", "a callback fails", "both fail"],
)
async def test_the_outcome_of_a_batch_depends_on_its_callbacks(
    db: Tenant, worker: ManualWorker, endings: dict[str, Any], called: set[str], ends: str
) -> None:
    run = await compositions.create(db, batch(job("a.b"), job("a.b"), job("a.b")))
    await worker.play(endings)
    assert {name for name in worker.seen if name.startswith("on_")} == called
    assert await state(db, run) == ends
    assert sum(name.startswith("on_") for name in worker.seen) == len(called)


async def test_inner_compositions_start_immediately_and_report_to_the_outer_one(
    db: Tenant, worker: ManualWorker
) -> None:
    inner = chain(job("in.a"), job("in.b"))
    run = await compositions.create(db, chain(group(inner, job("g.b")), job("last")))
    jobs = await worker.take()  # before any tick
    assert {one.type for one in jobs} == {"in.a", "g.b"}
    await worker.play()
    for one in jobs:
        await worker.end(one, one.type)
    await worker.play()
    assert await state(db, run) == "completed"
    view = await look(db, run)
    assert view.counts.completed == view.counts.jobs == 4
    assert await events_of(db, run) == ["running", "started", "completed"]


async def test_ids_chosen_by_clients_are_kept_and_must_be_unique(db: Tenant) -> None:
    own = str(uuid4())
    run = await compositions.create(
        db, chain(group(job("x"), id="wf_in"), job("y", fields={"id": str(of_name("job_1"))}), id="wf_out")
    )
    assert await compositions.create(db, chain(job("x"), id=own)) == UUID(own)
    assert (await composition_views.view(db, "wf_out")).node.run_id == run
    assert (await composition_views.view(db, "wf_in")).node.parent_id == run
    for taken in ("wf_out", "wf_in", own):
        with pytest.raises(Duplicate):
            await compositions.create(db, group(job("x"), id=taken))
    with pytest.raises(Duplicate):
        await compositions.create(db, group(job("x", fields={"id": str(of_name("job_1"))})))
    with pytest.raises(NotFound):
        await composition_views.view(db, "wf_other")
    await compositions.cancel(db, "wf_out")
    assert (await composition_views.view(db, "wf_in")).node.state == "cancelled"
    with pytest.raises(Conflict):
        await compositions.cancel(db, "wf_out")


async def test_compositions_of_the_same_shape_share_one_hidden_workflow_version(db: Tenant) -> None:
    runs = [await compositions.create(db, batch(job("a.b", n), name=f"batch {n}")) for n in range(3)]
    views = [await look(db, run) for run in runs]
    assert len({view.node.version_id for view in views}) == 1
    assert not (await workflows.list_(db)).workflows


async def test_compositions_can_be_nested_eight_levels_deep(db: Tenant, worker: ManualWorker) -> None:
    inner = chain(job("leaf", 8))
    for _ in range(7):
        inner = chain(inner)
    run = await compositions.create(db, inner)
    [leaf] = await worker.take()
    assert leaf.payload == "[8]"
    await worker.end(leaf, "deep")
    while await tick(db):
        pass
    assert await state(db, run) == "completed"


async def test_a_composition_expires_only_if_it_has_a_timeout(db: Tenant, worker: ManualWorker, clock: Clock) -> None:
    patient = await compositions.create(db, chain(job("a.a"), group(job("a.b"), id="wf_in")))
    await worker.end(await worker.take_one("step-0"))
    await tick(db)
    hasty = await compositions.create(db, group(job("a.c"), timeout=timedelta(days=1)))
    assert (await composition_views.view(db, "wf_in")).node.state == "running"
    clock.move(timedelta(days=400))
    assert await sweep.expire(db) == 1
    assert await state(db, hasty) == "timeout"
    assert [await state(db, run) for run in (patient, (await composition_views.view(db, "wf_in")).node.run_id)] == [
        "running",
        "running",
    ]


async def test_a_retry_of_a_composition_without_a_timeout_does_not_expire(
    db: Tenant, worker: ManualWorker, clock: Clock
) -> None:
    await compositions.create(db, chain(job("a.a"), job("a.b"), id="wf_1"))
    await worker.end(await worker.take_one("step-0"), Fails(for_good=True))
    run = await composition_retries.retry(db, "wf_1", as_="wf_2")
    clock.move(timedelta(days=400))
    assert await sweep.expire(db) == 0
    assert await state(db, run) == "running"
    assert (await composition_views.view(db, "wf_2")).node.retry_of == "wf_1"


async def test_parent_results_beyond_the_size_limit_are_omitted_oldest_first(
    db: Tenant, worker: ManualWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parent_results, "EACH", 250)
    await compositions.create(db, chain(*(job("a.b") for _ in range(6))))
    for _ in range(5):
        [taken] = await worker.take()
        await worker.end(taken, "x" * 100)
    [last] = await worker.take()
    [given] = (await parent_results.of_jobs(db, [last])).by_step.values()
    long = "x" * 100
    assert given.listed == [parent_results.OMITTED, parent_results.OMITTED, long, long, long]
