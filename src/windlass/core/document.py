"""JSON that Postgres can hold: payloads, results, meta. One place for the limits and the sentences that name them."""

import json
import re
from collections.abc import Iterable
from typing import Any

from windlass.errors import Invalid

MAX_DEPTH = 64
PAYLOAD_LIMIT = 1_048_576
RESULT_LIMIT = 16 * 1_048_576

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), check_circular=True).encode
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def encode(value: object, *, field: str, limit: int = PAYLOAD_LIMIT) -> str:
    """The text of a JSON value, or an `Invalid` that names `field` and what is wrong with it."""
    if value is None:
        return "null"
    if isinstance(value, dict) and not value:
        return "{}"
    text = _text(value, field)
    _check_characters(text, field)
    if len(text) * 4 > limit and (size := len(text.encode())) > limit:
        raise Invalid(
            f"{field} is {size} bytes, the limit is {limit}: store the data elsewhere and pass a reference", field=field
        )
    if text.count("[") + text.count("{") > MAX_DEPTH and depth(value) > MAX_DEPTH:
        raise Invalid(f"{field} is nested deeper than {MAX_DEPTH} levels", field=field)
    return text


def decode(text: str | None) -> Any:
    if text is None:
        return None
    return {} if text == "{}" else json.loads(text)


def parse(text: str, *, field: str) -> Any:
    """Read JSON that a person typed."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"{field} is not JSON: {error}", field=field) from None


def depth(value: object) -> int:
    """Levels of nesting, found without recursion: a hostile value must not exhaust the stack."""
    deepest, level = 0, _containers([value])
    while level:
        level = _containers(child for item in level for child in (item.values() if isinstance(item, dict) else item))
        deepest += 1
    return deepest


def plain(text: str) -> str:
    """Text as Postgres can store it: no NUL, no lone surrogate."""
    if "\x00" in text:
        text = text.replace("\x00", "\\x00")
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _text(value: object, field: str) -> str:
    try:
        return _encode(value)
    except RecursionError:
        raise Invalid(f"{field} is nested deeper than {MAX_DEPTH} levels", field=field) from None
    except (TypeError, ValueError) as error:
        raise Invalid(f"{field} is not JSON: {error}", field=field) from None


def _check_characters(text: str, field: str) -> None:
    if "\\u0000" in text and _NUL.search(text):
        raise Invalid(f"{field} contains a NUL character, which Postgres cannot store", field=field)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise Invalid(f"{field} contains half of a surrogate pair, which is not text", field=field) from None


def _containers(items: Iterable[object]) -> list[Any]:
    return [item for item in items if isinstance(item, dict | list | tuple)]


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")
