"""Events under the names of the Open Job Spec, for polling clients and for subscriptions.

One entry of the event trail can be two events: a failed attempt is `job.failed` followed by `job.retrying` or
`job.discarded`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

SOURCE = "/ojs/v1"
_JOB: Mapping[str, Sequence[str]] = {
    "created": ("job.enqueued",),
    "leased": ("job.started",),
    "succeeded": ("job.completed",),
    "retried": ("job.failed", "job.retrying"),
    "failed": ("job.failed", "job.discarded"),
    "cancelled": ("job.cancelled",),
}
WORKFLOW_TYPES = tuple(
    f"workflow.{word}"
    for word in (
        "created", "started", "step_completed", "step_failed", "job_completed", "job_failed", "callback_fired",
        "completed", "failed", "cancelled",
    )
)  # fmt: skip
TYPES = frozenset(
    {name for names in _JOB.values() for name in names} | {"job.expired", "cron.skipped", *WORKFLOW_TYPES}
)
ERROR_TYPES: Mapping[str, str] = {"LeaseLost": "visibility_timeout", "Timeout": "timeout", "Expired": "expired"}


def instant(at: datetime) -> str:
    """Return RFC 3339 in UTC with milliseconds; the fraction is left out if it is zero."""
    text = at.astimezone(UTC).isoformat(timespec="milliseconds").removesuffix("+00:00")
    return text.removesuffix(".000") + "Z"


@dataclass(frozen=True, slots=True)
class OjsEvent:
    """An event. Its id is the same for every reader and delivery; `beside` appears in `data` and on the top level."""

    id: str
    type: str
    subject: str
    at: datetime
    org: str
    data: Mapping[str, Any]
    beside: Mapping[str, Any] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """Return the event as a JSON object; `event` and `timestamp` are aliases of `type` and `time`."""
        at = instant(self.at)
        return {
            "specversion": "1.0", "id": self.id, "type": self.type, "event": self.type, "source": SOURCE,
            "subject": self.subject, "time": at, "timestamp": at, "data": {**self.beside, **self.data}, **self.beside,
        }  # fmt: skip


def error_document(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry of a job's errors in the form of the spec, with the code that the worker reported."""
    type_ = str(entry.get("type") or "handler_error")
    return {
        "code": entry.get("code") or ERROR_TYPES.get(type_, "handler_error"),
        "type": ERROR_TYPES.get(type_, type_),
        "message": entry.get("message") or "",
        "attempt": entry.get("attempt"),
    }


def names_of_job_line(word: str, reason: object) -> Sequence[str]:
    """Return the event names of an entry of a job's event trail; empty if it is no OJS event."""
    if word == "retried" and reason in ("handed back", "reopened"):
        return ("job.enqueued",)
    if word == "failed" and reason == "expired":
        return ("job.expired",)
    return _JOB.get(word, ())
