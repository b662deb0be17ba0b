"""Approvals, steps that wait for the decision of a person: who may decide, the outcome, timers and signed links.

The timer of such a step fires at its next reminder or at the end of the wait, whichever comes first.
"""

import binascii
import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, assert_never
from uuid import UUID

from windlass.core.events.ojs import instant
from windlass.core.json_value import encode
from windlass.core.orgs import Role, Scope, role_text
from windlass.core.runs.event import Ended
from windlass.core.runs.run import Letter, Reason
from windlass.core.workflows.step import ApprovalAction, Escalation, OnTimeout
from windlass.errors import Forbidden, Invalid

MAX_MESSAGE = 16_384  # characters, with the templates filled in
MAX_COMMENT = 8_192
MAX_VALUES = 65_536  # bytes
BY_TIMEOUT = "timeout"  # recorded instead of a person if the timeout decided


LINK_DAYS = timedelta(days=7)  # lifetime of a link to an approval without a timeout


class ApprovalState(StrEnum):
    OPEN = "open"
    APPROVED = "approved"
    REJECTED = "rejected"
    EXPIRED = "expired"  # there was no decision in time
    CANCELLED = "cancelled"  # its run was stopped


class Decision(StrEnum):
    APPROVE = "approve"
    REJECT = "reject"

    @property
    def state(self) -> ApprovalState:
        return ApprovalState.APPROVED if self is Decision.APPROVE else ApprovalState.REJECTED


@dataclass(frozen=True, slots=True)
class Requested:
    """The decision that a step waits for, as shown in explanations."""

    roles: Sequence[str]
    until: datetime | None

    @property
    def text(self) -> str:
        return f"the approval of {role_text(self.roles)}"


@dataclass(frozen=True, slots=True)
class Times:
    """The times of an open approval."""

    requested_at: datetime
    until: datetime | None
    escalated_at: datetime | None = None
    reminded_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Remind:
    """Publish the event of the approval again."""


@dataclass(frozen=True, slots=True)
class Escalate:
    """Let other roles decide instead."""

    roles: Sequence[Role]
    until: datetime | None


@dataclass(frozen=True, slots=True)
class Expire:
    """End the step of an expired approval with a decision, or as timed out if there is none."""

    decision: Decision | None


Due = Remind | Escalate | Expire


def next_timer(action: ApprovalAction, times: Times) -> datetime | None:
    """Return the next time at which the timer of an open approval fires; None if it has no timer."""
    moments = [times.until] if times.until is not None else []
    if action.remind is not None:
        moments.append((times.reminded_at or times.requested_at) + action.remind)
    return min(moments, default=None)


def due(action: ApprovalAction, times: Times, now: datetime) -> Due:
    """Return the action of the timer of an open approval now. Several late reminders become one."""
    if times.until is None or now < times.until:
        return Remind()
    match action.on_timeout:
        case Escalation(roles, timeout) if times.escalated_at is None:
            return Escalate(roles, None if timeout is None else now + timeout)
        case Escalation() | OnTimeout.FAIL:
            return Expire(None)
        case OnTimeout.APPROVE:
            return Expire(Decision.APPROVE)
        case OnTimeout.REJECT:
            return Expire(Decision.REJECT)
        case _:
            assert_never(action.on_timeout)


def ended(step: int, decision: Decision | None, by: str, comment: str | None) -> Ended:
    """Return the event that ends a step: by a decision or, if there was none, by the expiry of its approval."""
    match decision:
        case Decision.APPROVE:
            return Ended(step, Letter.SUCCEEDED)
        case Decision.REJECT:
            why = f"rejected by {by}" + (f": {comment}" if comment else "")
            return Ended(step, Letter.FAILED, Reason("rejected", why))
        case None:
            return Ended(step, Letter.TIMED_OUT, Reason("timeout", "there was no decision in time"))
        case _:
            assert_never(decision)


def output(state: str, *, by: str | None, at: datetime, values: Any, comment: str | None) -> dict[str, Any]:
    """Return the output of a step whose approval was decided."""
    approved = state == ApprovalState.APPROVED
    return {"approved": approved, "by": by, "at": instant(at), "values": values or {}, "comment": comment}


def check_message(message: object) -> str:
    """Return a rendered message as a string; raise `Invalid` if it is empty or too long."""
    text = message if isinstance(message, str) else encode(message, field="approve.message")
    if not text.strip():
        raise Invalid("approve.message is empty: its templates resulted in no text", field="approve.message")
    if len(text) > MAX_MESSAGE:
        raise Invalid(
            f"approve.message has {len(text)} characters, the limit is {MAX_MESSAGE}: shorten it",
            field="approve.message",
        )
    return text


def may_decide(roles: Sequence[str], scopes: frozenset[Scope]) -> bool:
    """Return whether a caller has the scopes of one of the roles. A role includes the scopes of lower roles."""
    return any(role in roles and role.scopes <= scopes for role in Role)


def require_role(roles: Sequence[str], scopes: frozenset[Scope], actor: str) -> None:
    if not may_decide(roles, scopes):
        raise Forbidden(f"{actor} may not decide this approval: it needs the role of {role_text(roles)}")


# Links: pages on which anyone who has the URL may make one decision. The URL has a signed token, which is not stored.


@dataclass(frozen=True, slots=True)
class Link:
    """A link, which permits one decision about an approval, in one round of its run, until it expires."""

    approval: UUID
    round: int
    decision: Decision
    expires_at: datetime

    @property
    def _text(self) -> bytes:
        moment = int(self.expires_at.timestamp())
        letter = self.decision[0].encode()
        return self.approval.bytes + self.round.to_bytes(4, "big") + letter + moment.to_bytes(8, "big")

    def token(self, key: bytes) -> str:
        return urlsafe_b64encode(self._text + _signature(key, self._text)).rstrip(b"=").decode()


def read_link(key: bytes, token: str) -> Link | None:
    """Return the link that a token encodes; None if the token is malformed or not signed with this key."""
    try:
        data = urlsafe_b64decode(token + "=" * (-len(token) % 4))
    except (binascii.Error, ValueError):
        return None
    text, signature = data[:29], data[29:]
    if not hmac.compare_digest(signature, _signature(key, text)):
        return None
    decision = Decision.APPROVE if text[20:21] == b"a" else Decision.REJECT
    expires_at = datetime.fromtimestamp(int.from_bytes(text[21:], "big"), UTC)
    return Link(UUID(bytes=text[:16]), int.from_bytes(text[16:20], "big"), decision, expires_at)


def _signature(key: bytes, text: bytes) -> bytes:
    return hmac.digest(key, b"approval/" + text, "sha256")  # prefixed, because the key signs other tokens, too
