"""JSON values that Postgres can store (payloads, results, meta): encoding, decoding, limits, errors, and masking.

Headers with secret values are recognized by name: they are masked in output and not stored from inbound requests.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

from windlass.errors import Invalid

MAX_DEPTH = 64
PAYLOAD_LIMIT = 1_048_576
RESULT_LIMIT = 16 * 1_048_576
HIDDEN = "***"  # replaces a secret value in output

LONG_NUMBER = 309  # digits: a number this long does not fit into a float
WITHOUT_EXPONENT = 1e16  # from here on Python writes floats with an exponent, and jsonb writes them as integers

_LONG_NUMBER = re.compile(rf"\d{{{LONG_NUMBER}}}")
_UNSTORABLE = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")  # escapes of NUL and of surrogates, including valid pairs
_secret = re.compile(r"authorization|cookie|token|secret|key|signature|password", re.IGNORECASE).search
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def encode(value: object, *, field: str, limit: int = PAYLOAD_LIMIT, objects: bool = False) -> str:
    """Return a value as a JSON string; raise `Invalid` with `field` if it cannot be stored.

    With `objects` the value may contain dates, times, UUIDs, decimals, enumerations, dataclasses and pydantic models.
    """
    if value is None:
        return "null"
    if isinstance(value, dict) and not value:
        return "{}"
    text = _text(value, field, _encode_objects if objects else _encode)
    _check_characters(text, field)
    if exceeds(text, limit):
        size = len(text.encode())
        raise Invalid(
            f"{field} is {size} bytes, the limit is {limit}: store the data elsewhere and pass a reference", field=field
        )
    if text.count("[") + text.count("{") > MAX_DEPTH and depth(json.loads(text) if objects else value) > MAX_DEPTH:
        raise Invalid(f"{field} is nested deeper than {MAX_DEPTH} levels", field=field)
    return text


def exceeds(text: str, limit: int) -> bool:
    """Return whether a string has more than `limit` bytes in UTF-8. Short strings, the common case, are not encoded."""
    return len(text) * 4 > limit and len(text.encode()) > limit


def decode(text: str | None) -> Any:
    """Return the value of stored JSON.

    Plain SQL may store what Python cannot represent: such a number, or a document nested too deeply, is returned as a
    string. Decoding never fails: one bad row must not break a list of rows.
    """
    if text is None:
        return None
    if text == "{}":
        return {}
    try:
        if len(text) < LONG_NUMBER or not _LONG_NUMBER.search(text):
            return json.loads(text)
        return json.loads(text, parse_int=_integer, parse_float=_real)
    except (ValueError, RecursionError):
        return text


def as_stored(value: Any) -> Any:
    """Return an encodable value as jsonb would return it: jsonb keeps the value of a number, not its notation.

    Definitions are normalized this way before they are published, so that a loaded one has the stored fingerprint.
    """
    return json.loads(json.dumps(value), parse_float=_stored_number)


def decode_object(text: str | None) -> dict[str, Any] | None:
    """Return a stored object, or None if plain SQL stored another kind of value."""
    value = decode(text)
    return value if isinstance(value, dict) else None


def decode_objects(text: str | None) -> list[dict[str, Any]]:
    """Return a stored list of objects; items that are not objects are left out."""
    value = decode(text)
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def parse(text: str, *, field: str) -> Any:
    """Return the value of JSON from user input; raise `Invalid` if it is malformed."""
    try:
        return json.loads(text, parse_constant=refuse_constant)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"{field} is not JSON: {error}", field=field) from None


def depth(value: object) -> int:
    """Return the nesting depth, computed without recursion: a hostile value must not exhaust the stack."""
    deepest, level = 0, _containers([value])
    while level:
        level = _containers(child for item in level for child in (item.values() if isinstance(item, dict) else item))
        deepest += 1
    return deepest


def plain(text: str) -> str:
    """Return a string in a form that Postgres can store: without NUL and lone surrogates."""
    if "\x00" in text:
        text = text.replace("\x00", "\\x00")
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def cleaned(value: Any) -> Any:
    """Return an untrusted JSON value with all its strings in a form that Postgres can store."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, dict):
        return {plain(key): cleaned(item) for key, item in value.items()}
    return [cleaned(item) for item in value] if isinstance(value, list) else value


def needs_cleaning(text: str) -> bool:
    """Return whether this JSON may contain strings that Postgres cannot store."""
    return "\\u" in text and _UNSTORABLE.search(text) is not None


def refuse_constant(name: str) -> None:
    """Refuse NaN and Infinity, which Python's parser accepts."""
    raise ValueError(f"{name} is not a JSON number")


def is_secret(name: str) -> bool:
    """Return whether a header with this name has a secret value."""
    return _secret(name) is not None


def masked(document: Any) -> Any:
    """Return a request or response for display, with the secret values of its `headers` masked."""
    headers = document.get("headers") if isinstance(document, Mapping) else None
    if not isinstance(headers, Mapping) or not any(map(is_secret, headers)):
        return document
    visible = {name: HIDDEN if is_secret(name) else value for name, value in headers.items()}
    return {**document, "headers": visible}


def _plain_object(value: object) -> Any:
    """Return a Python object in the JSON form that typed handlers accept."""
    match value:
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            seconds = f"{abs(value).total_seconds():.6f}".rstrip("0").rstrip(".")
            return f"{'-' * (value < timedelta())}PT{seconds}S"
        case UUID() | Decimal():
            return str(value)
        case Enum():
            return value.value
        case _:
            return _fields_of(value)


def _fields_of(value: object) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if not isinstance(value, type) and callable(dump := getattr(value, "model_dump", None)):  # of pydantic
        return dump(mode="json")
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


_options: dict[str, Any] = {"ensure_ascii": False, "allow_nan": False, "separators": (",", ":"), "check_circular": True}
_encode = json.JSONEncoder(**_options).encode
_encode_objects = json.JSONEncoder(**_options, default=_plain_object).encode


def _integer(digits: str) -> int | str:
    try:
        return int(digits)
    except ValueError:  # more digits than Python converts
        return digits


def _real(digits: str) -> float | str:
    number = float(digits)
    return number if number - number == 0 else digits


def _text(value: object, field: str, encoder: Callable[[object], str]) -> str:
    try:
        return encoder(value)
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
            raise Invalid(f"{field} contains an unpaired surrogate, which is not valid Unicode", field=field) from None


def _containers(items: Iterable[object]) -> list[Any]:
    return [item for item in items if isinstance(item, dict | list | tuple)]


def _stored_number(text: str) -> int | float:
    number = float(text)
    return int(number) if abs(number) >= WITHOUT_EXPONENT else number + 0.0  # -0.0 + 0.0 is 0.0
