"""The order of the properties of a schema survives jsonb, which sorts the keys of an object."""

import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from windlass.core import property_order

NAMES = st.sampled_from(["b", "a", "title", "type", "properties", "$defs", "enum", "items", "default", "long name"])
VALUES = st.recursive(
    st.none() | st.integers(0, 3) | st.sampled_from(["x", "y"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=20,
)
ORDERED = "properties"


def jsonb(value: Any) -> Any:
    """Return a value as jsonb stores it."""
    if isinstance(value, dict):
        return {key: jsonb(value[key]) for key in sorted(value, key=lambda key: (len(key), key))}
    return [jsonb(item) for item in value] if isinstance(value, list) else value


def orders(schema: Any) -> list[list[str]]:
    """Return the names of the properties of each object in a schema, in their order."""
    if isinstance(schema, list):
        return [names for item in schema for names in orders(item)]
    if not isinstance(schema, dict):
        return []
    own = schema.get(ORDERED)
    found = [list(own)] if isinstance(own, dict) else []
    for key in sorted(schema.keys() - property_order.OF_VALUES):
        inner = schema[key]
        if key in property_order.OF_SCHEMAS and isinstance(inner, dict):
            inner = [inner[name] for name in sorted(inner)]
        found += orders(inner)
    return found


@example([{"properties": {"b": 1, "a": 1}}])
@example({"items": [[{"properties": {"b": 1, "a": 1}}]]})
@given(VALUES)
def test_a_schema_is_restored_with_the_order_of_its_properties(schema: Any) -> None:
    before = json.dumps(schema)
    restored = property_order.restore(jsonb(property_order.add(schema)))
    assert restored == schema
    assert orders(restored) == orders(schema)
    assert json.dumps(schema) == before  # it was not changed


def test_an_invalid_order_list_changes_no_property() -> None:
    for names in (None, 7, [], ["gone", 7, None, "b"], {"a": 1}):
        schema = {"properties": {"a": True, "b": True}, property_order.ORDER: names}
        assert property_order.restore(schema) == {"properties": {"a": True, "b": True}}
    strange = {"properties": {"a": True, "b": True}, property_order.ORDER: ["b", "b"]}
    assert list(property_order.restore(strange)["properties"]) == ["b", "a"]


def test_a_document_without_forms_is_not_changed() -> None:
    tasks = [1, {}, {"approve": 1}, {"approve": {"message": "?"}}]
    documents: list[Any] = [None, [], {"tasks": {}}, {"tasks": tasks}]
    for document in documents:
        assert property_order.of_forms(document, property_order.add) == document
