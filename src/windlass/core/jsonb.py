"""JSON values as jsonb returns them: jsonb keeps the value of a number, not its spelling.

Definitions are normalized with this before they are published, so that a loaded definition has the stored fingerprint.
"""

import json
from typing import Any

WITHOUT_EXPONENT = 1e16  # from here on Python writes floats with an exponent, and jsonb writes them as integers


def as_stored(value: Any) -> Any:
    """Return the value as jsonb would; it must be one that `core.json_value.encode` accepts."""
    return json.loads(json.dumps(value), parse_float=_number)


def _number(text: str) -> int | float:
    number = float(text)
    return int(number) if abs(number) >= WITHOUT_EXPONENT else number + 0.0  # -0.0 + 0.0 is 0.0
