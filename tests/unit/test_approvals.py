"""The actions of an approval's timer, and when it fires next."""

from datetime import UTC, datetime, timedelta

import pytest

from windlass.core.approvals import Decision, Due, Escalate, Expire, Remind, Times, due, next_timer
from windlass.core.orgs import Role
from windlass.core.workflows.step import ApprovalAction, Escalation, OnTimeout

NOW = datetime(2030, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
ADMINS = (Role.ADMIN,)


@pytest.mark.parametrize(
    ("remind", "times", "expected"),
    [
        (None, Times(NOW, None), None),
        (None, Times(NOW, NOW + HOUR), NOW + HOUR),
        (HOUR, Times(NOW, None), NOW + HOUR),
        (HOUR, Times(NOW, None, reminded_at=NOW + 5 * HOUR), NOW + 6 * HOUR),
        (2 * HOUR, Times(NOW, NOW + HOUR), NOW + HOUR),
    ],
)
def test_the_timer_fires_at_the_next_reminder_or_at_the_expiry(
    remind: timedelta | None, times: Times, expected: datetime | None
) -> None:
    assert next_timer(ApprovalAction("?", remind=remind), times) == expected


@pytest.mark.parametrize(
    ("on_timeout", "times", "expected"),
    [
        (OnTimeout.FAIL, Times(NOW, None), Remind()),
        (OnTimeout.FAIL, Times(NOW, NOW + HOUR), Remind()),
        (OnTimeout.FAIL, Times(NOW, NOW), Expire(None)),
        (OnTimeout.APPROVE, Times(NOW, NOW), Expire(Decision.APPROVE)),
        (OnTimeout.REJECT, Times(NOW, NOW), Expire(Decision.REJECT)),
        (Escalation(ADMINS, HOUR), Times(NOW, NOW), Escalate(ADMINS, NOW + HOUR)),
        (Escalation(ADMINS), Times(NOW, NOW), Escalate(ADMINS, None)),
        (Escalation(ADMINS, HOUR), Times(NOW - HOUR, NOW, escalated_at=NOW - HOUR), Expire(None)),
    ],
)
def test_the_due_timer_action_is_a_reminder_an_escalation_or_the_expiry(
    on_timeout: OnTimeout | Escalation, times: Times, expected: Due
) -> None:
    assert due(ApprovalAction("?", on_timeout=on_timeout), times, NOW) == expected
