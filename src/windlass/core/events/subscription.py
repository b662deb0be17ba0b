"""Event subscriptions: filters, signing of deliveries, and the retry policy of a delivery."""

import hashlib
import hmac
import re
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from windlass.core.events import webhook
from windlass.core.events.ojs_event import OjsEvent
from windlass.core.jobs.retry import Backoff, Retry
from windlass.errors import Invalid

TYPE = "windlass.webhook.v1"  # type of delivery jobs
RETRY = Retry(Backoff.EXPONENTIAL, base=5, factor=5, cap=86_400, jitter=0.1)
MAX_ATTEMPTS = 8  # over about 27 hours
TIMEOUT = timedelta(seconds=30)
OVERLAP = timedelta(hours=24)  # after a rotation, deliveries are signed with both secrets
MAX_EVENTS = 50
TEST = "webhook.test"

_NAME = re.compile(r"\*|[a-z]+(\.[a-z_]+)*(\.\*)?").fullmatch


@dataclass(frozen=True, slots=True)
class EventFilter:
    """The event filter of a subscription; empty `queues` or `types` match all."""

    events: Sequence[str]
    queues: Sequence[str] = ()
    types: Sequence[str] = ()

    def covers(self, event: OjsEvent) -> bool:
        return (
            any(_matches(name, event.type) for name in self.events)
            and (not self.queues or event.data.get("queue") in self.queues)
            and (not self.types or event.data.get("job_type") in self.types)
        )


@dataclass(frozen=True, slots=True)
class Target:
    """Where a delivery goes, and the secrets that sign it."""

    url: str
    secrets: Sequence[str]
    now: datetime


def check_events(events: object) -> list[str]:
    """Return the event names or prefixes with a star, without duplicates; raise `Invalid` if one is malformed."""
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


def _matches(pattern: str, name: str) -> bool:
    return pattern in ("*", name) or (pattern.endswith(".*") and name.startswith(pattern[:-1]))
