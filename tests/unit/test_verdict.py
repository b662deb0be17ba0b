"""The state of a run whose steps have all ended: completed if every failure is handled, failed otherwise."""

import pytest

from tests.unit.reference import node
from windlass.core.runs.edges import verdict
from windlass.core.runs.run import RunMove
from windlass.core.workflows.graph import Plan
from windlass.core.workflows.step import Join, Step

COMPLETED, FAILED = RunMove.COMPLETE, RunMove.FAIL


def judged(letters: str, *steps: Step) -> RunMove:
    assert len(letters) == len(steps)
    return verdict(Plan(steps), letters)[0]


def test_a_run_without_failures_is_completed() -> None:
    assert judged("ss", node("a"), node("b", "a")) is COMPLETED


def test_skipped_steps_alone_do_not_fail_a_run() -> None:
    assert judged("skk", node("a"), node("b", "a:failure"), node("c", "b")) is COMPLETED


@pytest.mark.parametrize("bad", "ftc")
def test_an_unhandled_failed_timed_out_or_cancelled_step_fails_the_run(bad: str) -> None:
    assert judged(bad + "k", node("a"), node("b", "a")) is FAILED


@pytest.mark.parametrize("bad", "ftc")
def test_a_failure_is_handled_by_a_failure_edge(bad: str) -> None:
    assert judged(bad + "s", node("a"), node("b", "a:failure")) is COMPLETED


def test_a_failure_is_handled_by_a_step_whose_if_is_true() -> None:
    assert judged("fs", node("a"), node("b", "a:complete", condition="failure()")) is COMPLETED


def test_a_step_whose_if_is_false_handles_no_failure() -> None:
    assert judged("fk", node("a"), node("b", "a:complete", condition="false")) is FAILED


def test_a_failure_is_handled_through_skipped_steps() -> None:
    steps = node("a"), node("b", "a"), node("c", "b"), node("d", "c:complete", condition="failure()")
    assert judged("fkks", *steps) is COMPLETED


def test_a_step_whose_if_is_false_passes_the_failure_on() -> None:
    steps = node("a"), node("b", "a:complete", condition="false"), node("c", "b:complete", condition="failure()")
    assert judged("fks", *steps) is COMPLETED


def test_a_step_after_one_that_ran_does_not_handle_the_failure() -> None:
    steps = node("a"), node("b", "a:complete"), node("c", "b:complete", condition="true")
    assert judged("fss", *steps) is FAILED


def test_a_complete_edge_handles_no_failure() -> None:
    assert judged("fs", node("a"), node("b", "a:complete")) is FAILED


def test_a_skipped_edge_handles_no_failure() -> None:
    assert judged("fks", node("a"), node("b", "a"), node("c", "b:skipped")) is FAILED


@pytest.mark.parametrize("condition", [None, "failure()"])
def test_a_final_step_handles_no_failure(condition: str | None) -> None:
    assert judged("fs", node("a"), node("z", final=True, condition=condition)) is FAILED


def test_a_final_step_that_fails_fails_the_run() -> None:
    assert judged("sf", node("a"), node("z", final=True)) is FAILED


def test_an_unhandled_failure_beside_a_handled_one_fails_the_run() -> None:
    assert judged("fsf", node("a"), node("b", "a:failure"), node("c")) is FAILED


def test_a_failure_edge_handles_the_failure_of_its_own_parent_only() -> None:
    steps = node("a"), node("b"), node("c", "a:failure", "b:complete")
    assert judged("ffs", *steps) is FAILED


def test_one_step_may_handle_several_failures() -> None:
    assert judged("ffs", node("a"), node("b"), node("c", "a:failure", "b:failure")) is COMPLETED
    assert judged("ffs", node("a"), node("b"), node("c", "a:complete", "b:complete", condition="x")) is COMPLETED


def test_one_handler_among_many_dependents_is_enough() -> None:
    assert judged("fkss", node("a"), node("b", "a"), node("c", "a:complete"), node("d", "a:failure")) is COMPLETED


@pytest.mark.parametrize("bad", "ft")
def test_a_failed_handler_handles_its_parent_but_is_itself_a_failure(bad: str) -> None:
    steps = node("a"), node("b", "a:failure"), node("c", "b:failure")
    assert judged("f" + bad, *steps[:2]) is FAILED
    assert judged("f" + bad + "s", *steps) is COMPLETED


def test_a_cancelled_handler_handles_no_failure() -> None:
    assert judged("fcs", node("a"), node("b", "a:failure"), node("c", "b:failure")) is FAILED


def test_a_skipped_handler_handles_no_failure() -> None:
    assert judged("sfk", node("a"), node("b"), node("c", "a:failure", "b:failure")) is FAILED


def test_a_failure_edge_from_a_skipped_step_to_an_any_join_handles_no_failure() -> None:
    steps = node("a"), node("b", "a"), node("q"), node("c", "b:failure", "q", join=Join.ANY)
    assert judged("fkss", *steps) is FAILED


def test_a_failure_edge_to_an_any_join_handles_the_failure() -> None:
    assert judged("fss", node("a"), node("q"), node("c", "a:failure", "q", join=Join.ANY)) is COMPLETED


def test_a_failure_is_handled_at_the_end_of_a_diamond_of_skipped_steps() -> None:
    sides = [node(f"b{n}", "a") for n in range(5)]
    foot = node("z", *(f"{side.name}:complete" for side in sides), condition="failure()")
    assert judged("fkkkkks", node("a"), *sides, foot) is COMPLETED


@pytest.mark.parametrize("bad", "ftc")
def test_a_step_that_is_allowed_to_fail_does_not_fail_the_run(bad: str) -> None:
    steps = node("a", allow_failure=True), node("b", "a")
    assert judged(bad + "k", *steps) is COMPLETED
    assert judged(bad + "kf", *steps, node("c")) is FAILED
