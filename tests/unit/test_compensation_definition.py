"""`compensate` in definitions: accepted values, errors that name the field, and its drawing."""

from typing import Any

import pytest

from windlass.core.definition.builder import WorkflowBuilder
from windlass.core.definition.parser import parse
from windlass.core.diagrams import draw_mermaid, draw_tree
from windlass.core.svg import draw_svg
from windlass.core.workflows.step import ChildAction, HttpAction, JobAction, Step, UndoAction
from windlass.core.workflows.workflow import Workflow
from windlass.errors import InvalidWorkflow

REFUND = {"job": "refund.v1", "input": {"id": "{{tasks.pay.output.id}}"}, "max_attempts": 9, "timeout": "5s"}


def workflow(**tasks: Any) -> Workflow:
    return parse({"name": "w", "tasks": tasks})


def compensation(undo: Any, **task: Any) -> Step:
    return workflow(pay={"job": "pay.v1", "compensate": undo, **task}).steps[-1]


def mistakes(**tasks: Any) -> dict[str, str]:
    with pytest.raises(InvalidWorkflow) as refused:
        workflow(**tasks)
    return dict(refused.value.errors)


def test_a_compensation_is_a_step_without_edges_after_all_others() -> None:
    flow = workflow(pay={"job": "pay.v1", "compensate": REFUND}, ship={"job": "ship.v1", "needs": ["pay"]})
    undo = flow.steps[2]
    assert (undo.name, undo.compensates, undo.edges) == ("pay.compensate", "pay", ())
    assert (undo.max_attempts, str(undo.timeout)) == (9, "0:00:05")
    assert (flow.plan.roots, flow.plan.undo) == ((0,), {0: 2})


@pytest.mark.parametrize(
    ("undo", "kind"),
    [
        ({"job": "refund.v1"}, JobAction),
        ({"url": "https://bank.example/refunds", "method": "DELETE"}, HttpAction),
        ({"workflow": "refund"}, ChildAction),
    ],
    ids=["job", "url", "workflow"],
)
def test_a_compensation_may_be_a_job_an_http_request_or_a_child_run(undo: dict[str, Any], kind: type) -> None:
    assert isinstance(compensation(undo).action, kind)


def test_a_compensation_round_trips_through_the_canonical_document() -> None:
    flow = workflow(
        pay={"job": "pay.v1", "compensate": REFUND}, sub={"workflow": "x"}, kept={"workflow": "x", "compensate": False}
    )
    tasks = flow.to_document()["tasks"]
    assert [task.get("compensate") for task in tasks[1:]] == [True, False]
    assert parse(flow.to_document()) == flow


def test_a_child_run_is_undone_by_default_only_in_a_workflow_with_a_compensation() -> None:
    assert len(workflow(sub={"workflow": "x"}).steps) == 1
    flow = workflow(sub={"workflow": "x", "compensate": True})
    assert flow.steps[1].action == UndoAction("x")
    assert "compensate" not in workflow(sub={"workflow": "x"}).to_document()["tasks"][0]


@pytest.mark.parametrize(
    ("undo", "path", "words"),
    [
        ({}, "tasks.pay.compensate", "it has no action: give one of job, url, run, workflow"),
        ({"sleep": 1}, "tasks.pay.compensate.sleep", ""),
        ({"job": "a", "url": "https://x.example"}, "tasks.pay.compensate", "it has both `job` and `url`"),
        ({"job": "a", "foreach": "input.x"}, "tasks.pay.compensate.foreach", ""),
        ({"job": "a", "needs": ["pay"]}, "tasks.pay.compensate.needs", ""),
        ({"job": "a", "compensate": {"job": "b"}}, "tasks.pay.compensate.compensate", ""),
        ({"job": "a", "max_attempts": 0}, "tasks.pay.compensate.max_attempts", "between 1 and 1000"),
        ({"job": "a", "input": "{{tasks.ship.output}}"}, "tasks.pay.compensate.input", "'ship' must run before"),
        ({"job": "a", "input": "{{tasks.none.output}}"}, "tasks.pay.compensate.input", "none"),
        (True, "tasks.pay.compensate", "true undoes the run of a `workflow` step"),
        ("refund.v1", "tasks.pay.compensate", "it must be an object"),
    ],
    ids=str,
)
def test_an_invalid_compensation_is_refused_with_its_path(undo: Any, path: str, words: str) -> None:
    found = mistakes(pay={"job": "pay.v1", "compensate": undo}, ship={"job": "ship.v1", "needs": ["pay"]})
    assert words in found[path]


def test_the_final_step_cannot_have_a_compensation() -> None:
    found = mistakes(a={"job": "a"}, z={"job": "z", "final": True, "compensate": {"job": "undo"}})
    assert "the final step cannot have one" in found["tasks.z.compensate"]


def test_the_builder_builds_the_same_compensations_as_the_document() -> None:
    flow = WorkflowBuilder("w")
    pay = flow.step("pay", "pay.v1")
    pay.compensate("refund.v1", input={"id": pay["id"]}, max_attempts=9, timeout=5)
    flow.child("sub", "x").compensate(False)
    built = flow.build()
    assert built == workflow(pay={"job": "pay.v1", "compensate": REFUND}, sub={"workflow": "x", "compensate": False})


def test_diagrams_show_a_compensation_with_its_step() -> None:
    flow = workflow(pay={"job": "pay.v1", "compensate": REFUND}, ship={"job": "ship.v1", "needs": ["pay"]})
    assert "pay.compensate  job refund.v1; compensates pay" in draw_tree(flow)
    assert "s0 -. compensate .-> s2" in draw_mermaid(flow)
    assert 'class="edge on-compensate"' in draw_svg(flow)
    final = workflow(pay={"job": "pay.v1", "compensate": REFUND}, end={"job": "e", "final": True})
    assert "s2 -. complete .-> s1" not in draw_mermaid(final)
