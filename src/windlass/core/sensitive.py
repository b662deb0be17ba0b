"""Headers with secret values, recognized by name: they are masked in output and not stored from inbound requests."""

import re
from collections.abc import Mapping
from typing import Any

HIDDEN = "***"

_secret = re.compile(r"authorization|cookie|token|secret|key|signature|password", re.IGNORECASE).search


def is_secret(name: str) -> bool:
    return _secret(name) is not None


def masked(document: Any) -> Any:
    """Return a request or response for display, with the secret values of its `headers` masked."""
    headers = document.get("headers") if isinstance(document, Mapping) else None
    if not isinstance(headers, Mapping) or not any(map(is_secret, headers)):
        return document
    shown = {name: HIDDEN if is_secret(name) else value for name, value in headers.items()}
    return {**document, "headers": shown}
