"""Declaring dependencies: decorators, several parents, workflows by name, and `after=` of entries."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.cron.recorder import Recorder
from tests.cron.test_builder import workflow
from windlass.cron import (
    Condition,
    Cron,
    Dependency,
    EntryNotFound,
    EntryPaused,
    InvalidCondition,
    ScheduledStep,
    Workflow,
)
from windlass.cron.entry import After, When
from windlass.errors import Invalid

# Decorators, several parents, schedules of children


async def test_steps_can_be_decorated_functions(cron: Cron, recorder: Recorder) -> None:
    etl = Workflow("etl")

    @etl.step("extract", "@hourly")
    async def extract() -> None:
        recorder.lines.append("extract")

    @etl.step("load", after="extract", tags=["slow"])
    def load() -> None:
        recorder.lines.append("load")

    @etl.step("alarm", after={"extract": "failure", "load": "skipped"})
    def alarm() -> None:
        recorder.lines.append("alarm")

    @etl.step("cleanup", final=True)
    def cleanup() -> None:
        recorder.lines.append("cleanup")

    cron.add_workflow(etl)
    execution = await cron.trigger("etl")
    assert recorder.lines == ["extract", "load", "cleanup"]
    assert execution.result("alarm") == "skipped"
    assert [entry.name for entry in cron.entries(tag="slow")] == ["load"]


def test_a_step_without_a_job_is_refused(cron: Cron) -> None:
    made = workflow(names="a")
    made.step("b", after="a")
    with pytest.raises(Invalid, match="step b has no job"):
        cron.add_workflow(made)


def test_a_job_passed_as_the_spec_is_refused() -> None:
    with pytest.raises(Invalid, match="the spec comes before the job"):
        Workflow("x").step("a", print)  # type: ignore[call-overload]


async def test_after_accepts_step_objects_lists_and_mappings(cron: Cron, recorder: Recorder) -> None:
    made = Workflow("x")
    a = made.step("a", "@triggered", recorder.job("a"))
    b = made.step("b", "@triggered", recorder.failing("b")).after(a)
    c = made.step("c", "@triggered", recorder.job("c")).after([a, "b"], "complete")
    made.step("d", "@triggered", recorder.job("d"), after={b: "failure", c: "success"})
    cron.add_workflow(made)
    await cron.trigger("x")
    assert recorder.lines == ["a", "b", "c", "d"]


def test_a_second_parent_passed_as_the_condition_is_refused_with_a_hint() -> None:
    made = workflow(names="abc")
    with pytest.raises(InvalidCondition, match=r"'b'.*as a list"):
        made.steps[2].after("a", "b")


@pytest.mark.parametrize("parent", [None, 5, [5], print])
def test_the_parent_of_a_step_must_be_a_step_or_a_step_name(parent: object) -> None:
    with pytest.raises(Invalid, match="parent is a step"):
        workflow(names="ab").steps[1].after(parent)  # type: ignore[arg-type]


@pytest.mark.parametrize("spec", ["@every 3s", timedelta(seconds=3), datetime(2040, 1, 1, tzinfo=UTC)], ids=str)
@pytest.mark.parametrize("final", [False, True])
def test_a_schedule_on_a_step_with_parents_is_refused(cron: Cron, spec: When, final: bool) -> None:
    made = Workflow("x")
    made.step("a", "@hourly", print)
    late = made.step("b", spec, print)
    late.final() if final else late.after("a")
    with pytest.raises(ScheduledStep, match="step b comes after others and has the schedule") as raised:
        cron.add_workflow(made)
    assert (raised.value.workflow, raised.value.step) == ("x", "b")
    assert cron.entries() == []


# Workflows by name


async def test_a_workflow_is_triggered_paused_resumed_and_removed_by_its_name(cron: Cron, recorder: Recorder) -> None:
    made = Workflow("etl")
    made.step("extract", "@hourly", recorder.job("extract"))
    made.step("load", "@triggered", recorder.job("load"), after="extract")
    cron.add_workflow(made)
    cron.pause("etl")
    assert all(entry.paused for entry in cron.entries())
    with pytest.raises(EntryPaused, match="etl"):
        cron.trigger("etl")
    cron.resume("etl")
    execution = await cron.trigger("etl")
    assert (execution.name, execution.complete, recorder.lines) == ("extract", True, ["extract", "load"])
    assert cron.remove("etl")
    assert cron.entries() == []
    assert not cron.remove("etl")
    for call in (cron.pause, cron.resume, cron.trigger):
        with pytest.raises(EntryNotFound):
            call("etl")


async def test_an_entry_name_takes_precedence_over_a_workflow_name(cron: Cron, recorder: Recorder) -> None:
    made = Workflow("etl")
    made.step("extract", "@hourly", recorder.job("extract"))
    cron.add_workflow(made)
    cron.add("@triggered", recorder.job("etl"), name="etl")
    await cron.trigger("etl")
    assert recorder.lines == ["etl"]


def test_triggering_a_workflow_with_several_roots_by_its_name_is_refused(cron: Cron) -> None:
    cron.add_workflow(workflow(names="ab"))
    with pytest.raises(Invalid, match=r"2 roots: trigger one of them \(a, b\)"):
        cron.trigger("test")


async def test_removing_a_workflow_starts_none_of_its_steps(cron: Cron, recorder: Recorder) -> None:
    """Removing the other steps ends them, which would start `cleanup`: it must be removed before them."""
    job, gate = recorder.held("extract")
    made = Workflow("etl")
    made.step("extract", "@hourly", job)
    made.step("load", "@triggered", recorder.job("load"), after="extract")
    made.step("told", "@triggered", recorder.job("told"), after={"load": "skipped"})
    made.step("cleanup", "@triggered", recorder.job("cleanup")).final()
    cron.add_workflow(made)
    handle = cron.trigger("etl")
    await asyncio.sleep(0)
    assert cron.remove("etl")
    gate.set()
    execution = await handle
    assert recorder.lines == ["extract"]
    assert [execution.result(name) for name in ("extract", "load", "told", "cleanup")] == [
        "success",
        "skipped",
        "skipped",
        "skipped",
    ]


# `after=` of entries


async def test_an_entry_can_be_added_with_parents(cron: Cron, recorder: Recorder) -> None:
    first = cron.add("@triggered", recorder.job("a"), name="a")

    @cron.job(after="a")
    async def b() -> None:
        recorder.lines.append("b")

    cron.add("@daily", recorder.job("c"), name="c", after=["a", "b"])
    cron.add("@triggered", recorder.job("d"), name="d", after={first: "failure"})
    await cron.trigger("a")
    assert recorder.lines == ["a", "b", "c"]
    assert cron.dependencies("d") == [Dependency(first, Condition.FAILURE)]


@pytest.mark.parametrize("after", ["nobody", ["a", "nobody"], {"nobody": "failure"}, 99])
def test_an_unknown_parent_entry_is_refused(cron: Cron, after: After) -> None:
    cron.add("@triggered", print, name="a")
    with pytest.raises(EntryNotFound):
        cron.add("@triggered", print, name="b", after=after)
    assert [entry.name for entry in cron.entries()] == ["a"]


@pytest.mark.parametrize("after", [print, [print], None, True])
def test_a_parent_must_be_an_entry_name_or_id(cron: Cron, after: Any) -> None:
    with pytest.raises(Invalid, match="a parent is an entry's name or id") as raised:
        cron.add("@triggered", print, name="b", after=after)
    assert raised.value.field == "after"
