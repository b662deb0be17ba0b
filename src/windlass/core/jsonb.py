"""JSON values as jsonb gives them back: it knows numbers, not how they were written.

A definition is put through this before it is published, so that what is loaded has the fingerprint that was stored.
"""

import json
from typing import Any

WITHOUT_EXPONENT = 1e16  # from here on Python writes floats with an exponent, which jsonb writes out as whole numbers


def as_stored(value: Any) -> Any:
    """For values that `core.json_value.encode` takes."""
    return json.loads(json.dumps(value), parse_float=_number)


def _number(text: str) -> int | float:
    number = float(text)
    return int(number) if abs(number) >= WITHOUT_EXPONENT else number + 0.0  # -0.0 + 0.0 is 0.0
