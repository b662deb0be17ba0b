"""References between steps: the templates that they become, and the edges that follow from them."""

from typing import Any

import pytest

from windlass.core.definition.builder import WorkflowBuilder
from windlass.core.definition.step_builder import Reference
from windlass.core.workflows.step import Condition, Edge, Foreach, JobAction, Parallel, Step
from windlass.errors import Invalid

ETL = WorkflowBuilder("etl")
EXTRACT = ETL.step("extract", "x.y.v1")
CHARGE = ETL.http("charge", "https://x")
PAID = ETL.wait_for_webhook("paid")
CHILD = ETL.child("child", "report")


@pytest.mark.parametrize(
    ("reference", "text"),
    [
        (EXTRACT.output, "{{tasks.extract.output}}"),
        (EXTRACT["files"], "{{tasks.extract.output.files}}"),
        (EXTRACT["files"][0]["name"], "{{tasks.extract.output.files.0.name}}"),
        (EXTRACT[0], "{{tasks.extract.output.0}}"),
        (EXTRACT["content-type"], "{{tasks.extract.output.content-type}}"),
        (CHARGE["amount"], "{{tasks.charge.output.amount}}"),
        (PAID["status"], "{{tasks.paid.output.status}}"),
        (CHARGE.status, "{{tasks.charge.status}}"),
        (CHARGE.status_code, "{{tasks.charge.status_code}}"),
        (EXTRACT.error, "{{tasks.extract.error}}"),
        (EXTRACT.error["message"], "{{tasks.extract.error.message}}"),
        (PAID.callback_url, "{{wait.paid.url}}"),
        (CHILD["total"], "{{tasks.child.output.total}}"),
        (ETL.input, "{{input}}"),
        (ETL.input["bucket"], "{{input.bucket}}"),
        (ETL.item, "{{item}}"),
        (ETL.item["path"], "{{item.path}}"),
        (ETL.index, "{{index}}"),
    ],
    ids=str,
)
def test_a_reference_formats_as_its_template(reference: Reference, text: str) -> None:
    assert str(reference) == f"{reference}" == text
    assert f"{reference:>50}" == text.rjust(50)


def test_references_to_the_same_path_are_equal_and_hash_equally() -> None:
    assert EXTRACT["files"][0] == EXTRACT.output["files"][0]
    assert len({EXTRACT["a"], EXTRACT["a"], EXTRACT["b"]}) == 2
    assert EXTRACT["a"] != WorkflowBuilder("etl").step("extract", "x.y.v1")["a"]


@pytest.mark.parametrize("key", ["a.b", "a b", "", "{x}", "a/b", -1, 1.5, True, None], ids=repr)
def test_an_invalid_path_key_is_refused_immediately(key: Any) -> None:
    with pytest.raises(Invalid, match="cannot be used in a path: it must be a number from 0, or a key of letters"):
        EXTRACT[key]


def test_a_reference_has_no_truth_value_and_cannot_be_iterated() -> None:
    with pytest.raises(TypeError, match=r"tasks\.extract\.output\.files}} is known only in a run: fan out over it"):
        list(EXTRACT["files"])
    with pytest.raises(TypeError, match=r"fan out over it with \.foreach"):
        list(EXTRACT)
    with pytest.raises(TypeError, match=r"test it with \.only_if"):
        bool(EXTRACT["files"])


# Implied edges


def last(flow: WorkflowBuilder) -> Step:
    return flow.build().steps[-1]


def flow_of(*names: str) -> tuple[WorkflowBuilder, *tuple[Any, ...]]:
    flow = WorkflowBuilder("etl")
    return flow, *(flow.step(name, "x.y.v1") for name in names)


def test_reading_the_output_of_a_step_adds_a_success_edge() -> None:
    flow, a, b, _ = flow_of("a", "b", "c")
    flow.step("it", "x.y.v1", deep=[{"x": b["x"]}], text=f"{a['y']}/{b['z']}", hand="{{ tasks.c.output }}")
    assert last(flow).edges == (Edge("b"), Edge("a"), Edge("c"))
    assert last(flow).action == JobAction(
        "x.y.v1",
        {
            "deep": [{"x": "{{tasks.b.output.x}}"}],
            "text": "{{tasks.a.output.y}}/{{tasks.b.output.z}}",
            "hand": "{{ tasks.c.output }}",
        },
    )


def test_a_step_used_as_a_value_is_its_whole_output() -> None:
    for bare in (True, False):
        flow, a = flow_of("a")
        whole = a if bare else a.output
        flow.step("it", "x.y.v1", input=whole).foreach(whole)
        assert last(flow).action == JobAction("x.y.v1", "{{tasks.a.output}}")
        assert (last(flow).edges, last(flow).fan_out) == ((Edge("a"),), Foreach("a"))


def test_every_part_of_an_http_request_may_reference_steps() -> None:
    flow, a, b, c, d = flow_of("a", "b", "c", "d")
    flow.http("it", f"https://x/{a['id']}", headers={"T": b["t"]}, query={"q": [c["q"]]}, body=d["b"])
    assert [edge.parent for edge in last(flow).edges] == ["a", "b", "c", "d"]


def test_commands_and_child_runs_may_reference_steps() -> None:
    flow, a, b = flow_of("a", "b")
    flow.command("run", f"ls {a['dir']}", input={"b": b["x"]})
    assert last(flow).edges == (Edge("a"), Edge("b"))
    flow.child("it", "report", input={"b": b["x"]})
    assert last(flow).edges == (Edge("b"),)


def test_an_explicit_edge_replaces_the_implied_one() -> None:
    for on in Condition:
        flow, a = flow_of("a")
        flow.step("it", "x.y.v1", error=a.error).after(a, on=on)
        assert last(flow).edges == (Edge("a", on),)


def test_explicit_edges_come_before_implied_ones() -> None:
    flow, a, b = flow_of("a", "b")
    flow.step("it", "x.y.v1", x=a["x"]).after(b, on="complete")
    assert last(flow).edges == (Edge("b", Condition.COMPLETE), Edge("a"))


def test_an_implied_edge_requires_success_even_with_an_if() -> None:
    flow, a = flow_of("a")
    flow.step("it", "x.y.v1", x=a["x"]).only_if("input.wanted == true")
    assert last(flow).edges == (Edge("a", Condition.SUCCESS),)


def test_references_in_an_if_become_paths_and_add_no_edges() -> None:
    flow, a, b = flow_of("a", "b")
    b.after(a)
    flow.step("it", "x.y.v1", needs=b).only_if(f"{a['n']} > 3 && {flow.input['go']} == 'yes'")
    step = last(flow)
    assert step.condition == "tasks.a.output.n > 3 && input.go == 'yes'"
    assert step.edges == (Edge("b", Condition.COMPLETE),)
    flow.step("that", "x.y.v1", needs=b).only_if(a["changed"])
    assert last(flow).condition == "tasks.a.output.changed"
    assert last(flow).edges == (Edge("b", Condition.COMPLETE),)


def test_a_fan_out_over_an_output_adds_an_edge() -> None:
    flow, a = flow_of("a")
    flow.step("it", "x.y.v1", path=flow.item["path"], n=flow.index).foreach(a["deep"][0]["files"], concurrency=2)
    step = last(flow)
    assert (step.fan_out, step.concurrency, step.edges) == (Foreach("a.deep.0.files"), 2, (Edge("a"),))
    flow.step("that", "x.y.v1").parallel(a["count"])
    assert (last(flow).fan_out, last(flow).edges) == (Parallel("a.count"), (Edge("a"),))


def test_a_fan_out_over_the_input_adds_no_edge() -> None:
    flow = WorkflowBuilder("etl")
    flow.step("it", "x.y.v1").foreach(flow.input["files"])
    assert (last(flow).fan_out, last(flow).edges) == (Foreach("input.files"), ())
    flow.step("that", "x.y.v1").parallel(flow.input["count"])
    assert (last(flow).fan_out, last(flow).edges) == (Parallel("input.count"), ())


def test_references_in_the_final_step_add_no_edges() -> None:
    flow, a = flow_of("a")
    flow.step("it", "x.y.v1", x=a["x"]).final().foreach(a["files"])
    assert (last(flow).edges, last(flow).final) == ((), True)


def test_a_reference_to_a_callback_url_adds_no_edge() -> None:
    flow = WorkflowBuilder("checkout")
    paid = flow.wait_for_webhook("paid", timeout="1h")
    create = flow.http("create", "https://x", body={"callback": paid.callback_url})
    paid.after(create)
    steps = flow.build().steps
    assert [step.edges for step in steps] == [(Edge("create"),), ()]


def test_an_any_join_may_read_its_only_parent_or_an_explicit_one() -> None:
    flow, a = flow_of("a")
    flow.step("it", "x.y.v1", x=a["x"]).join_any()
    assert last(flow).edges == (Edge("a"),)
    flow, a, b = flow_of("a", "b")
    flow.step("it", "x.y.v1", x=a["x"]).after(a, b).join_any()
    assert last(flow).edges == (Edge("a"), Edge("b"))
