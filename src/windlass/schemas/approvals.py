"""Approvals."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from windlass.schemas.common import ApprovalState, Role


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalLinks:
    """Pages on which anyone who has the address may decide, without logging in."""

    approve: str
    reject: str
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """A step of a run that waits, or waited, for the decision of a person."""

    id: str
    run_id: str
    workflow: str
    task: str
    state: ApprovalState
    message: str
    form: dict[str, Any] | None
    """A JSON Schema of the values that a decision has."""
    roles: list[Role]
    """Who may decide: callers with one of these roles, or with one above."""
    may_decide: bool
    """Whether the caller may, and it is open."""
    requested_at: datetime
    until: datetime | None
    """When the wait ends, or is escalated to other roles."""
    escalated_at: datetime | None
    reminded_at: datetime | None
    decided_at: datetime | None
    """When it was decided, or ended without a decision."""
    by: str | None
    """Who decided; `timeout` if the workflow defines the decision on a timeout."""
    values: dict[str, Any] | None
    comment: str | None
    links: ApprovalLinks | None = None
    """Only of a single approval that was requested by its id, for callers who may decide."""
