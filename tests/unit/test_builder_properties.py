"""Any workflow can be written in Python and as a document, with the same result."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from windlass.core.definition.builder import WorkflowBuilder
from windlass.core.definition.parser import parse
from windlass.core.definition.step_builder import StepBuilder
from windlass.core.workflows.step import Condition

WORKS = ("job", "url", "run", "workflow")
PAUSES = ("sleep", "wait_for_webhook")


@dataclass(frozen=True)
class Node:
    """A step in the abstract: its parents have smaller numbers."""

    number: int
    kind: str
    needs: Sequence[tuple[int, str | None]]
    reads: Sequence[int]
    fan: tuple[str, int | None] | None  # foreach or parallel, and over whose output; None: the run's input
    condition: str | None
    timeout: int | None

    @property
    def name(self) -> str:
        return f"s{self.number}"


@st.composite
def nodes(draw: st.DrawFn, number: int) -> Node:
    earlier = st.integers(0, number - 1) if number else st.nothing()
    kind = draw(st.sampled_from(WORKS + PAUSES))
    works = kind in WORKS
    conditions = st.sampled_from([None, *map(str, Condition)])
    fans = st.tuples(st.sampled_from(["foreach", "parallel"]), st.none() | earlier)
    return Node(
        number,
        kind,
        needs=draw(st.lists(st.tuples(earlier, conditions), max_size=3)) if number else (),
        reads=draw(st.lists(earlier, max_size=3)) if number and works else (),
        fan=draw(st.none() | fans) if works else None,
        condition=draw(st.none() | st.just("failure()")),
        timeout=draw(st.none() | st.integers(1, 10**6)) if works else None,
    )


@st.composite
def graphs(draw: st.DrawFn) -> list[Node]:
    return [draw(nodes(number)) for number in range(draw(st.integers(1, 8)))]


# In Python


def built(graph: Sequence[Node]) -> WorkflowBuilder:
    flow = WorkflowBuilder("w")
    made: dict[int, StepBuilder] = {}
    for node in graph:
        made[node.number] = begun(flow, node, [made[n]["x"] for n in node.reads])
    for node in reversed(graph):
        described(made[node.number], node, flow, made)
    return flow


def begun(flow: WorkflowBuilder, node: Node, reads: Sequence[Any]) -> StepBuilder:
    match node.kind:
        case "job":
            return flow.step(node.name, "x.y.v1", reads=reads)
        case "url":
            return flow.http(node.name, "https://x", body=reads)
        case "run":
            return flow.command(node.name, "ls", input={"reads": reads})
        case "workflow":
            return flow.child(node.name, "w2", input={"reads": reads})
        case "sleep":
            return flow.sleep(node.name, 90)
        case _:
            return flow.wait_for_webhook(node.name, timeout=90)


def described(step: StepBuilder, node: Node, flow: WorkflowBuilder, made: dict[int, StepBuilder]) -> None:
    for parent, condition in node.needs:
        step.after(made[parent], on=condition)
    if node.condition is not None:
        step.only_if(node.condition)
    if node.fan is not None:
        source = flow.input["x"] if node.fan[1] is None else made[node.fan[1]]["x"]
        step.foreach(source) if node.fan[0] == "foreach" else step.parallel(source, concurrency=3)
    if node.timeout is not None:
        step.timeout(node.timeout)


# In a document


def document(graph: Sequence[Node]) -> dict[str, Any]:
    return {"name": "w", "tasks": [task(node) for node in graph]}


def task(node: Node) -> dict[str, Any]:
    reads = [f"{{{{tasks.s{n}.output.x}}}}" for n in node.reads]
    found = {"name": node.name, "needs": needs(node), "if": node.condition} | action(node.kind, reads)
    if node.timeout is not None:
        found["timeout"] = f"{node.timeout}s"
    if node.fan is not None:
        found[node.fan[0]] = "input.x" if node.fan[1] is None else f"s{node.fan[1]}.x"
        found["concurrency"] = 3 if node.fan[0] == "parallel" else None
    return found


def needs(node: Node) -> list[Any]:
    said = [{"step": f"s{n}", "on": condition} for n, condition in node.needs]
    known = {n for n, _ in node.needs}
    over = [] if node.fan is None or node.fan[1] is None else [node.fan[1]]
    return said + [{"step": f"s{n}", "on": "success"} for n in dict.fromkeys([*node.reads, *over]) if n not in known]


def action(kind: str, reads: list[str]) -> dict[str, Any]:
    actions: dict[str, dict[str, Any]] = {
        "job": {"job": "x.y.v1", "input": {"reads": reads}},
        "url": {"url": "https://x", "body": reads},
        "run": {"run": "ls", "input": {"reads": reads}},
        "workflow": {"workflow": "w2", "input": {"reads": reads}},
        "sleep": {"sleep": "1m30s"},
        "wait_for_webhook": {"wait_for_webhook": {"timeout": "90s"}},
    }
    return actions[kind]


@settings(deadline=None)
@given(graphs())
def test_a_workflow_built_in_python_equals_the_one_parsed_from_its_document(graph: list[Node]) -> None:
    workflow = built(graph).build()
    assert workflow == parse(document(graph))
    assert workflow.fingerprint == parse(document(graph)).fingerprint


@settings(deadline=None)
@given(st.integers(1, 40), st.booleans())
def test_a_chain_of_references_is_a_chain_of_edges(length: int, fanned: bool) -> None:
    flow = WorkflowBuilder("w")
    step = flow.step("s0", "x.y.v1")
    tasks: dict[str, Any] = {"s0": {"job": "x.y.v1"}}
    for n in range(1, length):
        tasks[f"s{n}"] = {"job": "x.y.v1", "needs": [f"s{n - 1}"]}
        if fanned:
            step = flow.step(f"s{n}", "x.y.v1").foreach(step)
            tasks[f"s{n}"]["foreach"] = f"s{n - 1}"
        else:
            step = flow.step(f"s{n}", "x.y.v1", x=step["x"])
            tasks[f"s{n}"]["input"] = {"x": f"{{{{tasks.s{n - 1}.output.x}}}}"}
    assert flow.build() == parse({"name": "w", "tasks": tasks})
