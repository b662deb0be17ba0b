"""`app.adopt`: the durable engine runs the entries of an in-process scheduler with the same results."""

import random
from collections.abc import Iterable

import pytest

from tests.runtime.adoption_harness import cron_with, nothing_to_do, succeed, workflow
from tests.runtime.conftest import Working
from windlass import Windlass
from windlass.core.cron.schedule import CatchUp, Overlap
from windlass.core.definition.parser import parse
from windlass.core.workflows.workflow import ApiTrigger, CronTrigger, Workflow
from windlass.cron import (
    CLASSIC,
    Condition,
    Cron,
    Failure,
    FakeClock,
    Job,
    JobResult,
    delay_if_running,
    job_context,
    recover,
    skip_if_running,
    workflow_execution_id,
)
from windlass.cron import Workflow as CronWorkflow

SUCCESS, FAILURE, SKIPPED = JobResult.SUCCESS, JobResult.FAILURE, JobResult.SKIPPED
WORDS = {"succeeded": SUCCESS, "failed": FAILURE, "timed out": FAILURE, "skipped": SKIPPED}


def fail_by_word() -> Failure:
    return Failure("broken")


async def fail() -> None:
    raise ValueError("broken")


async def in_process(cron: Cron, roots: Iterable[str]) -> list[dict[str, JobResult]]:
    """Trigger each of these roots and return the results of its execution by entry name."""
    names = {entry.id: str(entry.name) for entry in cron.entries()}
    async with cron:
        ids = [cron.trigger(root) for root in roots]
        await cron.done()
    found = [cron.workflow_status(id_) for id_ in ids]
    return [{names[id_]: result for id_, result in one.results.items()} for one in found if one is not None]


async def durably(app: Windlass, names: Iterable[str]) -> list[dict[str, JobResult]]:
    runs = [await app.start(name) for name in names]
    results = [await run.wait(timeout=60) for run in runs]
    return [{step: WORDS[word] for step, word in result.steps.items()} for result in results]


async def live(app: Windlass, name: str) -> Workflow:
    return parse((await app.get_workflow(name)).document)


FAILS = [
    pytest.param("root", id="root fails"),
    pytest.param("left", id="left fails"),
    pytest.param("", id="nothing fails"),
]


# Equal results


@pytest.mark.parametrize("broken", FAILS)
@pytest.mark.parametrize("condition", list(Condition), ids=str)
async def test_each_condition_gives_the_same_results_as_in_process(
    app: Windlass, working: Working, condition: Condition, broken: str
) -> None:
    """root -> left -> joined, root -> right -> joined, and after that a last one on `complete`."""
    jobs: dict[str, Job] = {
        name: fail if name == broken else succeed for name in ("root", "left", "right", "joined", "last")
    }
    edges = [
        ("root", "left", Condition.SUCCESS),
        ("root", "right", condition),
        ("left", "joined", condition),
        ("right", "joined", Condition.COMPLETE),
        ("joined", "last", Condition.SKIPPED),
    ]
    cron = cron_with(workflow("shape", jobs, edges))
    here = await in_process(cron, ["root"])
    app.adopt(cron)
    async with working(app):
        assert await durably(app, ["shape"]) == here


async def test_adopted_jobs_receive_their_arguments_and_the_outputs_of_their_parents(
    app: Windlass, working: Working
) -> None:
    seen: list[object] = []

    async def extract(day: str, *, limit: int) -> dict[str, object]:
        return {"day": day, "limit": limit}

    def odd() -> object:
        return object()  # not JSON: left behind

    async def load() -> None:
        context = job_context()
        assert context is not None
        seen.append(dict(context.upstream))

    made = CronWorkflow("handed-on")
    made.step("extract", "@triggered", extract, args=["monday"], kwargs={"limit": 3})
    made.step("odd", "@triggered", odd, after="extract")
    made.step("load", "@triggered", load, after=["extract", "odd"])
    app.adopt(cron_with(made))
    async with working(app):
        assert await durably(app, ["handed-on"]) == [{"extract": SUCCESS, "odd": SUCCESS, "load": SUCCESS}]
    assert seen == [{"extract": {"day": "monday", "limit": 3}, "odd": None}]


def drawn(rng: random.Random, n: int) -> CronWorkflow:
    """A graph with one root; steps fail in two ways or skip themselves; some pairs have two edges."""
    jobs: dict[str, Job] = {
        f"g{n}_{k}": rng.choice([succeed, succeed, fail, fail_by_word, nothing_to_do]) for k in range(rng.randint(2, 7))
    }
    names = list(jobs)
    pairs = [
        (parent, child) for k, child in enumerate(names) if k for parent in rng.choices(names[:k], k=rng.randint(1, 3))
    ]
    made = workflow(f"g{n}", jobs, {(*pair, rng.choice(list(Condition))) for pair in pairs})
    if rng.random() < 0.3:
        made.step(f"g{n}_final", "@triggered", rng.choice([succeed, fail])).final()
    return made


@pytest.mark.parametrize(
    ("count", "seed"),
    [(60, 1), *(pytest.param(200, seed, marks=pytest.mark.soak) for seed in (2, 3))],
    ids=lambda number: str(number),
)
async def test_random_graphs_give_the_same_results_as_in_process(
    app: Windlass, working: Working, count: int, seed: int
) -> None:
    rng = random.Random(seed)
    graphs = [drawn(rng, n) for n in range(count)]
    cron = cron_with(*graphs, retention=0)
    here = await in_process(cron, [made.steps[0].name for made in graphs])
    assert len(here) == len(graphs)
    assert set().union(*(one.values() for one in here)) == {SUCCESS, FAILURE, SKIPPED}
    app.adopt(cron)
    async with working(app):
        assert await durably(app, [made.name for made in graphs]) == here


async def test_manually_connected_entries_become_a_workflow_named_after_the_root(
    app: Windlass, working: Working
) -> None:
    cron = Cron(clock=FakeClock())
    cron.add("@triggered", fail, name="fetch")
    cron.add("@triggered", succeed, name="alarm")
    cron.add_dependency("alarm", "fetch", "failure")
    here = await in_process(cron, ["fetch"])
    assert app.adopt(cron) == ["fetch"]
    async with working(app):
        assert await durably(app, ["fetch"]) == here == [{"fetch": FAILURE, "alarm": SUCCESS}]
    assert {"fetch.fetch", "fetch.alarm"} <= set(app.handlers.types())


# Published workflows


async def test_a_workflow_is_published_with_its_steps_types_and_trigger(app: Windlass) -> None:
    made = CronWorkflow("etl")
    made.step("extract", "0 2 * * *", succeed, missed="all", tags=["nightly"])
    made.step("load", "@triggered", succeed).after("extract").after("extract", "complete")
    made.step("cleanup", "@triggered", succeed).final()
    cron = cron_with(made, location="Europe/Berlin")
    assert app.adopt(cron) == ["etl"]
    assert cron.entries() == []
    (published,) = await app.publish()
    assert published.created
    stored = await live(app, "etl")
    assert stored.trigger == CronTrigger("0 2 * * *", "Europe/Berlin", catch_up=CatchUp.ALL)
    assert {step.max_attempts for step in stored.steps} == {3}  # a worker may die; failures are final all the same
    assert [(step.name, getattr(step.action, "type", None)) for step in stored.steps] == [
        ("extract", "etl.extract"),
        ("load", "etl.load"),
        ("cleanup", "etl.cleanup"),
    ]
    assert [[(edge.parent, edge.condition) for edge in step.edges] for step in stored.steps] == [
        [],
        [("extract", "success"), ("extract", "complete")],
        [("extract", "complete"), ("load", "complete")],
    ]
    assert await app.publish() == []


async def test_a_standalone_entry_becomes_a_workflow_of_one_step(app: Windlass, working: Working) -> None:
    cron = Cron()
    seen: list[str] = []
    cron.add("TZ=Asia/Tokyo 30 9 * * MON-FRI", lambda: seen.append(workflow_execution_id()), name="daily.report")
    cron.add("@triggered", fail, name="by-hand")
    assert app.adopt(cron) == ["daily.report", "by-hand"]
    async with working(app):
        run = await app.start("daily.report")
        assert (await run.wait(timeout=30)).steps == {"run": "succeeded"}
        assert (await (await app.start("by-hand")).wait(timeout=30)).steps == {"run": "failed"}
    assert seen == [str(run.id)]
    assert "cron.daily.report" in app.handlers.types()
    assert (await live(app, "daily.report")).trigger == CronTrigger(
        "30 9 * * MON-FRI", "Asia/Tokyo", catch_up=CatchUp.NONE
    )
    assert (await live(app, "by-hand")).trigger == ApiTrigger()


async def test_skip_and_delay_wrappers_become_overlap_and_concurrency_settings(app: Windlass) -> None:
    cron = Cron(wrappers=[recover()])
    cron.add("@hourly", succeed, name="skips", wrappers=[skip_if_running()])
    cron.add("@hourly", succeed, name="waits", wrappers=[delay_if_running()])
    cron.add("@triggered", succeed, name="waits-by-hand", wrappers=[delay_if_running()])
    app.adopt(cron)
    await app.publish()
    skips, waits, by_hand = [await live(app, name) for name in ("skips", "waits", "waits-by-hand")]
    assert isinstance(skips.trigger, CronTrigger)
    assert (skips.trigger.overlap, skips.concurrency) == (Overlap.SKIP, None)
    assert isinstance(waits.trigger, CronTrigger)
    assert (waits.trigger.overlap, waits.concurrency) == (Overlap.ALLOW, 1)
    assert by_hand.concurrency == 1


@pytest.mark.parametrize("spec", ["0 0 13 * *", "0 0 * * FRI", "0 12 */2 * 1", "@daily"])
def test_specs_with_equivalent_day_fields_are_adopted(spec: str) -> None:
    cron = Cron()
    cron.add(spec, succeed, name="entry")
    assert Windlass("postgres://nowhere/at_all").adopt(cron) == ["entry"]


def test_a_spec_with_both_day_fields_is_adopted_from_a_classic_dialect_scheduler() -> None:
    cron = Cron(dialect=CLASSIC)
    cron.add("0 0 13 * FRI", succeed, name="entry")
    assert Windlass("postgres://nowhere/at_all").adopt(cron) == ["entry"]


def test_adopting_an_empty_scheduler_returns_no_workflows() -> None:
    assert Windlass("postgres://nowhere/at_all").adopt(Cron()) == []
