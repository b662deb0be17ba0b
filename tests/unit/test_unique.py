"""Fingerprints: equal for equal values, and only for those."""

from typing import Any

import pytest

from windlass.core.jobs.spec import only_keys, unique_key


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"args": [1, {"a": 1, "b": 2}]}, {"args": [1, {"b": 2, "a": 1}]}, True),
        ({"args": ["\u00e9"]}, {"args": ["e\u0301"]}, True),
        ({"args": [1.0]}, {"args": [1]}, True),
        ({"args": [True]}, {"args": [1]}, False),
        ({"args": ["1"]}, {"args": [1]}, False),
        ({"args": [[1], 2]}, {"args": [1, [2]]}, False),
        ({"args": [None]}, {"args": []}, False),
        ({"type": "ab", "queue": "c"}, {"type": "a", "queue": "bc"}, False),
    ],
    ids=["order", "NFC", "number", "truth", "text", "nesting", "null", "border"],
)
def test_a_fingerprint_depends_on_values_and_not_on_their_spelling(
    one: dict[str, Any], other: dict[str, Any], same: bool
) -> None:
    assert (unique_key(one) == unique_key(other)) is same


def test_only_keys_selects_keys_from_an_object_or_from_the_objects_in_a_list() -> None:
    assert only_keys({"id": 1, "at": 2}, ["id", "gone"]) == {"id": 1}
    assert only_keys([{"id": 1, "at": 2}, 3, {"id": 4}], ["id"]) == [{"id": 1}, {"id": 4}]
    assert only_keys("text", ["id"]) == "text"
