"""Headers whose values are secrets, told by their names: not shown, and not kept of requests from outside."""

import re
from collections.abc import Mapping
from typing import Any

HIDDEN = "***"

_secret = re.compile(r"authorization|cookie|token|secret|key|signature|password", re.IGNORECASE).search


def is_secret(name: str) -> bool:
    return _secret(name) is not None


def masked(document: Any) -> Any:
    """A request or an answer as people may see it: secret values of its `headers` are hidden."""
    headers = document.get("headers") if isinstance(document, Mapping) else None
    if not isinstance(headers, Mapping) or not any(map(is_secret, headers)):
        return document
    shown = {name: HIDDEN if is_secret(name) else value for name, value in headers.items()}
    return {**document, "headers": shown}
