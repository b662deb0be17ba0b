"""Templates are strict and typed, evaluated once, and refused when they are defined if they cannot have a value."""

import re
from typing import Any

import pytest

from windlass.core.expressions.scope import Facts, JsonText, TaskFacts, source_path
from windlass.core.templates import template as template_template
from windlass.core.templates.template import value_at
from windlass.errors import Invalid, InvalidExpression, TemplateError

FACTS = Facts(
    trigger_body=JsonText(
        '{"order_id": 123, "email": "a@x", "none": null, "tags": ["a", {"b": 1.5}], "sly": "{{run.id}}"}'
    ),
    trigger_headers={"x-kind": "test"},
    tasks={
        "charge": TaskFacts(status="success", status_code=200, body={"amount": 5, "ok": True}, headers={"etag": "e"}),
        "large": TaskFacts(status="success", status_code=200, body='{"amount": 5, "items', truncated=True),
        "page": TaskFacts(status="success", status_code=200, body=JsonText("<html>")),
        "idle": TaskFacts(status="skipped"),
        "broken": TaskFacts(status="failed", status_code=500, error={"message": "no"}, attempt=3),
    },
    waits={"paid": "https://w.example/wh/t"},
    item={"file": "f.csv"},
    index=0,
    run_id="r1",
    run_attempt=2,
)


def filled(value: Any, facts: Facts = FACTS) -> Any:
    return template_template.compile(value).resolve(facts)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{{trigger.body.order_id}}", 123),
        ("{{ input.order_id }}", 123),
        ("{{trigger.body.none}}", None),
        ("{{trigger.body.tags}}", ["a", {"b": 1.5}]),
        ("{{trigger.body.tags[1].b}}", 1.5),
        ("{{trigger.body.tags.0}}", "a"),
        ("{{trigger.headers.X-Kind}}", "test"),
        ("{{tasks.charge.status_code}}", 200),
        ("{{tasks.charge.body}}", {"amount": 5, "ok": True}),
        ("{{tasks.charge.output.ok}}", True),
        ("{{tasks.charge.headers.ETag}}", "e"),
        ("{{tasks.charge.status}}", "success"),
        ("{{tasks['charge'].body['amount']}}", 5),
        ("{{tasks.page.body}}", "<html>"),
        ("{{tasks.broken.error.message}}", "no"),
        ("{{tasks.broken.attempt}}", 3),
        ("{{wait.paid.url}}", "https://w.example/wh/t"),
        ("{{item}}", {"file": "f.csv"}),
        ("{{item.file}}", "f.csv"),
        ("{{index}}", 0),
        ("{{run.id}}", "r1"),
        ("{{run.attempt}}", 2),
    ],
)
def test_a_single_template_keeps_the_type_of_its_value(template: str, expected: Any) -> None:
    found = filled(template)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("Bearer {{trigger.body.email}}", "Bearer a@x"),
        (" {{trigger.body.order_id}}", " 123"),
        ("{{index}}{{trigger.body.none}}{{tasks.charge.body.ok}}", "0nulltrue"),
        ("tags={{trigger.body.tags}};", 'tags=["a",{"b":1.5}];'),
        ('{"a":{{tasks.charge.body}}}', '{"a":{"amount":5,"ok":true}}'),
        ("no template: } }} { {x}", "no template: } }} { {x}"),
        ("{{ '{{' }}name}} {{'it\\'s'}}", "{{name}} it's"),
    ],
)
def test_in_a_longer_string_values_are_inserted_as_text(template: str, expected: str) -> None:
    assert filled(template) == expected


def test_strings_at_any_depth_are_templates_but_keys_are_not() -> None:
    value = {"{{run.id}}": ["{{run.id}}", {"a": {"b": "{{index}}"}}, 1, None], "plain": "x"}
    assert filled(value) == {"{{run.id}}": ["r1", {"a": {"b": 0}}, 1, None], "plain": "x"}


def test_an_inserted_value_is_not_evaluated_as_a_template() -> None:
    assert filled("{{trigger.body.sly}}") == "{{run.id}}"
    assert filled("a {{trigger.body.sly}}") == "a {{run.id}}"


def test_a_template_lists_its_references() -> None:
    made = template_template.compile(
        {"a": "{{tasks.a.body.x}} {{tasks.b.status}}", "b": ["{{tasks.a.body.x}}", "{{wait.w.url}}"]}
    )
    assert [path.text for path in made.references] == ["tasks.a.body.x", "tasks.b.status", "wait.w.url"]


@pytest.mark.parametrize("value", [None, 5, "x", {}, {"a": [1, {"b": "}}"}]}, "{{'x'}}", ["{{ '{{' }}"]])
def test_a_template_without_references_is_constant(value: Any) -> None:
    made = template_template.compile(value)
    assert not made.references
    assert made.resolve(Facts()) is made.resolve(FACTS)


def test_a_constant_does_not_change_with_the_value_it_was_compiled_from() -> None:
    value = {"a": [1]}
    made = template_template.compile(value)
    value["a"].append(2)
    assert made.resolve(FACTS) == {"a": [1]}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("charge.amount", 5),
        ("charge", {"amount": 5, "ok": True}),
        ("input.tags", ["a", {"b": 1.5}]),
        ("trigger.body.tags.1.b", 1.5),
        ("trigger.tags.0", "a"),
        ("trigger.headers.x-kind", "test"),
    ],
)
def test_the_path_of_a_fan_out_begins_with_a_step_or_with_the_input(source: str, expected: Any) -> None:
    assert value_at(FACTS, source_path(source)) == expected


def test_a_fan_out_over_a_missing_value_raises_the_same_error_as_a_template() -> None:
    with pytest.raises(TemplateError, match=r"Failed to resolve \{\{charge.files\}\}"):
        value_at(FACTS, source_path("charge.files"))
    with pytest.raises(TemplateError, match=r"Cannot read 'body.files' because the response from 'large' exceeded"):
        value_at(FACTS, source_path("large.files"))


# Seed 001: the two error messages, verbatim


@pytest.mark.parametrize(
    "path",
    [
        "tasks.charge.body.order_id",
        "tasks.charge.body.missing_field",
        "tasks.charge.body.amount.deeper",
        "tasks.page.body.field",  # not JSON: it has no fields
        "tasks.idle.body",
        "tasks.idle.status_code",
        "tasks.idle.headers.etag",
        "tasks.nobody.status",
        "trigger.body.tags[2]",
        "trigger.body.orderId",
        "trigger.headers.x-other",
        "wait.other.url",
    ],
)
@pytest.mark.parametrize("around", ["", "a "])
def test_the_error_names_the_path_without_a_value(path: str, around: str) -> None:
    with pytest.raises(TemplateError) as refused:
        filled({"a": [around + "{{ " + path + " }}"]})
    assert str(refused.value) == "Failed to resolve {{" + path + "}}"
    assert refused.value.path == path


@pytest.mark.parametrize("path", ["item", "index", "run.id"])
def test_the_error_names_a_path_that_the_step_does_not_have(path: str) -> None:
    with pytest.raises(TemplateError, match=re.escape("Failed to resolve {{" + path + "}}")):
        filled("{{" + path + "}}", Facts())


@pytest.mark.parametrize("inside", ["body.amount", "body.items[0].id", "body", "output.x", "body['odd key'].x"])
def test_a_truncated_response_is_reported_as_the_cause(inside: str) -> None:
    with pytest.raises(TemplateError) as refused:
        filled("{{tasks.large." + inside + "}}")
    text = f"Cannot read '{inside}' because the response from 'large' exceeded the 256KB limit and was truncated"
    assert str(refused.value) == text


def test_a_truncated_response_still_has_its_status() -> None:
    assert filled("{{tasks.large.status_code}}") == 200


# At definition time


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{{", "column 1: the template is not closed: }} is missing"),
        ("abc {{ run.id", "column 5: the template is not closed: }} is missing"),
        ("abc {{ run.id }", "column 5: the template is not closed"),
        ("{{'a}}", "column 3: a path is missing here"),
        ("{{}}", "column 1: the template is empty: write a path between {{ and }}"),
        ("a{{  }}", "column 2: the template is empty"),
        ("{{run.id == 1}}", "column 10: a template must contain one path and nothing else"),
        ("{{run.id}} {{len(input)}}", "column 14: unknown name 'len'"),
        ("{{name}}", "column 3: unknown name 'name'"),
        ("{{5}}", "column 3: a path is missing here"),
        ("{{{run.id}}}", "column 3: a path is missing here"),
        ("{{tasks.a.bdy}}", "column 11: unknown field of `tasks` 'bdy': did you mean 'body'?"),
        ("{{tasks.a.body.}}", "column 15: a name must follow the dot"),
    ],
)
def test_a_malformed_template_is_refused_when_it_is_compiled(template: str, message: str) -> None:
    with pytest.raises(InvalidExpression, match=re.escape(message)):
        template_template.compile({"a": [template]})


def test_a_value_that_is_too_deep_is_refused() -> None:
    value: Any = "{{run.id}}"
    for _ in range(70):
        value = [value]
    with pytest.raises(Invalid, match="nested deeper than 64 levels"):
        template_template.compile(value)


# Bounds


def test_many_references_to_a_large_value_are_refused_before_they_exhaust_memory() -> None:
    facts = Facts(trigger_body={"text": "x" * 1_000_000, "list": [0] * 1_000_000})
    with pytest.raises(TemplateError, match="the text would be longer than"):
        filled("{{input.text}}" * 1000, facts)
    with pytest.raises(TemplateError, match="the resolved templates have more than"):
        filled(["{{input.list}}"] * 1000, facts)
    assert len(filled(["{{input.text}}"] * 10, facts)) == 10


@pytest.mark.parametrize("value", [float("nan"), 10**5000, object()], ids=["nan", "huge", "object"])
def test_a_value_that_is_not_json_cannot_be_inserted_into_a_string(value: Any) -> None:
    with pytest.raises(TemplateError, match="it is not JSON"):
        filled("a {{input}}", Facts(trigger_body=value))
