"""Workflow documents, in the spelling of Windlass and in those of the seeds, and the workflows that they define."""

from datetime import timedelta
from typing import Any

import pytest

from windlass.core.cron.schedule import CatchUp, Overlap
from windlass.core.definition.parser import parse
from windlass.core.workflows.step import Condition, Edge, Foreach, Join, Parallel, Step
from windlass.core.workflows.workflow import ApiTrigger, CronTrigger, Trigger, WebhookTrigger, Workflow

SECOND = timedelta(seconds=1)
DISCOVER = {"job": "files.discover.v1"}


def only(step: dict[str, Any], **others: dict[str, Any]) -> Step:
    """Return the given step of a workflow that also has the other steps."""
    return parse({"name": "w", "tasks": {**others, "it": step}}).steps[-1]


def edges(step: dict[str, Any]) -> tuple[Edge, ...]:
    return only({"job": "x.y.v1", **step}, a=DISCOVER, b=DISCOVER).edges


@pytest.mark.parametrize(
    ("process", "fan_out", "concurrency"),
    [
        ({"parallel": 4}, Parallel(4), None),
        ({"depends_on": ["discover"], "parallel": "discover.count"}, Parallel("discover.count"), None),
        ({"depends_on": ["discover"], "foreach": "discover.files"}, Foreach("discover.files"), None),
        ({"depends_on": ["discover"], "foreach": "discover.files", "concurrency": 4}, Foreach("discover.files"), 4),
    ],
    ids=str,
)
def test_seed_004_fan_outs(process: dict[str, Any], fan_out: Any, concurrency: int | None) -> None:
    step = only({"job": "files.process.v1", **process}, discover=DISCOVER)
    assert (step.fan_out, step.concurrency) == (fan_out, concurrency)
    assert step.edges == ((Edge("discover"),) if "depends_on" in process else ())


def test_seed_004_tasks_may_be_a_list_with_names() -> None:
    tasks = [{"name": "b", **DISCOVER}, {"name": "a", **DISCOVER, "depends_on": ["b"]}]
    assert [step.name for step in parse({"name": "w", "tasks": tasks}).steps] == ["b", "a"]


def test_steps_keep_the_order_they_were_written_in() -> None:
    tasks = dict.fromkeys(["z", "m", "a"], DISCOVER)
    assert [step.name for step in parse({"name": "w", "tasks": tasks}).steps] == ["z", "m", "a"]


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ({}, ()),
        ({"needs": []}, ()),
        ({"needs": ["a", "b"]}, (Edge("a"), Edge("b"))),
        ({"needs": "a"}, (Edge("a"),)),
        ({"depends_on": ["a"]}, (Edge("a"),)),
        ({"needs": {"a": "failure", "b": "success"}}, (Edge("a", Condition.FAILURE), Edge("b"))),
        ({"needs": [{"step": "a", "on": "skipped"}, "b"]}, (Edge("a", Condition.SKIPPED), Edge("b"))),
        ({"needs": [{"step": "a"}]}, (Edge("a"),)),
        (
            {"needs": [{"step": "a", "on": "failure"}, {"step": "a", "on": "skipped"}], "join": "any"},
            (Edge("a", Condition.FAILURE), Edge("a", Condition.SKIPPED)),
        ),
    ],
    ids=str,
)
def test_needs_takes_names_with_or_without_conditions(step: dict[str, Any], expected: tuple[Edge, ...]) -> None:
    assert edges(step) == expected


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ({"needs": ["a"]}, (Edge("a", Condition.COMPLETE),)),
        ({"needs": ["a"], "on_failure": "skip"}, (Edge("a", Condition.COMPLETE),)),
        ({"needs": {"a": "success"}}, (Edge("a", Condition.SUCCESS),)),
        (
            {"needs": ["a", {"step": "b", "on": "failure"}]},
            (Edge("a", Condition.COMPLETE), Edge("b", Condition.FAILURE)),
        ),
    ],
    ids=str,
)
def test_with_an_if_needs_without_a_condition_means_complete(step: dict[str, Any], expected: tuple[Edge, ...]) -> None:
    assert edges({**step, "if": "tasks.a.status == 'failed'"}) == expected


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ({"depends_on": ["a"], "on_failure": "run"}, (Edge("a", Condition.COMPLETE),)),
        ({"depends_on": {"a": "complete"}, "on_failure": "run"}, (Edge("a", Condition.COMPLETE),)),
        ({"depends_on": ["a"], "on_failure": "skip"}, (Edge("a"),)),
        ({"on_failure": "run"}, ()),
    ],
    ids=str,
)
def test_on_failure_run_makes_every_edge_complete(step: dict[str, Any], expected: tuple[Edge, ...]) -> None:
    assert edges(step) == expected


def test_join_may_be_any() -> None:
    assert only({**DISCOVER, "needs": ["a"], "join": "any"}, a=DISCOVER).join is Join.ANY


def test_a_final_step_may_have_an_if_and_fan_out_over_any_step() -> None:
    step = only({**DISCOVER, "final": True, "if": "failure()", "foreach": "a.files"}, a=DISCOVER)
    assert (step.final, step.edges, step.fan_out) == (True, (), Foreach("a.files"))


@pytest.mark.parametrize("path", ["near.files", "far", "far.a.b.0", "input.files", "input", "trigger.body.files"])
def test_a_fan_out_takes_its_items_from_an_ancestor_step_or_from_the_input(path: str) -> None:
    near = {**DISCOVER, "needs": ["far"]}
    assert only({**DISCOVER, "needs": ["near"], "foreach": path}, far=DISCOVER, near=near).fan_out == Foreach(path)


@pytest.mark.parametrize(
    ("words", "trigger"),
    [
        ({}, ApiTrigger()),
        ({"trigger": "api"}, ApiTrigger()),
        ({"trigger": "webhook"}, WebhookTrigger()),
        ({"trigger": "cron", "cron_expression": "@daily"}, CronTrigger("@daily")),
        (
            {"trigger": "cron", "cron_expression": "@daily", "timezone": "Asia/Tokyo"},
            CronTrigger("@daily", "Asia/Tokyo"),
        ),
        ({"trigger": {"cron": "5 4 * * *"}}, CronTrigger("5 4 * * *", "UTC", {}, Overlap.ALLOW, CatchUp.ONE)),
        (
            {"trigger": {"cron": "@daily", "input": None, "overlap": "buffer", "catch_up": "all"}},
            CronTrigger("@daily", "UTC", None, Overlap.BUFFER, CatchUp.ALL),
        ),
    ],
    ids=str,
)
def test_every_spelling_of_a_trigger_is_parsed(words: dict[str, Any], trigger: Trigger) -> None:
    assert parse({"name": "w", "tasks": {"a": DISCOVER}, **words}).trigger == trigger


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ({"max_duration": "1h30m"}, {"max_duration": timedelta(minutes=90)}),
        ({"max_duration_seconds": 2592000}, {"max_duration": timedelta(days=30)}),
        ({"concurrency": 1}, {"concurrency": 1}),
        ({"description": "what\nfor"}, {"description": "what\nfor"}),
        ({"labels": {"team": "data"}}, {"labels": {"team": "data"}}),
        ({"$schema": "https://windlass.example/workflow.json"}, {}),
        ({"name": "Orders.v2_x-1"}, {"name": "Orders.v2_x-1"}),
    ],
    ids=str,
)
def test_workflow_options_are_parsed(words: dict[str, Any], expected: dict[str, Any]) -> None:
    workflow = parse({"name": "w", "tasks": {"a": DISCOVER}, **words})
    assert workflow == Workflow(**{"name": "w", "steps": workflow.steps} | expected)


def test_null_is_the_same_as_a_missing_key() -> None:
    words = {"trigger": None, "description": None, "labels": None, "max_duration": None, "concurrency": None}
    step = {"url": None, "needs": None, "if": None, "final": None, "retry": None, "parallel": None, "join": None}
    assert parse({"name": "w", **words, "tasks": {"a": {**DISCOVER, **step}}}) == parse(
        {"name": "w", "tasks": {"a": DISCOVER}}
    )


def test_a_join_of_a_thousand_steps_and_a_chain_of_five_thousand_are_parsed() -> None:
    many = {f"s{n}": {**DISCOVER, **({"needs": [f"s{n - 1}"]} if n else {})} for n in range(5000)}
    assert len(parse({"name": "w", "tasks": many}).steps) == 5000
    bush = {f"s{n}": DISCOVER for n in range(1000)}
    assert (
        len(parse({"name": "w", "tasks": {**bush, "join": {**DISCOVER, "needs": list(bush)}}}).steps[-1].edges) == 1000
    )
