"""Renders a job as the Open Job Spec's envelope. Keys without a value are left out."""

import logging
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from windlass.core.events.ojs import error_document
from windlass.core.jobs.job import JobState
from windlass.engine.compositions.parent_results import Position, StepRef
from windlass.engine.jobs.control import Job, JobDetails
from windlass.engine.workers.remote_reports import NewState
from windlass.web.ojs import retry_policy
from windlass.web.ojs.responses import VERSION, instant

MILLISECOND = timedelta(milliseconds=1)
LOWEST_PRIORITY = 100  # priority p is stored as 100 - p, because workers claim small numbers first
HELD_YEAR = 9999  # a job that is held back is due in this year
AVAILABLE, SCHEDULED, PENDING, ACTIVE = "available", "scheduled", "pending", "active"
RETRYABLE, COMPLETED, DISCARDED, CANCELLED = "retryable", "completed", "discarded", "cancelled"
STATES: Mapping[JobState, str] = {  # of jobs that are not waiting
    JobState.LEASED: ACTIVE,
    JobState.SUCCEEDED: COMPLETED,
    JobState.FAILED: DISCARDED,
    JobState.CANCELLED: CANCELLED,
}
_log = logging.getLogger("windlass.ojs")


def job_state(job: Job, now: datetime) -> str:
    """Return the state as of `now`: a due job is available even if its row has not been updated yet."""
    if job.status is not JobState.PENDING:
        return STATES[job.status]
    if job.expires_at is not None and job.expires_at <= now:
        return DISCARDED
    if job.run_at.year == HELD_YEAR:
        return PENDING
    if job.run_at <= now:
        return AVAILABLE
    return RETRYABLE if job.attempt + job.lost else SCHEDULED


def state_after(new: NewState) -> str:
    """Return the state of a job after a report."""
    if new.state is not JobState.PENDING:
        return STATES[new.state]
    if new.delay <= timedelta():
        return AVAILABLE
    return RETRYABLE if new.attempts else SCHEDULED


def current(job: JobDetails) -> dict[str, Any]:
    """Return the envelope of a job that was read with the times of its attempts."""
    fields = render(job.job, job.now)
    if job.number is not None and fields["state"] == CANCELLED:
        fields["attempt"] = job.number
    if job.started_at is not None:
        fields["started_at"] = instant(job.started_at)
    return fields


def render(job: Job, now: datetime) -> dict[str, Any]:
    """Return the envelope of a job. Columns that cannot be rendered, because plain SQL wrote them in another form, are
    left out: they must not make the job, or a list that contains it, unreadable."""
    try:
        return _render(job, now)
    except Exception:
        _log.warning("job %s: its envelope, retry policy or errors cannot be rendered", job.id, exc_info=True)
        return _render(job._replace(envelope=None, retry=None, errors=[]), now)


def within(job: Job, shown: dict[str, Any], positions: Mapping[StepRef, Position]) -> dict[str, Any]:
    """Add the results of the parents to a job of a workflow, as a list and as context."""
    position = positions.get((job.run_id, job.step)) if job.run_id is not None and job.step is not None else None
    if position is None:
        return shown
    context = {
        "workflow_id": position.workflow_id,
        "workflow_type": position.kind.value,
        "step_index": position.step,
        "attempt": shown["attempt"],
        "parent_results": position.results,
    }
    if position.callback is not None:
        context["callback"] = position.callback
    return {**shown, "workflow_id": position.workflow_id, "parent_results": position.listed, "context": context}


def error(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the error of an attempt."""
    document = error_document(entry)
    if isinstance(at := entry.get("at"), str):
        moment = instant(datetime.fromisoformat(at))
        document |= {"occurred_at": moment, "timestamp": moment}
    return document | {name: entry[name] for name in ("retryable", "details") if entry.get(name) is not None}


def _render(job: Job, now: datetime) -> dict[str, Any]:
    stored: Mapping[str, Any] = job.envelope or {}
    options: Mapping[str, Any] = stored.get("options") or {}
    state = job_state(job, now)
    is_started = job.status in (JobState.LEASED, JobState.SUCCEEDED)
    policy = options.get("retry") or options.get("retry_policy")
    fields: dict[str, Any] = {
        **(stored.get("fields") or {}),
        "specversion": VERSION,
        "id": job.client_id,
        "type": job.type,
        "queue": job.queue,
        "args": job.payload if isinstance(job.payload, list) else [job.payload],
        "meta": job.meta,
        "priority": LOWEST_PRIORITY - job.priority,
        "state": state,
        "attempt": job.attempt + job.lost + (1 if is_started else 0),
        "max_attempts": job.max_attempts,
        "retry": retry_policy.render(policy, job.max_attempts, job.retry),
        "created_at": (created_at := instant(job.created_at)),
    }
    if options:
        fields["options"] = options
    for name, value in (("schema", stored.get("schema")), ("unique", options.get("unique")), ("tags", job.tags)):
        if value:
            fields[name] = value
    if job.timeout is not None:
        fields["timeout_ms"] = round(job.timeout / MILLISECOND)
    if job.run_id is not None:
        fields["workflow_id"] = str(job.run_id)
    if job.result is not None and state == COMPLETED:
        fields["result"] = job.result
    fields |= _times(job, state, stored, created_at)
    return fields | _errors(job, state) if job.errors else fields


def _times(job: Job, state: str, stored: Mapping[str, Any], created_at: str) -> dict[str, Any]:
    times: dict[str, Any] = {}
    scheduled = stored.get("scheduled_at")
    if state == SCHEDULED or scheduled:
        times["scheduled_at"] = scheduled or instant(job.run_at)
    if state not in (SCHEDULED, PENDING):
        times["enqueued_at"] = max(created_at, scheduled or "")
    if job.expires_at is not None or stored.get("expires_at"):
        times["expires_at"] = stored.get("expires_at") or instant(job.expires_at or job.created_at)
    return times | _state_times(job, state)


def _state_times(job: Job, state: str) -> dict[str, str]:
    """Return when the job entered its state, and when it will leave it."""
    at = instant(job.updated_at)
    match state:
        case "active":
            deadline = {"visibility_deadline": instant(job.lease_until)} if job.lease_until else {}
            return {"started_at": at, **deadline}
        case "completed":
            return {"completed_at": at}
        case "cancelled":
            return {"cancelled_at": at}
        case "discarded" if job.status != "failed" or (job.errors and job.errors[-1].get("type") == "Expired"):
            return {"discarded_at": instant(job.expires_at) if job.expires_at else at}
        case "discarded":
            return {"completed_at": at, "discarded_at": at}
        case "retryable":
            return {"next_attempt_at": instant(job.run_at)}
        case _:
            return {}


def _errors(job: Job, state: str) -> dict[str, Any]:
    fields: dict[str, Any] = {"errors": [error(entry) for entry in job.errors]}
    if state != COMPLETED:
        fields["error"] = fields["errors"][-1]
    delay = job.errors[-1].get("retry_delay_ms")
    if delay is not None and state != DISCARDED:
        fields["retry_delay_ms"] = delay
    return fields
