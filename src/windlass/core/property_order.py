"""Keeps the order of the properties of a JSON Schema in jsonb, which does not keep the order of keys.

A form shows its fields in the order of the definition. A stored schema with several properties therefore also has a
list of their names, which is removed when the schema is read.
"""

from collections.abc import Callable, Mapping
from typing import Any

ORDER = "x-windlass-order"
OF_SCHEMAS = ("properties", "$defs", "patternProperties", "dependentSchemas")  # keywords with a schema for each name
OF_VALUES = ("const", "default", "enum", "examples")  # keywords with values, which may look like schemas


def add(schema: Any) -> Any:
    """Return a schema with the order of its properties added, to be stored as jsonb."""
    if not isinstance(schema, Mapping):
        return list(map(add, schema)) if isinstance(schema, list) else schema
    properties = schema.get("properties")
    order = {ORDER: list(properties)} if isinstance(properties, Mapping) and len(properties) > 1 else {}
    return _within(schema, add) | order


def restore(schema: Any) -> Any:
    """Undo `add`. Properties that are not in the list, because plain SQL wrote them, come last."""
    if not isinstance(schema, Mapping):
        return list(map(restore, schema)) if isinstance(schema, list) else schema
    result = _within({key: value for key, value in schema.items() if key != ORDER}, restore)
    names, properties = schema.get(ORDER), result.get("properties")
    if isinstance(names, list) and isinstance(properties, dict):
        known = [name for name in names if isinstance(name, str) and name in properties]
        result["properties"] = {name: properties[name] for name in (*known, *properties)}
    return result


def of_forms(document: Any, change: Callable[[Any], Any]) -> Any:
    """Return a workflow document with `change` applied to the forms of its approvals."""
    if not isinstance(document, dict) or not isinstance(tasks := document.get("tasks"), list):
        return document
    return {**document, "tasks": [_of_form(task, change) for task in tasks]}


def _of_form(task: Any, change: Callable[[Any], Any]) -> Any:
    approval = task.get("approve") if isinstance(task, dict) else None
    if not isinstance(approval, dict) or "form" not in approval:
        return task
    return {**task, "approve": {**approval, "form": change(approval["form"])}}


def _within(schema: Mapping[str, Any], change: Callable[[Any], Any]) -> dict[str, Any]:
    """Return a schema with `change` applied to its inner schemas."""
    return {key: _changed(key, value, change) for key, value in schema.items()}


def _changed(key: str, value: Any, change: Callable[[Any], Any]) -> Any:
    if key in OF_VALUES:
        return value
    if key in OF_SCHEMAS and isinstance(value, Mapping):
        return {name: change(inner) for name, inner in value.items()}
    return change(value)
