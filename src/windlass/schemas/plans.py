"""Plans, and the usage of orgs."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Plan:
    """The limits of the orgs that have this plan. A limit of null means unlimited."""

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


@dataclass(frozen=True, slots=True)
class MonthlyUsage:
    month: str
    """Such as 2030-06. Months begin at 0:00 UTC."""
    executions: int


@dataclass(frozen=True, slots=True)
class Usage:
    """The usage of an org, and its plan."""

    org: str
    plan: Plan
    month: str
    """Such as 2030-06. Months begin at 0:00 UTC."""
    executions: int
    """Jobs and steps of this month."""
    resets_at: datetime
    """When the next month begins."""
    counted_at: datetime | None
    """When executions were last counted; null: never."""
    workflows: int
    runs: int
    """Live runs without child runs; counted up to 10,000."""
    executing: int
    """Jobs and steps that workers have claimed."""


@dataclass(frozen=True, slots=True)
class UsageDetail(Usage):
    history: list[MonthlyUsage]
    """The latest months, newest first."""
