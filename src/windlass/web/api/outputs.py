"""What runs and tasks gave, as JSON can have it."""

import json
from typing import Any

from windlass.engine.runs.outputs import TooMany
from windlass.errors import Conflict


def plain(value: Any) -> Any:
    """The same; a `Conflict` that tells what to do if a list is too long to be given as one."""
    return json.loads(json.dumps(value, default=_refuse))


def _refuse(value: object) -> Any:
    if isinstance(value, TooMany):
        raise Conflict(value.text)
    raise TypeError(f"{type(value).__name__} is no JSON")
