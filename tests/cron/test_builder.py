"""The workflow builder of the in-process scheduler."""

from collections.abc import Callable

import pytest

from tests.cron.recorder import Recorder, pairs, run
from windlass.core.workflows.step import Edge
from windlass.core.workflows.workflow import ApiTrigger, CronTrigger
from windlass.cron import (
    Condition,
    Cron,
    CycleDetected,
    DuplicateName,
    EmptyWorkflow,
    FakeClock,
    InvalidCondition,
    InvalidJob,
    MaxEntriesReached,
    MultipleFinalSteps,
    UnknownStep,
    Workflow,
)
from windlass.errors import Invalid, InvalidCron


def workflow(*edges: str, names: str = "") -> Workflow:
    """Return a workflow with these edges: `ab` means that b runs after a."""
    made = Workflow("test")
    steps = {name: made.step(name, "@triggered", print) for name in dict.fromkeys(names + "".join(edges))}
    for parent, child in pairs(*edges):
        steps[child].after(parent)
    return made


def test_a_builder_stores_the_name_steps_edges_and_final_flag() -> None:
    made = Workflow("etl")
    made.step("extract", "0 2 * * *", print)
    made.step("load", "@triggered", print).after("extract", Condition.SUCCESS)
    made.step("cleanup", "@triggered", print).final()
    assert made.name == "etl"
    assert [step.name for step in made.steps] == ["extract", "load", "cleanup"]
    assert made.steps[1].parents == [("extract", Condition.SUCCESS)]
    assert [step.is_final for step in made.steps] == [False, False, True]


async def test_a_workflow_runs_its_steps_in_order_and_the_final_one_last(cron: Cron, recorder: Recorder) -> None:
    made = Workflow("etl")
    made.step("one", "@triggered", recorder.job("one"))
    made.step("two", "@triggered", recorder.job("two")).after("one")
    made.step("final", "@triggered", recorder.job("final")).final()
    assert len(cron.add_workflow(made)) == 3
    await run(cron, "one")
    assert recorder.lines == ["one", "two", "final"]


async def test_the_final_step_runs_after_failures_and_skips_too(cron: Cron, recorder: Recorder) -> None:
    made = Workflow("etl")
    made.step("one", "@triggered", recorder.failing("one"))
    made.step("two", "@triggered", recorder.job("two")).after("one")
    made.step("final", "@triggered", recorder.job("final")).final()
    cron.add_workflow(made)
    await run(cron, "one")
    assert recorder.lines == ["one", "final"]


async def test_the_root_of_a_workflow_has_its_own_schedule(cron: Cron, clock: FakeClock, recorder: Recorder) -> None:
    made = Workflow("hourly")
    made.step("one", "@hourly", recorder.job("one"))
    made.step("two", "@triggered", recorder.job("two")).after("one")
    cron.add_workflow(made)
    await clock.play(2 * 3600, cron)
    assert recorder.lines == ["one", "two"] * 2


def test_a_cycle_is_refused_and_the_error_lists_its_steps(cron: Cron) -> None:
    with pytest.raises(CycleDetected) as raised:
        cron.add_workflow(workflow("ab", "bc", "ca"))
    assert raised.value.cycle == ("a", "b", "c")
    assert cron.entries() == []


@pytest.mark.parametrize("edges", [["ab", "bc"], ["ab", "ac", "bd", "cd"]], ids=["chain", "diamond"])
def test_chains_and_diamonds_have_no_cycle(edges: list[str]) -> None:
    workflow(*edges).check()


@pytest.mark.parametrize("edges", [["aa"], ["ab", "ba"], ["ab", "bc", "ca"]], ids=["self", "direct", "indirect"])
def test_self_direct_and_indirect_cycles_are_detected(edges: list[str]) -> None:
    with pytest.raises(CycleDetected):
        workflow(*edges).check()


def test_a_step_with_the_name_of_an_entry_is_refused(cron: Cron) -> None:
    cron.add("@triggered", print, name="b")
    with pytest.raises(DuplicateName) as raised:
        cron.add_workflow(workflow("ab"))
    assert raised.value.name == "b"
    assert [entry.name for entry in cron.entries()] == ["b"]


def test_two_final_steps_are_refused(cron: Cron) -> None:
    made = workflow(names="ab")
    for step in made:
        step.final()
    with pytest.raises(MultipleFinalSteps) as raised:
        cron.add_workflow(made)
    assert raised.value.steps == ("a", "b")


def test_a_workflow_without_steps_is_refused(cron: Cron) -> None:
    with pytest.raises(EmptyWorkflow):
        cron.add_workflow(Workflow("nothing"))


def test_an_unknown_parent_is_refused(cron: Cron) -> None:
    made = workflow(names="a")
    made.steps[0].after("nobody")
    with pytest.raises(UnknownStep) as raised:
        cron.add_workflow(made)
    assert (raised.value.step, raised.value.parent) == ("a", "nobody")


def test_duplicate_step_names_are_refused(cron: Cron) -> None:
    made = workflow(names="a")
    made.step("a", "@triggered", print)
    with pytest.raises(DuplicateName):
        cron.add_workflow(made)


def test_an_invalid_spec_in_one_step_refuses_the_whole_workflow(cron: Cron) -> None:
    made = workflow(names="a")
    made.step("b", "not a spec", print)
    with pytest.raises(InvalidCron):
        cron.add_workflow(made)
    assert cron.entries() == []


def test_a_workflow_beyond_max_entries_adds_no_entry() -> None:
    cron = Cron(max_entries=1)
    with pytest.raises(MaxEntriesReached) as raised:
        cron.add_workflow(workflow("ab"))
    assert raised.value.limit == 1
    assert cron.entries() == []


def test_an_unknown_condition_is_refused_immediately() -> None:
    made = workflow(names="ab")
    with pytest.raises(InvalidCondition):
        made.steps[1].after("a", "bogus")
    assert made.steps[1].parents == []


def test_validation_errors_are_raised_in_a_fixed_order(cron: Cron) -> None:
    made = Workflow("all wrong")
    cron.add("@triggered", print, name="taken")
    one, two = made.step("taken", "bad", print).final(), made.step("taken", "@triggered", print).final()
    two.after("nobody")
    mends: list[tuple[type[Exception], Callable[[], object]]] = [
        (MultipleFinalSteps, lambda: setattr(one, "is_final", False)),
        (DuplicateName, lambda: setattr(two, "name", "two")),
        (UnknownStep, lambda: two.parents.pop(0)),
        (InvalidCron, lambda: setattr(one, "spec", "@triggered")),
        (DuplicateName, lambda: cron.remove("taken")),
    ]
    for mistake, mend in mends:
        with pytest.raises(mistake):
            cron.add_workflow(made)
        mend()
    cron.add_workflow(made)
    assert {entry.name for entry in cron.entries()} == {"taken", "two"}


def test_a_step_needs_a_job() -> None:
    with pytest.raises(InvalidJob):
        Workflow("x").step("a", "@triggered", None)  # type: ignore[call-overload]


def test_steps_accept_entry_options(cron: Cron) -> None:
    made = Workflow("tagged")
    made.step("a", "@triggered", print, tags=["nightly"], paused=True)
    cron.add_workflow(made)
    (entry,) = cron.entries(tag="nightly")
    assert entry.paused


def test_unknown_options_are_refused(cron: Cron) -> None:
    with pytest.raises(Invalid, match="pasued"):
        cron.add("@triggered", print, pasued=True)  # type: ignore[call-arg]


async def test_a_workflow_added_to_a_running_scheduler_starts_with_all_its_edges(
    cron: Cron, recorder: Recorder
) -> None:
    made = Workflow("now")
    made.step("a", "@triggered", recorder.job("a"), run_immediately=True)
    made.step("b", "@triggered", recorder.job("b")).after("a")
    cron.add_workflow(made)
    await cron.done()
    assert recorder.lines == ["a", "b"]


def test_a_workflow_is_exported_for_the_durable_engine() -> None:
    made = Workflow("etl")
    made.step("extract", "0 2 * * *", print)
    made.step("load", "@triggered", print).after("extract").after("extract", Condition.COMPLETE)
    made.step("cleanup", "@triggered", print).final()
    exported = made.to_definition(timezone="Europe/Berlin")
    assert exported.trigger == CronTrigger("0 2 * * *", "Europe/Berlin")
    assert [step.name for step in exported.steps] == ["extract", "load", "cleanup"]
    assert exported.steps[1].edges == (Edge("extract"), Edge("extract", Condition.COMPLETE))
    assert exported.steps[2].final
    assert exported.plan.roots == (0,)


def test_an_exported_workflow_without_a_schedule_has_an_api_trigger() -> None:
    assert workflow("ab").to_definition().trigger == ApiTrigger()


def test_a_final_step_with_its_own_parents_is_exported_with_all_its_edges() -> None:
    made = workflow("ab", names="abc")
    made.steps[2].after("a", Condition.FAILURE).final()
    edges = made.to_definition().steps[2].edges
    assert edges == (Edge("a", Condition.FAILURE), Edge("a", Condition.COMPLETE), Edge("b", Condition.COMPLETE))


@pytest.mark.parametrize(
    ("scheduled", "reason"), [((0, 2), "one trigger"), ((1,), "comes after others")], ids=["two roots", "a child"]
)
def test_only_one_root_of_an_exported_workflow_may_have_a_schedule(scheduled: tuple[int, ...], reason: str) -> None:
    made = workflow("ab", names="abc")
    for n in scheduled:
        made.steps[n].spec = "@hourly"
    with pytest.raises(Invalid, match=reason):
        made.to_definition()
