"""Lists come in pages: `{"data": [...], "next": cursor}`. `next` goes into the list's own parameter: `before` where the
newest come first, `after` where the order goes up; null means the end."""

import base64
import binascii
import json
from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import Query

from windlass.engine.runs.inspect import BEGINNING, Place
from windlass.errors import Invalid

PAGE_LIMIT = 1000
MAX_INT = 2**31 - 1
MAX_BIGINT = 2**63 - 1

Limit = Annotated[int, Query(ge=1, le=PAGE_LIMIT, description="How many at most.")]


def place_text(place: Place) -> str:
    """Where a reader of log lines has got to, in a word that means nothing to others."""
    text = json.dumps([place.at.isoformat(), str(place.job_id), place.attempt, place.line], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def place_of(text: str | None) -> Place:
    if text is None:
        return BEGINNING
    try:
        at, job, attempt, line = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        found = Place(datetime.fromisoformat(at), UUID(job), int(attempt), int(line))
    except (ValueError, TypeError, AttributeError, binascii.Error, RecursionError):
        raise _strange() from None
    if found.at.utcoffset() is None or not (0 <= found.attempt <= MAX_INT and 0 <= found.line <= MAX_INT):
        raise _strange()
    return found


def _strange() -> Invalid:
    return Invalid("after is no place in these lines: give what `next` said", field="after")
