"""Matches payloads to the JSON Schemas of handlers.

The schema of a handler describes an object with its parameters, or the whole payload. An array as the payload (`args`
of the Open Job Spec) contains the parameters in order, or the whole payload as its only item.
"""

from collections.abc import Mapping, Sequence
from typing import Any

POSITIONAL = "x-positional"  # schema keyword: the parameters to which the items of an array are passed
MORE = "*"  # the last of these names if more items are allowed

Path = Sequence[str | int]


def is_object_schema(schema: Any) -> bool:
    """Return whether a JSON Schema describes objects, directly or by a reference to one of its definitions."""
    if isinstance(schema, Mapping) and isinstance(reference := schema.get("$ref"), str):
        definitions = schema.get("$defs")
        schema = definitions.get(reference.removeprefix("#/$defs/")) if isinstance(definitions, Mapping) else None
    return isinstance(schema, Mapping) and schema.get("type") == "object"


def subject(schema: Mapping[str, Any], payload: Any) -> Any:
    """Return the value to validate against a schema; an array becomes the object that it stands for.

    Items beyond the parameters become properties that the schema does not have.
    """
    if not isinstance(payload, list):
        return payload
    if (names := _parameters(schema)) is not None:
        more = {} if MORE in schema[POSITIONAL] else {str(n): payload[n] for n in range(len(names), len(payload))}
        return dict(zip(names, payload, strict=False)) | more
    return payload[0] if len(payload) == 1 and is_object_schema(schema) else payload


def place(schema: Mapping[str, Any], payload: Any, path: Path) -> Path:
    """Return the path in the payload that corresponds to a path in its subject."""
    if not isinstance(payload, list):
        return path
    if (names := _parameters(schema)) is not None:
        return [names.index(str(path[0])), *path[1:]] if path and path[0] in names else path
    return [0, *path] if len(payload) == 1 and is_object_schema(schema) else path


def _parameters(schema: Mapping[str, Any]) -> list[str] | None:
    names = schema.get(POSITIONAL)
    return [name for name in names if name != MORE] if isinstance(names, list) else None
