"""Workflows built in Python: the methods of the builder, compared with workflow documents."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from windlass.core.cron.schedule import CatchUp, Overlap
from windlass.core.definition.builder import Served, WorkflowBuilder
from windlass.core.definition.parser import checked, parse
from windlass.core.definition.step_builder import StepBuilder
from windlass.core.jobs.retry import Backoff, Retry
from windlass.core.workflows.step import Condition, Edge, Step
from windlass.core.workflows.workflow import Workflow


def work() -> None:
    """A plain function as the handler of a step."""


def other() -> None: ...


def default(type_: str, _: Callable[..., Any]) -> Served:
    """Register a function under its default type."""
    return Served(type_)


def builder(**words: Any) -> WorkflowBuilder:
    return WorkflowBuilder("etl", register=default, **words)


def only(flow: WorkflowBuilder) -> Step:
    """Return the last step of a workflow."""
    return flow.build().steps[-1]


def read(**task: Any) -> Step:
    """Return a step parsed from a document in which two other steps precede it."""
    job = {"job": "x.y.v1"}
    return parse({"name": "etl", "tasks": {"a": job, "b": job, "it": task}}).steps[-1]


def pair(flow: WorkflowBuilder) -> tuple[StepBuilder, StepBuilder]:
    return flow.step("a", "x.y.v1"), flow.step("b", "x.y.v1")


# The workflow


def test_the_example_builds_the_workflow_of_the_equivalent_document() -> None:
    etl = builder(cron="0 2 * * *", timezone="Europe/Berlin")
    extract = etl.step("extract", work, source="s3://landing")
    each = etl.step("load", work).foreach(extract["files"], concurrency=8)
    etl.step("alert", work).after(each, on="failure")
    etl.step("cleanup", work).final()
    document = {
        "name": "etl",
        "trigger": {"cron": "0 2 * * *", "timezone": "Europe/Berlin"},
        "tasks": {
            "extract": {"job": "etl.extract", "input": {"source": "s3://landing"}},
            "load": {"job": "etl.load", "needs": ["extract"], "foreach": "extract.files", "concurrency": 8},
            "alert": {"job": "etl.alert", "needs": {"load": "failure"}},
            "cleanup": {"job": "etl.cleanup", "final": True},
        },
    }
    assert etl.build() == parse(document)
    assert etl.build().fingerprint == parse(document).fingerprint


def test_every_kind_of_step_equals_the_one_in_the_equivalent_document() -> None:
    flow = WorkflowBuilder("order-processing", cron="0 2 * * *", timezone="Europe/Berlin", max_duration="30d")
    discover = flow.step("discover", "files.discover.v1", bucket=flow.input["bucket"])
    process = flow.step("process", "files.process.v1").foreach(discover["files"], concurrency=4)
    body = {"n": discover["count"]}
    charge = flow.http("charge", "https://shop.example/charge", body=body, needs=process).retry(max_attempts=4)
    cool_down = flow.sleep("cool-down", 30, needs=charge)
    paid = flow.wait_for_webhook("paid", timeout="1h", needs=[cool_down])
    report = flow.child("report", "monthly-report", input={"paid": paid["status"]}).after(paid)
    report.only_if(f"{paid['status']} == 'paid'")
    flow.command("clean", "./clean.sh", runs_on="local").final()
    tasks = {
        "discover": {"job": "files.discover.v1", "input": {"bucket": "{{input.bucket}}"}},
        "process": {"job": "files.process.v1", "needs": ["discover"], "foreach": "discover.files", "concurrency": 4},
        "charge": {
            "needs": ["process", "discover"],
            "url": "https://shop.example/charge",
            "method": "POST",
            "body": {"n": "{{tasks.discover.output.count}}"},
            "retries": 3,
        },
        "cool-down": {"needs": ["charge"], "sleep": "30s"},
        "paid": {"needs": ["cool-down"], "wait_for_webhook": {"timeout": "1h"}},
        "report": {
            "needs": ["paid"],
            "if": "tasks.paid.output.status == 'paid'",
            "workflow": "monthly-report",
            "input": {"paid": "{{tasks.paid.output.status}}"},
        },
        "clean": {"final": True, "run": "./clean.sh", "runs_on": "local"},
    }
    trigger = {"cron": "0 2 * * *", "timezone": "Europe/Berlin"}
    assert flow.build() == parse({"name": "order-processing", "trigger": trigger, "tasks": tasks})


@pytest.mark.parametrize(
    ("words", "document"),
    [
        ({}, {}),
        ({"webhook": True}, {"trigger": "webhook"}),
        ({"cron": "@daily"}, {"trigger": {"cron": "@daily"}}),
        (
            {"cron": "@daily", "cron_input": {"n": 1}, "overlap": "skip", "catch_up": CatchUp.ALL},
            {"trigger": {"cron": "@daily", "input": {"n": 1}, "overlap": "skip", "catch_up": "all"}},
        ),
        ({"cron": "@daily", "overlap": Overlap.BUFFER}, {"trigger": {"cron": "@daily", "overlap": "buffer"}}),
        ({"description": "what for"}, {"description": "what for"}),
        ({"max_duration": timedelta(hours=1)}, {"max_duration": "1h"}),
        ({"max_duration": 90}, {"max_duration": "1m30s"}),
        ({"concurrency": 2, "labels": {"team": "data"}}, {"concurrency": 2, "labels": {"team": "data"}}),
    ],
    ids=str,
)
def test_workflow_options_equal_those_of_the_document(words: dict[str, Any], document: dict[str, Any]) -> None:
    flow = builder(**words)
    flow.step("a", "x.y.v1")
    assert flow.build() == parse({"name": "etl", **document, "tasks": {"a": {"job": "x.y.v1"}}})


def test_a_built_workflow_is_not_changed_by_later_calls() -> None:
    flow = builder()
    files = ["a.csv"]
    first = flow.step("a", "x.y.v1", files=files)
    built = flow.build()
    files.append("b.csv")
    assert flow.build() == built == checked(built)
    first.timeout(5)
    flow.step("b", "x.y.v1")
    assert [step.name for step in built.steps] == ["a"]
    assert built.steps[0].timeout is None


# What a step does


def test_a_function_is_registered_under_the_names_of_workflow_and_step() -> None:
    asked = []

    def register(type_: str, function: Callable[..., Any]) -> Served:
        asked.append((type_, function))
        return Served("known.before.v1" if function is other else type_)

    flow = WorkflowBuilder("etl", register=register)
    flow.step("a", work)
    flow.step("b", other)
    flow.step("c", "any.worker.v1")
    assert asked == [("etl.a", work), ("etl.b", other)]
    types = [task["job"] for task in flow.build().to_document()["tasks"]]
    assert types == ["etl.a", "known.before.v1", "any.worker.v1"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {}),
        ({"n": 1, "deep": {"of": (1, 2)}}, {"n": 1, "deep": {"of": [1, 2]}}),
        ({"name": "x", "work": "y", "self": "z"}, {"name": "x", "work": "y", "self": "z"}),
        ({"nothing": None}, {"nothing": None}),
        ({"input": {"needs": 1, "input": 2}}, {"needs": 1, "input": 2}),
        ({"input": {"needs": 1}, "n": 2}, {"needs": 1, "n": 2}),
        ({"input": [1, 2]}, [1, 2]),
    ],
    ids=str,
)
def test_keywords_and_the_input_argument_become_the_input(given: dict[str, Any], expected: Any) -> None:
    flow = builder()
    flow.step("a", "x.y.v1", **given)
    assert only(flow) == parse({"name": "etl", "tasks": {"a": {"job": "x.y.v1", "input": expected}}}).steps[0]


@pytest.mark.parametrize(
    ("say", "task"),
    [
        (lambda flow: flow.step("it", "x.y.v1").queue("gpu").priority(5), {"queue": "gpu", "priority": 5}),
        (lambda flow: flow.step("it", "x.y.v1").timeout(1.5), {"timeout": "1500ms"}),
        (lambda flow: flow.step("it", "x.y.v1").timeout("2h").retry(max_attempts=5), {"timeout": "2h", "retries": 4}),
        (
            lambda flow: flow.step("it", "x.y.v1").retry(retry=Retry(Backoff.LINEAR, base=2)),
            {"retry": {"kind": "linear", "base": 2}},
        ),
        (lambda flow: flow.step("it", "x.y.v1").parallel(3), {"parallel": 3}),
        (lambda flow: flow.step("it", "x.y.v1").parallel(9, concurrency=2), {"parallel": 9, "concurrency": 2}),
        (lambda flow: flow.step("it", "x.y.v1").only_if("always()"), {"if": "always()"}),
    ],
    ids=["queue", "seconds", "text", "policy", "parallel", "concurrency", "if"],
)
def test_job_options_equal_those_of_the_document(say: Callable[[WorkflowBuilder], Any], task: dict[str, Any]) -> None:
    flow = builder()
    say(flow)
    assert only(flow) == read(job="x.y.v1", **task)


@pytest.mark.parametrize(
    ("say", "task"),
    [
        (lambda flow: flow.http("it", "https://x"), {"url": "https://x"}),
        (
            lambda flow: flow.http(
                "it", f"https://x/{flow.input['id']}", method="get", headers={"A": "b"}, query={"q": flow.input["q"]}
            ),
            {
                "url": "https://x/{{input.id}}",
                "method": "GET",
                "headers": {"A": "b"},
                "query": {"q": "{{input.q}}"},
            },
        ),
        (lambda flow: flow.http("it", flow.input["url"]).timeout(5), {"url": "{{input.url}}", "timeout": 5000}),
        (lambda flow: flow.sleep("it", timedelta(days=2)), {"sleep": "2d"}),
        (lambda flow: flow.sleep("it", 0), {"sleep": 0}),
        (lambda flow: flow.wait_for_webhook("it"), {"wait_for_webhook": True}),
        (lambda flow: flow.approve("it", "Ship it?"), {"approve": {"message": "Ship it?"}}),
        (
            lambda flow: flow.approve(
                "it", flow.input["question"], form={}, roles=["admin"], timeout=60, on_timeout="reject", remind="1m"
            ),
            {
                "approve": {
                    "message": "{{input.question}}",
                    "form": {},
                    "roles": ["admin"],
                    "timeout": "1m",
                    "on_timeout": "reject",
                    "remind": "1m",
                }
            },
        ),
        (lambda flow: flow.wait_for_event("it", "paid"), {"wait_for_event": {"name": "paid"}}),
        (
            lambda flow: flow.wait_for_event("it", "paid", key=flow.input["id"], timeout=60, count=2),
            {"wait_for_event": {"name": "paid", "key": "{{input.id}}", "timeout": "1m", "count": 2}},
        ),
        (
            lambda flow: flow.wait_for_webhook("it", timeout=60, secret="s"),
            {"wait_for_webhook": {"timeout": "1m", "secret": "s"}},
        ),
        (lambda flow: flow.command("it", "ls", input={"n": 1}), {"run": "ls", "input": {"n": 1}}),
        (lambda flow: flow.child("it", "report"), {"workflow": "report"}),
        (lambda flow: flow.child("it", WorkflowBuilder("report")).parallel(2), {"workflow": "report", "parallel": 2}),
    ],
)
def test_the_other_kinds_of_steps_equal_those_of_the_document(
    say: Callable[[WorkflowBuilder], Any], task: dict[str, Any]
) -> None:
    flow = builder()
    say(flow)
    assert only(flow) == read(**task)


# When it runs


@pytest.mark.parametrize(
    ("say", "edges"),
    [
        (lambda it, a, b: it.after(a, b), (Edge("a"), Edge("b"))),
        (lambda it, a, b: it.after(b).after("a"), (Edge("b"), Edge("a"))),
        (lambda it, a, b: it.after(a, on="failure"), (Edge("a", Condition.FAILURE),)),
        (lambda it, a, b: it.after(a, on=Condition.SKIPPED), (Edge("a", Condition.SKIPPED),)),
        (
            lambda it, a, b: it.after(a, on="failure").after(a, on="skipped").join_any(),
            (Edge("a", Condition.FAILURE), Edge("a", Condition.SKIPPED)),
        ),
        (lambda it, a, b: it.after(a).only_if("always()"), (Edge("a", Condition.COMPLETE),)),
        (lambda it, a, b: it.only_if("always()").after(a, on="success"), (Edge("a", Condition.SUCCESS),)),
        (lambda it, a, b: it.after(), ()),
    ],
)
def test_after_and_only_if_determine_the_edges(say: Callable[..., Any], edges: tuple[Edge, ...]) -> None:
    flow = builder()
    a, b = pair(flow)
    say(flow.step("it", "x.y.v1"), a, b)
    assert only(flow).edges == edges


@pytest.mark.parametrize(
    ("spell", "edges"),
    [
        (lambda a, b: a, (Edge("a"),)),
        (lambda a, b: "a", (Edge("a"),)),
        (lambda a, b: [a, b], (Edge("a"), Edge("b"))),
        (lambda a, b: (a, "b"), (Edge("a"), Edge("b"))),
        (lambda a, b: {a: "failure", "b": "success"}, (Edge("a", Condition.FAILURE), Edge("b"))),
        (lambda a, b: [], ()),
        (lambda a, b: None, ()),
    ],
)
def test_needs_takes_one_or_more_steps_with_or_without_conditions(
    spell: Callable[..., Any], edges: tuple[Edge, ...]
) -> None:
    flow = builder()
    flow.step("it", "x.y.v1", needs=spell(*pair(flow)))
    assert only(flow).edges == edges


def test_an_edge_may_name_a_step_that_is_added_later() -> None:
    flow = builder()
    last = flow.step("last", "x.y.v1", needs="first")
    first = flow.step("first", "x.y.v1")
    last.after(first, on="complete")
    assert flow.build().steps[0].edges == (Edge("first"), Edge("first", Condition.COMPLETE))


def test_two_builders_with_the_same_calls_build_equal_workflows() -> None:
    def built() -> Workflow:
        flow = builder()
        flow.step("b", work, files=flow.step("a", work)["files"])
        return flow.build()

    assert built() == built()
    assert built().fingerprint == built().fingerprint
