"""The eight states of the Open Job Spec: a projection of a row, in one place."""

from collections.abc import Mapping
from datetime import datetime

from windlass.core.jobs.job import JobState
from windlass.engine.workers.remote import Job

AVAILABLE, SCHEDULED, PENDING, ACTIVE = "available", "scheduled", "pending", "active"
RETRYABLE, COMPLETED, DISCARDED, CANCELLED = "retryable", "completed", "discarded", "cancelled"
WAITING = frozenset({AVAILABLE, SCHEDULED, PENDING})

PLAIN: Mapping[JobState, str] = {
    JobState.LEASED: ACTIVE,
    JobState.SUCCEEDED: COMPLETED,
    JobState.FAILED: DISCARDED,
    JobState.CANCELLED: CANCELLED,
}
# Where a job stands (see core.unique) when it counts as being there for a unique one.
STANDINGS: Mapping[str, str] = {
    AVAILABLE: "due",
    SCHEDULED: "waiting",
    RETRYABLE: "again",
    PENDING: "held",
    ACTIVE: "leased",
    COMPLETED: "succeeded",
    DISCARDED: "failed",
    CANCELLED: "cancelled",
}
FAR_YEAR = 9999  # a job that is held back is due in this year


def state(job: Job, now: datetime) -> str:
    """As of now: a row whose time has come is available even before anybody moved it."""
    if job.status is not JobState.PENDING:
        return PLAIN[job.status]
    if job.expires_at is not None and job.expires_at <= now:
        return DISCARDED
    if job.run_at.year == FAR_YEAR:
        return PENDING
    if job.run_at <= now:
        return AVAILABLE
    return RETRYABLE if job.attempt + job.lost else SCHEDULED


def attempt(job: Job) -> int:
    """Which attempt it is at: 0 before the first was begun."""
    begun = job.status in (JobState.LEASED, JobState.SUCCEEDED)
    return job.attempt + job.lost + (1 if begun else 0)
