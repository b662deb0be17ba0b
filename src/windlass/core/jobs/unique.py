"""When is a job the same as one that is there already, and what then? The fingerprint hashes what producers chose."""

import hashlib
import json
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any

# The states of the inbox, finer: a pending job is held back, waits for its time or for its next attempt, or is due.
LIVE = frozenset({"held", "waiting", "again", "due", "leased"})
STANDINGS = LIVE | {"succeeded", "failed", "cancelled"}


class OnConflict(StrEnum):
    REJECT = "reject"
    IGNORE = "ignore"  # answer with the job that is there
    REPLACE = "replace"  # cancel it and take the new one
    REPLACE_EXCEPT_SCHEDULE = "replace_except_schedule"  # the same, at the time the old one had


@dataclass(frozen=True, slots=True, kw_only=True)
class Unique:
    """`standings` say where a job must stand to count as being there; `period` is how long it does."""

    key: str
    on_conflict: OnConflict = OnConflict.REJECT
    standings: frozenset[str] = LIVE
    period: timedelta | None = None


def fingerprint(parts: Mapping[str, Any]) -> str:
    """The same for the same values, whoever wrote them: keys sorted, text in NFC."""
    text = json.dumps(_normal(parts), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def chosen(value: Any, keys: Sequence[str]) -> Any:
    """These keys of an object, or of the objects of a list."""
    if isinstance(value, Mapping):
        return {key: value[key] for key in keys if key in value}
    return [chosen(item, keys) for item in value if isinstance(item, Mapping)] if isinstance(value, list) else value


def _normal(value: Any) -> Any:
    if isinstance(value, str):
        return unicodedata.normalize("NFC", value)
    if isinstance(value, Mapping):
        return {unicodedata.normalize("NFC", key): _normal(item) for key, item in value.items()}
    if isinstance(value, float) and value.is_integer():
        return int(value)  # 1.0 and 1 are one JSON number
    return [_normal(item) for item in value] if isinstance(value, list | tuple) else value
