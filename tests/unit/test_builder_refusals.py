"""Errors in a workflow built in Python: `build` reports all of them at once, in the terms of workflow files."""

from collections.abc import Callable
from typing import Any

import pytest

from windlass.core.definition.builder import Served, WorkflowBuilder
from windlass.errors import Invalid, InvalidWorkflow


def work() -> None: ...


def told(flow: WorkflowBuilder) -> list[str]:
    with pytest.raises(InvalidWorkflow) as refusal:
        flow.build()
    with pytest.raises(InvalidWorkflow) as again:
        flow.build()
    assert again.value.errors == refusal.value.errors
    return [f"{path}: {message}" if path else message for path, message in refusal.value.errors]


OTHER = WorkflowBuilder("other")
AWAY = OTHER.step("away", "x.y.v1")


def test_all_errors_are_reported_at_once_and_builder_errors_come_first() -> None:
    flow = WorkflowBuilder("../etc", cron="61 * * * *", timezone="Mars/Base", webhook=True)
    flow.step("a", work).after(AWAY)
    flow.step("b", "x.y.v1").timeout("soon").retry(max_attempts=0).after("c", on="maybe")
    flow.sleep("c", "long").parallel(2).after("fetsh")
    flow.step("fetch", "x.y.v1").final()
    assert [line.split(":")[0] for line in told(flow)] == [
        "trigger",
        "tasks.a.job",
        "tasks.a.needs",
        "name",
        "tasks.b.needs[0]",
        "tasks.b.max_attempts",
        "tasks.b.timeout",
        "tasks.c.parallel",
        "tasks.c.sleep",
        "trigger.timezone",
        "trigger.cron",
        "tasks.c.needs",
    ]


def test_a_workflow_without_steps_is_refused() -> None:
    assert told(WorkflowBuilder("etl")) == ["tasks: it is empty: a workflow needs at least one step"]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            {"cron": "@daily", "webhook": True},
            "trigger: `cron` and `webhook` are both given: a workflow has one trigger",
        ),
        ({"timezone": "Europe/Berlin"}, "timezone: it requires `cron`"),
        ({"cron_input": {}}, "cron_input: it requires `cron`"),
        ({"overlap": "skip"}, "overlap: it requires `cron`"),
        ({"catch_up": "all", "webhook": True}, "catch_up: it requires `cron`"),
        ({"cron": "@daily", "overlap": "maybe"}, "trigger.overlap: it is 'maybe': it must be one of allow, skip"),
        ({"cron": "@daily", "catch_up": 1}, "trigger.catch_up: it is 1: it must be one of none, one, all"),
        ({"cron": 5}, "trigger.cron: it is 5: it must be a string"),
        ({"max_duration": -1}, "max_duration: it is '-1s': it must be a number with a unit"),
        ({"max_duration": 0}, "max_duration: it is '0s': it must be positive"),
        ({"max_duration": 1e300}, "max_duration: it is 1e+300: it must be a number with a unit"),
        ({"max_duration": True}, "max_duration: it is true: it must be a number with a unit"),
        ({"concurrency": 0}, "concurrency: it is 0: it must be between 1 and"),
        ({"labels": ["a"]}, "labels: it is ['a']: it must be an object"),
        ({"description": 3}, "description: it is 3: it must be a string"),
    ],
    ids=str,
)
def test_an_invalid_workflow_option_is_reported_with_its_field(words: dict[str, Any], line: str) -> None:
    flow = WorkflowBuilder("etl", **words)
    flow.step("a", "x.y.v1")
    (found,) = told(flow)
    assert found.startswith(line)


@pytest.mark.parametrize(
    ("say", "line"),
    [
        # what it does
        (lambda flow: flow.step("it", 5), "tasks.it.job: it is 5: it must be a function or the type of a job"),
        (lambda flow: flow.step("it", ""), "tasks.it.job: it is '': it must be a string that is not empty"),
        (lambda flow: flow.step("it", work), "tasks.it.job: a function needs an app to run it: use app.workflow"),
        (lambda flow: flow.step("a b", "x.y.v1"), "tasks[2].name: 'a b' is not a valid step name"),
        (lambda flow: flow.step("a", "x.y.v1"), "tasks[2].name: the name 'a' is used by another step"),
        (lambda flow: flow.step("it", "x.y.v1", input=[], n=1), "tasks.it.input: keywords are given too"),
        (lambda flow: flow.step("it", "x.y.v1", input={"n": 1}, n=1), "tasks.it.input.n: it is given as a keyword too"),
        (lambda flow: flow.step("it", "x.y.v1", n=object()), "the workflow is not JSON"),
        (lambda flow: flow.step("it", "x.y.v1", n=float("nan")), "the workflow is not JSON"),
        (lambda flow: flow.http("it", "ftp://x"), "tasks.it.url: it is 'ftp://x': it must be a URL"),
        (lambda flow: flow.http("it", "https://x", method="FETCH"), "tasks.it.method: it is 'FETCH'"),
        (lambda flow: flow.sleep("it", "3x"), "tasks.it.sleep: it is '3x': it must be a number with a unit"),
        (lambda flow: flow.sleep("it", -1), "tasks.it.sleep: it is '-1s': it must be a number with a unit"),
        (lambda flow: flow.wait_for_webhook("it", timeout=0), "tasks.it.wait_for_webhook.timeout: it is '0s'"),
        (lambda flow: flow.command("it", "ls", runs_on="Mars"), "tasks.it.runs_on: it is 'Mars'"),
        (lambda flow: flow.child("it", "no/name"), "tasks.it.workflow: 'no/name' is not a valid workflow name"),
        # when it runs
        (lambda flow: flow.step("it", "x.y.v1").after("b2"), "tasks.it.needs: unknown step 'b2'"),
        (lambda flow: flow.step("it", "x.y.v1").after("it"), "tasks.it.needs: the step needs itself"),
        (
            lambda flow: flow.step("it", "x.y.v1").after(5),
            "tasks.it.needs: it is 5: it must be a step or the name of one",
        ),
        (lambda flow: flow.step("it", "x.y.v1", needs=flow.input), "tasks.it.needs: it is Reference("),
        (
            lambda flow: flow.step("it", "x.y.v1").after("a", on="done"),
            "tasks.it.needs[0]: the condition is 'done': it must be one of success, failure, skipped, complete",
        ),
        (
            lambda flow: flow.step("it", "x.y.v1", x="{{tasks.nobody.output}}"),
            "tasks.it.input.x: unknown step 'nobody'",
        ),
        (
            lambda flow: flow.step("it", "x.y.v1").only_if("tasks.a.status == 'failed'"),
            "tasks.it.if: 'a' must run before this step: add it to `needs`",
        ),
        (
            lambda flow: flow.step("it", "x.y.v1", x=flow.item),
            "tasks.it.input.x: `item` is known only in steps with `foreach` or `parallel`",
        ),
        (
            lambda flow: flow.step("it", "x.y.v1", x=flow.sleep("c", 1).callback_url),
            "tasks.it.input.x: 'c' has no callback: it is not a `wait_for_webhook` step",
        ),
        (
            lambda flow: flow.step("it", "x.y.v1").final().after("a"),
            "tasks.it.needs: a final step cannot have it: it runs when all other steps have ended",
        ),
        (
            lambda flow: flow.step("c", "x.y.v1").after(flow.step("it", "x.y.v1").final()),
            "tasks.c.needs: 'it' is the final step: no step can run after it",
        ),
        (
            lambda flow: flow.step("it", "x.y.v1", x="{{tasks.a.output}}").after("b").join_any(),
            "tasks.it.join: it may start before 'a' has ended, whose output it reads: add .after('a')",
        ),
        (lambda flow: flow.step("it", "x.y.v1").only_if(5), "tasks.it.if: it is 5: it must be a string"),
        # fan-out
        (
            lambda flow: flow.sleep("it", 1).parallel(2),
            "tasks.it.parallel: it belongs to `job`, `url`, `run`, `workflow` steps, but this is a `sleep` step",
        ),
        (
            lambda flow: flow.wait_for_webhook("it").foreach(flow.input["files"]),
            "tasks.it.foreach: it belongs to `job`, `url`, `run`, `workflow` steps, but this is a `wait_for_webhook`",
        ),
        (
            lambda flow: flow.step("it", "x.y.v1").foreach("a.files"),
            "tasks.it.foreach: it is 'a.files': it must be a step's output or the workflow's input",
        ),
        (lambda flow: flow.step("it", "x.y.v1").foreach(flow.item), "tasks.it.foreach: it is Reference(path='item'"),
        (
            lambda flow: flow.step("it", "x.y.v1").parallel("3"),
            "tasks.it.parallel: it is '3': it must be a number, a step's output or the workflow's input",
        ),
        (lambda flow: flow.step("it", "x.y.v1").parallel(-1), "tasks.it.parallel: it is -1: it must be between 0 and"),
        (lambda flow: flow.step("it", "x.y.v1").parallel(1.5), "tasks.it.parallel: it is 1.5: it must be an integer"),
        (lambda flow: flow.step("it", "x.y.v1").parallel(2, concurrency=0), "tasks.it.concurrency: it is 0"),
        (
            lambda flow: flow.step("it", "x.y.v1").parallel(2).foreach(flow.input),
            "tasks.it.foreach: `parallel` is given too: give one of them",
        ),
        # attempts
        (lambda flow: flow.step("it", "x.y.v1").timeout(0), "tasks.it.timeout: it is '0s': it must be positive"),
        (lambda flow: flow.step("it", "x.y.v1").retry(retry=3), "tasks.it.retry: it is 3: it must be an object"),
        (lambda flow: flow.sleep("it", 1).timeout(1), "tasks.it.timeout: it belongs to"),
        (lambda flow: flow.http("it", "https://x").queue("q"), "tasks.it.queue: it belongs to `job` steps"),
        # set twice
        (lambda flow: flow.step("it", "x.y.v1").timeout(1).timeout(1), "tasks.it.timeout: it is already set"),
        (
            lambda flow: flow.step("it", "x.y.v1").only_if("always()").only_if("failure()"),
            "tasks.it.if: it is already set",
        ),
        # of another workflow
        (
            lambda flow: flow.step("it", "x.y.v1").after(AWAY),
            "tasks.it.needs: 'away' is a step of workflow 'other', not of this one",
        ),
        (lambda flow: flow.sleep("it", 1, needs=[AWAY]), "tasks.it.needs: 'away' is a step of workflow 'other'"),
        (
            lambda flow: flow.step("it", "x.y.v1", x=[AWAY["x"]]),
            "tasks.it.input: {{tasks.away.output.x}} belongs to workflow 'other', not to this one",
        ),
        (
            lambda flow: flow.step("it", "x.y.v1", x=OTHER.input),
            "tasks.it.input: {{input}} belongs to workflow 'other'",
        ),
        (
            lambda flow: flow.http("it", AWAY["url"]),
            "tasks.it.url: {{tasks.away.output.url}} belongs to workflow 'other'",
        ),
        (
            lambda flow: flow.step("it", "x.y.v1").foreach(AWAY),
            "tasks.it.foreach: {{tasks.away.output}} belongs to workflow",
        ),
        (lambda flow: flow.step("it", "x.y.v1").only_if(AWAY["x"]), "tasks.it.if: {{tasks.away.output.x}} belongs to"),
    ],
)
def test_an_invalid_step_is_reported_as_one_error(say: Callable[[WorkflowBuilder], Any], line: str) -> None:
    flow = WorkflowBuilder("etl")
    flow.step("a", "x.y.v1")
    flow.step("b", "x.y.v1")
    say(flow)
    (found,) = told(flow)
    assert found.startswith(line)


def test_the_error_names_the_dependency_cycle() -> None:
    flow = WorkflowBuilder("etl")
    a = flow.step("a", "x.y.v1")
    b = flow.step("b", "x.y.v1", x=a["x"])
    a.foreach(b["files"])
    assert told(flow) == ["tasks.a.needs: dependency cycle: a -> b -> a"]


def test_reading_the_output_of_the_final_step_is_refused() -> None:
    flow = WorkflowBuilder("etl")
    flow.step("it", "x.y.v1", x=flow.step("last", "x.y.v1").final()["x"])
    assert "tasks.it.needs: 'last' is the final step: no step can run after it" in told(flow)


def test_an_error_of_the_app_is_reported_with_the_others() -> None:
    def register(type_: str, _: Callable[..., Any]) -> Served:
        raise Invalid(f"{type_} already has a handler", field="type")

    flow = WorkflowBuilder("etl", register=register)
    flow.step("a", work)
    flow.sleep("b", "soon")
    assert told(flow) == [
        "tasks.a.job: etl.a already has a handler",
        "tasks.b.sleep: it is 'soon': it must be a number with a unit (ms, s, m, h, d), "
        "for example 500ms, 30s, 5m, 1h30m or 2d",
    ]


def test_the_function_of_a_step_with_a_duplicate_name_is_not_registered() -> None:
    asked = []

    def register(type_: str, _: Callable[..., Any]) -> Served:
        asked.append(type_)
        return Served(type_)

    flow = WorkflowBuilder("etl", register=register)
    flow.step("a", work)
    flow.step("a", work)
    assert told(flow) == ["tasks[1].name: the name 'a' is used by another step"]
    assert asked == ["etl.a"]


def test_a_value_that_contains_itself_is_refused() -> None:
    flow = WorkflowBuilder("etl")
    loop: list[Any] = []
    loop.append(loop)
    flow.step("a", "x.y.v1", loop=loop)
    (found,) = told(flow)
    assert found.startswith("the workflow is not JSON")
