"""Maps event-trail entries to events of the Open Job Spec, for polling clients and for subscriptions.

One entry of the event trail can be two events: a failed attempt is `job.failed` followed by `job.retrying` or
`job.discarded`. A subscription has a filter; its deliveries are signed and retried.
"""

import functools
import hashlib
import hmac
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from windlass.core.events import webhook
from windlass.core.jobs.retry import Backoff, Retry, matches
from windlass.errors import Invalid

SOURCE = "/ojs/v1"
_JOB_EVENTS: Mapping[str, Sequence[str]] = {
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
REQUESTED = "approval.requested"
TYPES = frozenset(
    {name for names in _JOB_EVENTS.values() for name in names}
    | {"job.expired", "cron.skipped", REQUESTED, *WORKFLOW_TYPES}
)
ERROR_TYPES: Mapping[str, str] = {"LeaseLost": "visibility_timeout", "Timeout": "timeout", "Expired": "expired"}

DELIVERY_TYPE = "windlass.webhook.v1"  # type of delivery jobs
RETRY = Retry(Backoff.EXPONENTIAL, base=5, factor=5, cap=86_400, jitter=0.1)
MAX_ATTEMPTS = 8  # over about 27 hours
TIMEOUT = timedelta(seconds=30)
OVERLAP = timedelta(hours=24)  # after a rotation, deliveries are signed with both secrets
MAX_EVENTS = 50
TEST = "webhook.test"

_NAME = re.compile(r"\*|[a-z]+(\.[a-z_]+)*(\.\*)?").fullmatch


@functools.lru_cache(maxsize=1000)  # the jobs of a batch have the same times
def instant(at: datetime) -> str:
    """Return the time in RFC 3339, in UTC with milliseconds; the fraction is omitted if it is zero."""
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


def job_event_types(word: str, reason: object) -> Sequence[str]:
    """Return the event names of an entry of a job's event trail; empty if it is no OJS event."""
    if word == "retried" and reason in ("handed back", "reopened", "suspended"):
        return ("job.enqueued",)
    if word == "failed" and reason == "expired":
        return ("job.expired",)
    return _JOB_EVENTS.get(word, ())


# Subscriptions


@dataclass(frozen=True, slots=True)
class EventFilter:
    """The event filter of a subscription; empty `queues` or `types` match all."""

    events: Sequence[str]
    queues: Sequence[str] = ()
    types: Sequence[str] = ()

    def covers(self, event: OjsEvent) -> bool:
        return (
            any(name == "*" or matches(name, event.type) for name in self.events)
            and (not self.queues or event.data.get("queue") in self.queues)
            and (not self.types or event.data.get("job_type") in self.types)
        )


@dataclass(frozen=True, slots=True)
class Target:
    """The destination of a delivery, the secrets that sign it and the time of the signature."""

    url: str
    secrets: Sequence[str]
    now: datetime


def check_events(events: object) -> list[str]:
    """Return the event names and patterns (`job.*`, `*`) without duplicates; raise `Invalid` if one is malformed."""
    if not isinstance(events, list) or not events or len(events) > MAX_EVENTS:
        raise Invalid(f"events must be a list of 1 to {MAX_EVENTS} names, for example job.completed", field="events")
    for name in events:
        if not isinstance(name, str) or len(name) > 100 or not _NAME(name):
            raise Invalid(f"events has {name!r}: a name such as job.completed, job.* or *", field="events")
    return list(dict.fromkeys(events))


def secret_of(key: bytes, id_: UUID, rotation: int) -> str:
    """Return the generated secret of a subscription: derived from the key, so it is not stored."""
    made = hmac.digest(key, f"subscription/{id_}/{rotation}".encode(), hashlib.sha256)
    return webhook.PREFIX + b64encode(made).decode()


def headers(target: Target, *, id_: str, event: str, subscription: str, body: bytes) -> dict[str, str]:
    """Return the headers of a delivery, signed at `target.now` for both Standard Webhooks and the Open Job Spec."""
    moment = str(int(target.now.timestamp()))
    ours = [f"v1,{webhook.signature(secret, id_, moment, body)}" for secret in target.secrets]
    theirs = [hmac.digest(secret.encode(), f"{moment}.".encode() + body, "sha256").hex() for secret in target.secrets]
    return {
        "Content-Type": "application/json",
        "webhook-id": id_,
        "webhook-timestamp": moment,
        "webhook-signature": " ".join(ours),
        "X-OJS-Event-Type": event,
        "X-OJS-Delivery-ID": id_,
        "X-OJS-Subscription-ID": subscription,
        "X-OJS-Timestamp": moment,
        "X-OJS-Signature": ",".join(f"sha256={one}" for one in theirs),
    }
