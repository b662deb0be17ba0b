"""JSON that Postgres can store, and the error messages for all other values."""

import json
import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.json_value import MAX_DEPTH, decode, depth, encode, parse, plain
from windlass.errors import Invalid

text = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]))
documents = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | text,
    lambda children: st.lists(children, max_size=4) | st.dictionaries(text, children, max_size=4),
    max_leaves=30,
)


def refused(value: object, limit: int = 1_048_576) -> str:
    with pytest.raises(Invalid) as refusal:
        encode(value, field="payload", limit=limit)
    assert refusal.value.field == "payload"
    assert "payload" in str(refusal.value)
    return str(refusal.value)


@given(documents)
def test_json_round_trips(document: Any) -> None:
    assert decode(encode(document, field="payload")) == document


@given(documents)
def test_encoded_json_is_accepted_by_parse(document: Any) -> None:
    assert parse(encode(document, field="payload"), field="payload") == document


def test_none_is_encoded_as_null_and_decoded_as_none() -> None:
    assert decode(None) is None
    assert encode(None, field="payload") == "null"
    assert encode({}, field="payload") == "{}"


@pytest.mark.parametrize("value", ["\x00", "a\x00b", ["\x00"], {"key": "\x00"}, {"\x00": 1}, "\\\x00", "\\\\\x00"])
def test_a_nul_character_is_refused_anywhere_in_a_value(value: object) -> None:
    assert "NUL" in refused(value)


@pytest.mark.parametrize("value", ["\\u0000", "\\\\u0000", "\\\\\\u0000", {"\\u0000": ["\\u0000"]}, "C:\\u0000\\u0000"])
def test_text_that_only_looks_like_an_escaped_nul_is_accepted(value: object) -> None:
    assert decode(encode(value, field="payload")) == value


@given(st.text(st.sampled_from("\\u0\x00"), max_size=14))
def test_a_nul_is_found_among_any_number_of_backslashes(value: str) -> None:
    if "\x00" in value:
        assert "NUL" in refused(value)
    else:
        assert decode(encode(value, field="payload")) == value


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("wrap", [lambda n: n, lambda n: [n], lambda n: {"n": {"n": n}}])
def test_numbers_that_json_does_not_have_are_refused(number: float, wrap: Callable[[float], object]) -> None:
    assert "not JSON" in refused(wrap(number))


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity", "[NaN]"])
def test_numbers_that_json_does_not_have_are_refused_in_json_text_too(constant: str) -> None:
    with pytest.raises(Invalid, match="payload is not JSON"):
        parse(constant, field="payload")


@pytest.mark.parametrize("typed", ["", "{", "{'a': 1}", "[1,]", "[" * 100_000])
def test_text_that_is_not_json_is_refused_with_the_name_of_its_field(typed: str) -> None:
    with pytest.raises(Invalid, match="payload is not JSON") as refusal:
        parse(typed, field="payload")
    assert refusal.value.field == "payload"


def nested(levels: int, *wraps: Callable[[object], object], inner: object = 1) -> object:
    value = inner
    for level in range(levels):
        value = wraps[level % len(wraps)](value)
    return value


def in_list(value: object) -> object:
    return [value]


def in_tuple(value: object) -> object:
    return (value,)


def in_dict(value: object) -> object:
    return {"k": value}


MIXES = [(in_list,), (in_dict,), (in_tuple,), (in_list, in_dict), (in_tuple, in_dict, in_list)]


@pytest.mark.parametrize("wraps", MIXES, ids=lambda wraps: "-".join(wrap.__name__ for wrap in wraps))
def test_sixty_four_levels_are_accepted(wraps: tuple[Callable[[object], object], ...]) -> None:
    value = nested(64, *wraps)
    assert MAX_DEPTH == depth(value) == 64
    assert encode(value, field="payload")


@pytest.mark.parametrize("wraps", MIXES, ids=lambda wraps: "-".join(wrap.__name__ for wrap in wraps))
@pytest.mark.parametrize("levels", [65, 100, 900, 100_000])
def test_the_sixty_fifth_level_is_refused_and_no_depth_crashes(
    wraps: tuple[Callable[[object], object], ...], levels: int
) -> None:
    assert "64 levels" in refused(nested(levels, *wraps))


@pytest.mark.parametrize("empty", [[], {}, ()], ids=repr)
def test_an_empty_container_is_a_level_too(empty: object) -> None:
    assert depth(empty) == 1
    assert encode(nested(63, in_list, inner=empty), field="payload")
    assert "64 levels" in refused(nested(64, in_list, inner=empty))


def test_brackets_inside_strings_are_not_levels() -> None:
    assert encode("[" * 1000 + "{" * 1000, field="payload")
    assert encode([[]] * 1000, field="payload")


def test_a_value_that_contains_itself_is_refused() -> None:
    ring: list[object] = []
    ring.append(ring)
    refused(ring)


@pytest.mark.parametrize("character", ["a", "é", "€", "😀"])
def test_the_size_limit_counts_bytes_exactly(character: str) -> None:
    width = len(character.encode())
    value = character * 300
    size = 300 * width + 2  # and the quotes
    assert encode(value, field="payload", limit=size)
    message = refused(value, limit=size - 1)
    assert str(size) in message
    assert str(size - 1) in message


def test_the_size_limit_of_a_payload_is_one_mebibyte() -> None:
    assert "1048576" in refused({"blob": "x" * 2_000_000})
    assert encode("x" * (1_048_576 - 2), field="payload")


@pytest.mark.parametrize("value", ["\ud800", "a\udfffb", ["\udc00"], {"\ud83d": 1}])
def test_an_unpaired_surrogate_is_refused(value: object) -> None:
    assert "surrogate" in refused(value)


class Secret:
    def __eq__(self, other: object) -> bool:
        raise TypeError("do not compare me")

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    "value",
    [
        object(),
        {1, 2},
        b"bytes",
        datetime(2030, 1, 1, tzinfo=UTC),
        UUID(int=0),
        1 + 2j,
        {"deep": [object()]},
        {(1, 2): 3},
        10**5000,
        Secret(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_that_json_cannot_represent_is_refused(value: object) -> None:
    assert "not JSON" in refused(value)


@given(st.text(st.characters(exclude_categories=[])))
def test_plain_makes_any_string_storable(value: str) -> None:
    stored = plain(value)
    assert "\x00" not in stored
    assert stored.encode("utf-8").decode() == stored
    assert plain(stored) == stored


@given(text)
def test_plain_does_not_change_storable_text(value: str) -> None:
    assert plain(value) == value


@given(documents)
def test_encoded_json_has_no_optional_whitespace_and_no_unicode_escapes(document: Any) -> None:
    expected = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    assert encode(document, field="payload") == expected
