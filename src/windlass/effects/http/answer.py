"""HTTP responses: the document that is stored, and the outcome of the step."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from windlass.core.jobs.job import Failed, Outcome, Succeeded
from windlass.core.json_value import RESULT_LIMIT, encode, plain
from windlass.effects.http.body import Body

RETRYABLE = frozenset({408, 425, 429})
MAX_RETRY_AFTER = timedelta(days=1)
MAX_MESSAGE = 1000


@dataclass(slots=True)
class Answer:
    """A response, filled while it arrives: after a failure the part received so far is stored."""

    status: int
    headers: Mapping[str, str]  # lower-case names, repeated headers joined
    charset: str | None
    body: Body
    is_whole: bool = False

    @property
    def succeeded(self) -> bool:
        return 200 <= self.status < 400

    @property
    def is_retryable(self) -> bool:
        return self.status in RETRYABLE or 500 <= self.status < 600

    def document(self, took: timedelta) -> str:
        body = self.body.text(self.charset)
        kept = {
            "status_code": self.status,
            "headers": self.headers,
            "body": body,
            "is_truncated": self.body.is_cut or not self.is_whole,
            "duration_ms": round(took / timedelta(milliseconds=1)),
        }
        return encode(kept, field="result", limit=RESULT_LIMIT)


def outcome_of(answer: Answer, name: str, took: timedelta, now: datetime) -> Outcome:
    """Return the outcome of a response, decided by its status alone. `name` describes the request in messages."""
    document = answer.document(took)
    if answer.succeeded:
        return Succeeded(document)
    return Failed(
        told("HttpStatus", f"{name} answered {answer.status}"),
        retryable=answer.is_retryable,
        retry_after=retry_after(answer.headers.get("retry-after", ""), now) if answer.is_retryable else None,
        result=document,
    )


def retry_after(text: str, now: datetime) -> timedelta | None:
    """Parse a Retry-After header (seconds or a date); return None if it is invalid, and at most a day."""
    text = text.strip()
    if text.isascii() and text.isdigit():
        return min(timedelta(seconds=int(text[:9])), MAX_RETRY_AFTER)
    try:
        moment = parsedate_to_datetime(text)
        wait = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - now
    except (TypeError, ValueError, OverflowError):
        return None
    return min(max(wait, timedelta()), MAX_RETRY_AFTER)


def told(kind: str, message: str) -> dict[str, str]:
    return {"type": kind, "message": plain(message[:MAX_MESSAGE])}
