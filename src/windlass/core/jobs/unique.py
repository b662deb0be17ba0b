"""Unique jobs: when a job conflicts with an existing one, and what happens then. The key is a hash of chosen fields."""

import hashlib
import json
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any

# Job states, with `pending` split: held, waiting for its time, waiting for its next attempt (`again`), or due.
LIVE = frozenset({"held", "waiting", "again", "due", "leased"})
STANDINGS = LIVE | {"succeeded", "failed", "cancelled"}


class OnConflict(StrEnum):
    REJECT = "reject"
    IGNORE = "ignore"  # return the existing job
    REPLACE = "replace"  # cancel the existing job and accept the new one
    REPLACE_EXCEPT_SCHEDULE = "replace_except_schedule"  # the same, but the new job takes the old one's due time


@dataclass(frozen=True, slots=True, kw_only=True)
class Unique:
    """A uniqueness rule. An existing job conflicts if its state is in `standings`; with a `period`, only if younger."""

    key: str
    on_conflict: OnConflict = OnConflict.REJECT
    standings: frozenset[str] = LIVE
    period: timedelta | None = None


def fingerprint(parts: Mapping[str, Any]) -> str:
    """Return a hash that is equal for equal values: keys are sorted and text is normalized to NFC."""
    text = json.dumps(_normal(parts), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def chosen(value: Any, keys: Sequence[str]) -> Any:
    """Return only these keys of an object, or of each object of a list."""
    if isinstance(value, Mapping):
        return {key: value[key] for key in keys if key in value}
    return [chosen(item, keys) for item in value if isinstance(item, Mapping)] if isinstance(value, list) else value


def _normal(value: Any) -> Any:
    if isinstance(value, str):
        return unicodedata.normalize("NFC", value)
    if isinstance(value, Mapping):
        return {unicodedata.normalize("NFC", key): _normal(item) for key, item in value.items()}
    if isinstance(value, float) and value.is_integer():
        return int(value)  # 1.0 and 1 are the same JSON number
    return [_normal(item) for item in value] if isinstance(value, list | tuple) else value
