"""Reads the JSON Schemas of a definition: of the input of its runs, and of the forms of its approvals.

Their keywords are checked when the workflow is published, in another process with a deadline (`schema_validator`).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from windlass.core.definition.fields import Fields
from windlass.core.definition.shape import paths_of
from windlass.core.expressions.scope import Part, Path, source_path
from windlass.core.json_value import encode
from windlass.core.workflows.step import Foreach, Parallel, Step
from windlass.core.workflows.workflow import Workflow
from windlass.errors import Invalid

MAX_SCHEMA = 65_536  # bytes
MAX_REFERENCES = 32  # `$ref`s followed in a row
BRANCHES = ("allOf", "anyOf", "oneOf", "if", "then", "else", "$dynamicRef", "dependentSchemas", "patternProperties")


def read_schema(fields: Fields, key: str, example: str) -> Mapping[str, Any] | None:
    """Return a JSON Schema; None if there is none."""
    schema = fields.values.get(key)
    if schema is None:
        return None
    if not isinstance(schema, Mapping):
        fields.unreadable(key, f"a JSON Schema such as {example}")
        return None
    try:
        encode(schema, field="it", limit=MAX_SCHEMA)
    except Invalid as error:
        fields.mistakes.add_invalid(fields.at(key), error)
    return schema


def describe(schema: Mapping[str, Any]) -> str:
    """Return the properties of a schema in one line: order_id: integer, note: string (optional)."""
    properties, required = schema.get("properties"), schema.get("required", ())
    if not isinstance(properties, Mapping) or not properties:
        return _type(schema)
    return ", ".join(
        f"{name}: {_type(member)}{'' if name in required else ' (optional)'}" for name, member in properties.items()
    )


def _type(schema: Any) -> str:
    kind = schema.get("type", "any") if isinstance(schema, Mapping) else "any"
    return " or ".join(map(str, kind)) if isinstance(kind, list) else str(kind)


def unknown_references(workflow: Workflow) -> Iterator[tuple[str, str]]:
    """Yield the references to values that no valid input has: the position in the document, and the path.

    Only schemas that exclude additional properties rule a value out; others allow properties that they do not mention.
    """
    if workflow.input is None:
        return
    for step in workflow.steps:
        for place, path in (*paths_of(step), *_source(step)):
            if path.root == "trigger" and path.field == "body" and not _is_known(workflow.input, path.rest):
                yield place, path.text


def _source(step: Step) -> Iterator[tuple[str, Path]]:
    match step.fan_out:
        case Foreach(path):
            yield f"tasks.{step.name}.foreach", source_path(path)
        case Parallel(str(path)):
            yield f"tasks.{step.name}.parallel", source_path(path)
        case _:
            return


def _is_known(root: Mapping[str, Any], path: Sequence[Part]) -> bool:
    """Return whether an input that is valid against the schema may have a value at this path."""
    schema: Any = root
    for part in path:
        schema = _resolved(root, schema)
        if not isinstance(schema, Mapping) or any(word in schema for word in BRANCHES):
            return True
        if isinstance(part, int):
            schema = schema.get("items")
            continue
        properties = schema.get("properties", {})
        if not isinstance(properties, Mapping) or part not in properties:
            return schema.get("additionalProperties") is not False
        schema = properties[part]
    return True


def _resolved(root: Mapping[str, Any], schema: Any) -> Any:
    """Return the schema, with `$ref`s followed within the document; None if one cannot be resolved."""
    for _ in range(MAX_REFERENCES):
        if not isinstance(schema, Mapping) or "$ref" not in schema:
            return schema
        name = str(schema["$ref"])
        schema = root
        for part in name.split("/")[1:]:
            schema = schema.get(part) if isinstance(schema, Mapping) else None
        if name.partition("/")[0] != "#":
            return None
    return None
