"""Explains the result of an expression: the expression and the values it read, shortened.

Credentials in headers are left out, since explanations are stored, shown and logged.
"""

import json
from collections.abc import Mapping
from itertools import islice
from typing import Any

from windlass.core.expressions.paths import Path
from windlass.core.expressions.scope import Nothing
from windlass.core.json_value import plain

LONGEST_VALUE = 60
LONGEST_EXPRESSION = 200
MOST_VALUES = 8
SECRET_HEADERS = frozenset({"authorization", "cookie", "proxy-authorization", "set-cookie", "x-api-key"})
LITERALS = {None: "null", True: "true", False: "false"}
FUNCTION_WORDS = {
    ("success()", True): "every step before it succeeded",
    ("success()", False): "not every step before it succeeded",
    ("failure()", True): "a step before it failed",
    ("failure()", False): "no step before it failed",
}

_encoder = json.JSONEncoder(ensure_ascii=False, separators=(", ", ": "), check_circular=True)


def told(expression: str, holds: bool, seen: Mapping[str, tuple[Path | None, Any]]) -> str:
    head = f"{expression} is {'true' if holds else 'false'}"
    if not seen:
        return head
    values = [_sighting(text, path, value) for text, (path, value) in islice(seen.items(), MOST_VALUES)]
    more = len(seen) - MOST_VALUES
    return f"{head}: {', '.join(values)}" + (f" and {more} more" if more > 0 else "")


def shown(value: Any) -> str:
    """Return a value as a short string. Encoding stops as soon as the limit is reached."""
    if value is None or isinstance(value, bool):
        return LITERALS[value]
    if isinstance(value, str):
        return f"'{plain(cut(value, LONGEST_VALUE))}'"
    return plain(cut(_beginning(value), LONGEST_VALUE))


def cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 3] + "..."


def _sighting(text: str, path: Path | None, value: Any) -> str:
    if path is None:
        return FUNCTION_WORDS[text, value]
    text = cut(text, LONGEST_EXPRESSION)
    if value is Nothing.TRUNCATED:
        return f"{text} is null, because the response from {path.name!r} was truncated"
    if value is Nothing.MISSING:
        return f"{text} is null"
    if path.field == "headers" and (not path.rest or path.rest[0] in SECRET_HEADERS):
        return f"{text} is not shown"
    return f"{text} is {shown(value)}"


def _beginning(value: Any) -> str:
    found = ""
    try:
        if isinstance(value, int | float):
            return str(value)
        for piece in _encoder.iterencode(value):
            found += piece
            if len(found) > LONGEST_VALUE:
                break
    except (TypeError, ValueError, RecursionError):
        return "a value that cannot be shown"
    return found
