"""Plans."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Plan:
    """What an org may use. A limit of null is unlimited."""

    name: str
    workflows: int | None
    steps_per_workflow: int | None
    runs_at_once: int | None
    executions_per_month: int | None
    executions_at_once: int | None
    schedules: bool
    orgs: int
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class AssignedPlan:
    """The plan of an org."""

    org: str
    plan: str
