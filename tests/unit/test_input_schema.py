"""The `input` of a workflow: a JSON Schema that is part of its version, and warnings about references to it."""

from typing import Any

import pytest

from windlass.core.definition.parser import parse
from windlass.core.definition.publish import advice, difference
from windlass.errors import InvalidWorkflow

ITEM = {"type": "object", "properties": {"sku": {"type": "string"}}, "additionalProperties": False}
ORDER = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "items": {"type": "array", "items": {"$ref": "#/$defs/Item"}},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    },
    "additionalProperties": False,
    "$defs": {"Item": ITEM},
}


def document(input_: Any = None, **tasks: Any) -> dict[str, Any]:
    return {"name": "w", "input": input_, "tasks": tasks or {"a": {"job": "a.b.v1"}}}


def warnings(reference: str, schema: Any = None) -> list[str]:
    return advice(parse(document(schema or ORDER, a={"job": "a.b.v1", "input": {"x": reference}})))


def test_the_schema_is_part_of_the_version() -> None:
    typed, plain = parse(document(ORDER)), parse(document())
    assert (typed.input, plain.input) == (ORDER, None)
    assert typed.fingerprint != plain.fingerprint
    assert parse(typed.to_document()) == typed
    assert "input" not in plain.to_document()
    assert '+  "input": {' in difference(plain.to_document(), typed.to_document())


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (["a"], "it is ['a']: it must be a JSON Schema such as"),
        ("Order", "it is 'Order': it must be a JSON Schema such as"),
        ({"description": "x" * 65_536}, "the limit is 65536"),
    ],
)
def test_a_value_that_is_not_a_schema_is_refused(schema: Any, message: str) -> None:
    with pytest.raises(InvalidWorkflow) as refused:
        parse(document(schema))
    [(path, why)] = refused.value.errors
    assert path == "input"
    assert message in why


@pytest.mark.parametrize("reference", ["{{input.ident}}", "{{trigger.body.ident}}", "{{input.items[0].name}}"])
def test_a_reference_to_a_field_that_the_schema_excludes_causes_a_warning(reference: str) -> None:
    [warning] = warnings(reference)
    assert warning == (
        f"tasks.a.input.x of w uses {reference.strip('{}')}, which its `input` does not allow: "
        "add it there, or correct the path"
    )


@pytest.mark.parametrize(
    "reference", ["{{input}}", "{{input.id}}", "{{input.items[0].sku}}", "{{input.items}}", "{{input.note.text}}"]
)
def test_a_reference_to_a_field_that_the_schema_allows_causes_no_warning(reference: str) -> None:
    assert warnings(reference) == []


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"id": {}}},
        {"properties": {"id": {}}, "additionalProperties": {"type": "string"}},
        {"properties": {}, "additionalProperties": False, "patternProperties": {"^o": {}}},
        {"$ref": "#/$defs/Loop", "$defs": {"Loop": {"$ref": "#/$defs/Loop"}}},
        {"$ref": "#/nowhere"},
    ],
)
def test_a_schema_that_is_not_closed_causes_no_warning(schema: Any) -> None:
    assert warnings("{{input.other}}", schema) == []


def test_the_source_of_a_fan_out_is_checked_against_the_schema() -> None:
    tasks = {"a": {"job": "a.b.v1", "foreach": "input.lines"}, "b": {"job": "a.b.v1", "parallel": "input.count"}}
    assert [warning.partition(" of ")[0] for warning in advice(parse(document(ORDER, **tasks)))] == [
        "tasks.a.foreach",
        "tasks.b.parallel",
    ]
