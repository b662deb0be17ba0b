"""What came back: the document that is kept of an answer, and what an answer means for its step."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from windlass.core.jobs.outcome import Failed, Outcome, Succeeded
from windlass.core.json_value import RESULT_LIMIT, encode, plain
from windlass.effects.http.body import Body

RETRYABLE = frozenset({408, 425, 429})
MAX_RETRY_AFTER = timedelta(days=1)
MAX_MESSAGE = 1000


@dataclass(slots=True)
class Answer:
    """Filled while it arrives: a failure halfway keeps what there is."""

    status: int
    headers: Mapping[str, str]  # names in small letters, repeated ones joined
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
    """By its status alone. `name` is the request's, for people."""
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
    """Seconds or a date, as the header has it; nothing that makes no sense, and never more than a day."""
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
