"""All errors in a document are reported at once, each with its path and how to fix it."""

from typing import Any

import pytest

from windlass.core.definition.parser import MAX_DOCUMENT, parse
from windlass.core.definition.publish import advice
from windlass.core.workflows.step import Parallel
from windlass.errors import Invalid, InvalidWorkflow

JOB = {"job": "a.b.v1"}
GOOD = {"name": "w", "tasks": {"a": JOB}}


def refused(document: Any) -> list[tuple[str, str]]:
    with pytest.raises(InvalidWorkflow) as refusal:
        parse(document)
    lines = str(refusal.value).split("\n  ")
    assert lines[-len(refusal.value.errors) :] == [
        f"{path}: {message}" if path else message for path, message in refusal.value.errors
    ]
    return refusal.value.errors


def told(**tasks: Any) -> list[str]:
    """Return the errors of a workflow with these steps, each with its path."""
    return [f"{path}: {message}" for path, message in refused({"name": "w", "tasks": tasks})]


def test_all_errors_are_reported_at_once() -> None:
    document = {
        "name": "../etc",
        "trigger": {"cron": "61 * * * *", "timezone": "Mars/Base"},
        "tasks": {
            "charge": {"url": "https://x", "timeout": "soon", "retries": -1, "needs": ["fetsh"]},
            "fetch": {"url": "https://x", "sleep": 1},
        },
    }
    assert [path for path, _ in refused(document)] == [
        "name",
        "tasks.charge.retries",
        "tasks.charge.timeout",
        "tasks.fetch",
        "trigger.timezone",
        "trigger.cron",
        "tasks.charge.needs",
    ]


def test_one_error_is_one_line_and_several_are_a_list() -> None:
    with pytest.raises(Invalid) as one:
        parse({**GOOD, "name": 1})
    assert str(one.value).startswith("name: 1 is not a valid workflow name")
    assert one.value.field == "name"
    with pytest.raises(Invalid) as two:
        parse({"name": 1, "tasks": {}})
    assert str(two.value).splitlines()[0] == "the workflow has 2 errors:"
    assert len(str(two.value).splitlines()) == 3


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (None, "the workflow is null: it must be an object"),
        ([GOOD], "it must be an object"),
        ("w", "the workflow is 'w': it must be an object"),
        ({**GOOD, "description": float("nan")}, "the workflow is not JSON"),
        ({**GOOD, "description": {1, 2}}, "the workflow is not JSON"),
        ({**GOOD, "description": "a\x00b"}, "NUL"),
        ({**GOOD, "description": "\ud800"}, "surrogate"),
        ({**GOOD, "description": "x" * MAX_DOCUMENT}, "the limit is 1000000"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_value_that_is_not_a_document_is_refused(document: Any, message: str) -> None:
    ((path, found),) = refused(document)
    assert path == ""
    assert message in found


def test_a_document_that_is_nested_too_deep_is_refused() -> None:
    body: Any = 1
    for _ in range(100):
        body = [body]
    assert "nested deeper" in refused({"name": "w", "tasks": {"a": {"url": "https://x", "body": body}}})[0][1]


@pytest.mark.parametrize(
    ("words", "path", "message"),
    [
        ({"name": None}, "name", "it is missing"),
        ({"name": ""}, "name", "not a valid workflow name"),
        ({"name": "a/b"}, "name", "not a valid workflow name"),
        ({"name": ".."}, "name", "not a valid workflow name"),
        ({"name": "-rf"}, "name", "not a valid workflow name"),
        ({"name": "a b"}, "name", "not a valid workflow name"),
        ({"name": "a\n"}, "name", "not a valid workflow name"),
        ({"name": "x" * 101}, "name", "not a valid workflow name: use up to 100"),
        ({"name": "0190b6a2-7f4e-7cc3-98a1-5d2f6c1b7a01"}, "name", "looks like an id"),
        ({"nmae": "w"}, "nmae", "unknown key 'nmae': did you mean 'name'?"),
        ({"wholly": 1}, "wholly", "unknown key 'wholly'"),
        ({5: 1}, "[5]", "unknown key 5"),
        ({"tasks": None}, "tasks", "it is empty"),
        ({"tasks": {}}, "tasks", "it is empty"),
        ({"tasks": []}, "tasks", "it is empty"),
        ({"tasks": 3}, "tasks", "it must be an object with a step for each name"),
        ({"description": 3}, "description", "it is 3: it must be a string"),
        ({"description": " "}, "description", "not empty"),
        ({"description": "x" * 10_001}, "description", "the limit is 10000"),
        ({"max_duration": 30}, "max_duration", "a number with a unit"),
        ({"max_duration": "30"}, "max_duration", "a number with a unit"),
        ({"max_duration": "0s"}, "max_duration", "positive"),
        ({"max_duration": "9999999d"}, "max_duration", "the longest is"),
        ({"max_duration_seconds": "30d"}, "max_duration_seconds", "a number of seconds"),
        ({"max_duration_seconds": 0}, "max_duration_seconds", "positive"),
        ({"max_duration_seconds": -1}, "max_duration_seconds", "at least 0"),
        ({"max_duration": "1d", "max_duration_seconds": 1}, "max_duration_seconds", "`max_duration` is given too"),
        ({"concurrency": 0}, "concurrency", "between 1 and"),
        ({"concurrency": True}, "concurrency", "an integer"),
        ({"labels": []}, "labels", "an object"),
        ({"labels": {"a": 1}}, "labels.a", "a string"),
        ({"labels": {"": "x"}}, "labels", "not a valid label name"),
        ({"labels": {"a": "\x07"}}, "labels.a", "cannot be printed"),
        ({"labels": {str(n): "x" for n in range(65)}}, "labels", "the limit is 64"),
        ({"trigger": "cron"}, "cron_expression", "it is missing"),
        ({"trigger": "timer"}, "trigger", "one of api, cron, webhook"),
        ({"trigger": 5}, "trigger", "one of api, cron, webhook"),
        ({"trigger": {}}, "trigger.cron", "it is missing"),
        ({"trigger": {"cron": "* *"}}, "trigger.cron", "expected"),
        ({"trigger": {"cron": 5}}, "trigger.cron", "a string"),
        ({"trigger": {"cron": "@daily", "zone": "UTC"}}, "trigger.zone", "unknown key 'zone'"),
        ({"trigger": {"cron": "@daily", "timezone": "Nowhere"}}, "trigger.timezone", "IANA"),
        ({"trigger": {"cron": "@daily", "overlap": "maybe"}}, "trigger.overlap", "allow, skip, replace, buffer"),
        ({"trigger": {"cron": "@daily", "catch_up": 1}}, "trigger.catch_up", "none, one, all"),
        ({"trigger": "cron", "cron_expression": "x"}, "cron_expression", "expected"),
        ({"trigger": "api", "cron_expression": "@daily"}, "cron_expression", "it requires `trigger: cron`"),
        ({"trigger": "webhook", "timezone": "UTC"}, "timezone", "it requires `trigger: cron`"),
    ],
    ids=str,
)
def test_an_invalid_workflow_option_is_refused_with_its_path(words: dict[Any, Any], path: str, message: str) -> None:
    ((where, found),) = refused({**GOOD, **words})
    assert where == path
    assert message in found


@pytest.mark.parametrize("name", ["a.b", "a b", "", "ü", "x" * 101, "a\n", "a/b", 5], ids=repr)
def test_invalid_step_names_are_refused(name: object) -> None:
    assert (
        "is not a valid step name: use up to 100 letters, digits, _ and -"
        in refused({"name": "w", "tasks": {name: JOB}})[0][1]
    )
    ((path, _),) = refused({"name": "w", "tasks": [{"name": name, **JOB}]})
    assert path == "tasks[0].name"


def test_steps_in_a_list_must_have_unique_names() -> None:
    tasks = [JOB, {"name": "a", **JOB}, {"name": "a", **JOB}, 7]
    assert [f"{path}: {message}" for path, message in refused({"name": "w", "tasks": tasks})] == [
        "tasks[0].name: null is not a valid step name: use up to 100 letters, digits, _ and -",
        "tasks[2].name: the name 'a' is used by another step",
        "tasks[3]: it is 7: it must be an object",
    ]


def test_the_error_names_the_dependency_cycle() -> None:
    circle = told(start=JOB, a={**JOB, "needs": ["c", "start"]}, b={**JOB, "needs": ["a"]}, c={**JOB, "needs": ["b"]})
    assert circle == ["tasks.a.needs: dependency cycle: a -> b -> c -> a"]


def test_every_dependency_cycle_is_reported() -> None:
    pairs = {"a": "b", "b": "a", "x": "y", "y": "x"}
    assert told(**{name: {**JOB, "needs": [other]} for name, other in pairs.items()}) == [
        "tasks.a.needs: dependency cycle: a -> b -> a",
        "tasks.x.needs: dependency cycle: x -> y -> x",
    ]


def test_the_error_of_a_long_dependency_cycle_is_shortened() -> None:
    (line,) = told(**{f"s{n}": {**JOB, "needs": [f"s{(n - 1) % 5000}"]} for n in range(5000)})
    assert line.startswith("tasks.s0.needs: dependency cycle: s0 -> s1 -> ")
    assert line.endswith(" -> s4999 -> s0")
    assert len(line) < 300


def test_a_workflow_has_at_most_one_final_step_and_no_step_after_it() -> None:
    assert told(a={**JOB, "final": True}, b={**JOB, "final": True}, c={**JOB, "needs": ["a"]}) == [
        "tasks.b.final: 'a' is already the final step: a workflow has at most one",
        "tasks.c.needs: 'a' is the final step: no step can run after it",
    ]


def test_an_ambiguous_fan_out_over_a_step_named_input_is_refused() -> None:
    assert told(input=JOB, it={**JOB, "needs": ["input"], "foreach": "input.files"}) == [
        "tasks.it.foreach: 'input' is the run's input and also a step: give the step another name"
    ]


def test_an_invalid_step_can_still_be_referenced_by_other_steps() -> None:
    assert told(a=5, b={"sleep": "x"}, c={**JOB, "needs": ["a", "b"], "foreach": "a.files"})[-1].startswith(
        "tasks.b.sleep"
    )


def test_too_many_steps_and_too_many_edges_are_refused() -> None:
    assert told(**{f"s{n}": JOB for n in range(5001)}) == ["tasks: there are 5001 steps, the limit is 5000"]
    assert told(a=JOB, b={**JOB, "needs": ["a"] * 5001}) == ["tasks.b.needs: there are 5001 of them, the limit is 5000"]


def test_the_number_of_suggestions_for_unknown_names_is_limited() -> None:
    many = told(**{f"s{n}": {**JOB, "needs": [f"q{k}" for k in range(50)]} for n in range(1000)})
    assert len(many) == 50_000
    assert sum("did you mean" in line for line in many) <= 20


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ({"foreach": "tasks.a.body.files"}, "the path of a fan-out begins with the step: write a.files"),
        ({"foreach": "tasks.a"}, "the path of a fan-out begins with the step: write a"),
        ({"foreach": ["x", "y"]}, "it is a list: give the path to one, for example input.files or discover.files"),
    ],
)
def test_the_error_of_an_invalid_fan_out_path_suggests_a_valid_one(step: dict[str, Any], message: str) -> None:
    tasks = {"a": {"job": "a.b.v1"}, "b": {"job": "a.b.v1", "needs": ["a"], **step}}
    with pytest.raises(InvalidWorkflow) as refused:
        parse({"name": "w", "tasks": tasks})
    assert refused.value.errors == [("tasks.b.foreach", message)]


def test_parallel_may_be_a_number_in_a_string() -> None:
    assert parse({"name": "w", "tasks": {"a": {"job": "a.b.v1", "parallel": "4"}}}).steps[0].fan_out == Parallel(4)


@pytest.mark.parametrize("wait", [{"wait_for_webhook": {}}, {"wait_for_event": {"name": "paid"}}])
def test_a_suspiciously_short_wait_causes_a_warning(wait: dict[str, dict[str, Any]]) -> None:
    def told(timeout: Any) -> list[str]:
        [(kind, fields)] = wait.items()
        return advice(parse({"name": "w", "tasks": {"a": {kind: {**fields, "timeout": timeout}}}}))

    assert told("1h") == []
    assert told(3600) == [
        "step a of w waits only 3s600ms: a number without a unit is milliseconds,"
        " write for example 1h if you meant more"
    ]


def test_a_reference_to_headers_without_a_webhook_trigger_causes_a_warning() -> None:
    def warnings(trigger: Any) -> list[str]:
        tasks = {"a": {"url": "http://x.test/", "body": {"kind": "{{trigger.headers.content-type}}"}}}
        return advice(parse({"name": "w", "trigger": trigger, "tasks": tasks}))

    assert warnings("webhook") == []
    assert warnings("api") == [
        "tasks.a.body.kind of w uses trigger.headers.content-type: only runs that a webhook or an event starts"
        " have headers, the others fail"
    ]


def test_enabled_is_not_part_of_a_definition_and_the_error_names_the_command() -> None:
    with pytest.raises(InvalidWorkflow) as refused:
        parse({"name": "w", "enabled": True, "tasks": {"a": {"job": "a.b.v1"}}})
    assert refused.value.errors == [
        ("enabled", "it is not part of the definition: use `windlass workflows enable` or `disable`")
    ]
