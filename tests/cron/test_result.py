"""Conditions, results, and which results meet which conditions."""

import pytest

from windlass.cron import (
    Condition,
    Cron,
    EntryId,
    FakeClock,
    InvalidCondition,
    JobResult,
    WorkflowExecution,
    matches,
    workflow_execution_id,
)

P, S, F, K = JobResult


def execution(*results: JobResult) -> WorkflowExecution:
    numbered = {EntryId(n): result for n, result in enumerate(results)}
    return WorkflowExecution("id", EntryId(0), FakeClock().now(), numbered)


def test_the_four_conditions_have_names() -> None:
    assert [str(condition) for condition in Condition] == ["success", "failure", "skipped", "complete"]


def test_the_error_for_an_unknown_condition_includes_its_value() -> None:
    assert str(InvalidCondition(99)).startswith("Condition(99) does not exist")


@pytest.mark.parametrize("condition", Condition)
def test_conditions_are_accepted_as_enum_members_and_as_strings(condition: Condition) -> None:
    cron = Cron()
    parent, *children = (cron.add("@triggered", print) for _ in range(3))
    for child, spelling in zip(children, (condition, str(condition)), strict=True):
        cron.add_dependency(child, parent, spelling)
        assert cron.dependencies(child)[0].condition is condition


@pytest.mark.parametrize("condition", [99, -1, "", "sucess", None])
def test_unknown_conditions_are_refused(condition: object) -> None:
    cron = Cron()
    one, two = (cron.add("@triggered", print) for _ in range(2))
    with pytest.raises(InvalidCondition) as raised:
        cron.add_dependency(one, two, condition)  # type: ignore[arg-type]
    assert raised.value.condition == condition


def test_the_four_results_have_names() -> None:
    assert [str(result) for result in JobResult] == ["pending", "success", "failure", "skipped"]


def test_only_pending_is_not_terminal() -> None:
    assert [result.terminal for result in JobResult] == [False, True, True, True]


@pytest.mark.parametrize(
    ("condition", "met"),
    [
        (Condition.SUCCESS, {S}),
        (Condition.FAILURE, {F}),
        (Condition.SKIPPED, {K}),
        (Condition.COMPLETE, {S, F, K}),
    ],
)
def test_a_condition_is_met_by_its_results_and_by_no_other(condition: Condition, met: set[JobResult]) -> None:
    assert {result for result in JobResult if matches(condition, result)} == met


def test_an_execution_is_complete_when_every_result_is_terminal() -> None:
    assert execution(S, F, K).complete
    assert not execution(S, P).complete
    assert execution().complete


def test_outside_of_an_execution_there_is_no_execution_id() -> None:
    assert workflow_execution_id() == ""
