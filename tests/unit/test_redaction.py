"""A masked string contains no form of the secret's value."""

import base64
import html
import json
import re
import shlex
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from yarl import URL

from windlass.core.redaction import SHORTEST, Redaction

MASK = re.compile(r"\[secret A\]")
VALUES = st.text(st.characters(exclude_categories=["Cs"]), min_size=SHORTEST, max_size=60)
AROUND = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
FORMS: dict[str, Callable[[str], str]] = {
    "itself": str,
    "JSON": lambda value: json.dumps(value)[1:-1],
    "JSON with its characters": lambda value: json.dumps(value, ensure_ascii=False)[1:-1],
    "JSON in JSON": lambda value: json.dumps(json.dumps(value))[3:-3],
    "JSON with escaped slashes": lambda value: json.dumps(value)[1:-1].replace("/", "\\/"),
    "JSON for HTML": lambda value: (
        json.dumps(value)[1:-1].replace("<", "\\u003c").replace("&", "\\u0026").replace(">", "\\u003e")
    ),
    "HTML": html.escape,
    "HTML without quotes": lambda value: html.escape(value, quote=False),
    "HTML in JSON": lambda value: json.dumps(html.escape(value))[1:-1],
    "a shell's word": lambda value: shlex.quote(value).strip("'"),
    "a traceback": lambda value: repr(value)[1:-1],
    "percent-encoded": lambda value: quote(value, safe=""),
    "percent-encoded but slashes": quote,
    "percent-encoded in lower case": lambda value: re.sub("%..", lambda m: m[0].lower(), quote(value, safe="")),
    "a form field": quote_plus,
    "the query that is sent": lambda value: URL("http://x/").extend_query([("q", value)]).raw_query_string[2:],
    "the path that is sent": lambda value: URL("http://x/" + quote(value, safe="")).raw_path[1:],
    "numbered entities": lambda value: "".join(f"&#{ord(c)};" if c in "<>&'\"" else c for c in value),
    "base64": lambda value: base64.b64encode(value.encode()).decode(),
    "base64 without padding": lambda value: base64.b64encode(value.encode()).decode().rstrip("="),
    "base64 for URLs": lambda value: base64.urlsafe_b64encode(value.encode()).decode(),
    "base64 in a URL": lambda value: quote(base64.b64encode(value.encode()).decode(), safe=""),
}


def rest(masked: str) -> list[str]:
    """Return the parts of a string between the masks."""
    return MASK.split(masked)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@example(value="\\\x1f00", before="", after="")  # an escape after a backslash
@example(value="ab\\<cd", before="", after="")
@example(value="\\\nabc", before="", after="")
@given(value=VALUES, before=AROUND, after=AROUND)
def test_every_encoding_of_a_value_is_masked(form: Callable[[str], str], value: str, before: str, after: str) -> None:
    assume(value.strip() == value)
    masked = Redaction({"A": value}).text(f"{before}{form(value)}{after}")
    assert all(form(value) not in piece and value not in piece for piece in rest(masked))
    assert "[secret A]" in masked


@given(value=VALUES, user=st.text(st.characters(codec="ascii"), max_size=9), after=st.text(max_size=9))
def test_a_value_inside_base64_is_masked(value: str, user: str, after: str) -> None:
    assume(len(value.strip().encode()) >= 12 and value == value.strip() and after.isascii())
    echoed = base64.b64encode(f"{user}:{value}{after}".encode()).decode()
    masked = Redaction({"A": value}).text(f"Basic {echoed}")
    assert "[secret A]" in masked
    assert len("".join(rest(masked))) <= len("Basic ") + len(echoed) - len(value.encode())


@given(value=VALUES, other=VALUES)
def test_values_that_contain_each_other_are_all_masked(value: str, other: str) -> None:
    assume(value.strip() == value and other.strip() == other)
    masked = Redaction({"A": value, "B": value + other}).text(f"{value}{other} {value}")
    assert all(value not in piece for piece in re.split(r"\[secret [AB]\]", masked))


@given(value=VALUES, data=st.data())
def test_a_truncated_value_is_masked(value: str, data: st.DataObject) -> None:
    assume(len(value.strip()) > SHORTEST and value == value.strip())
    length = data.draw(st.integers(SHORTEST, len(value) - 1))
    assert value[:length] not in rest(Redaction({"A": value}).text(f"> {value[:length]}"))[0]
    assert value[-length:] not in rest(Redaction({"A": value}).text(f"{value[-length:]} <"))[-1]


def test_each_line_of_a_value_is_masked_separately() -> None:
    key = "-----BEGIN KEY-----\nMIIEvQIBADANBg\nab\n-----END KEY-----\n"
    lines = [Redaction({"A": key}).text(line) for line in key.splitlines()]
    assert lines == ["[secret A]", "[secret A]", "ab", "[secret A]"]  # a line of two characters reveals nothing


def test_json_is_masked_in_strings_keys_and_numbers_and_keeps_its_shape() -> None:
    redaction = Redaction({"PIN": "48213", "TOKEN": "s3cr3t"})
    document = {"s3cr3t": [1, True, None, 48213, 5.5], "b": {"c": "x s3cr3t y"}, "n": 1482139}
    assert redaction.json(document) == {
        "[secret TOKEN]": [1, True, None, "[secret PIN]", 5.5],
        "b": {"c": "x [secret TOKEN] y"},
        "n": "1[secret PIN]9",
    }


def test_text_without_a_value_is_not_changed() -> None:
    text = json.dumps({"a": "the secret is elsewhere"})
    assert Redaction({"A": "s3cr3t"}).text(text) == text
    assert Redaction({}).text(text) == text


def test_a_mask_is_not_masked_again() -> None:
    assert Redaction({"A": "s3cr3t", "B": "secret"}).text("s3cr3t secret") == "[secret A] [secret B]"
