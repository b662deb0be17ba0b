"""A job as the Open Job Spec shows it. Keys without a value are left out."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from windlass.core.events.ojs_event import error_document
from windlass.engine.workers.remote import Job, ToldJob
from windlass.web.ojs import vocabulary
from windlass.web.ojs.jobs.retry_policy import shown as shown_policy
from windlass.web.ojs.responses import VERSION, instant

MILLISECOND = timedelta(milliseconds=1)
_log = logging.getLogger("windlass.ojs")
URGENT = 100  # priority p is stored as 100 - p: the inbox serves small numbers first


def shown(job: Job, now: datetime, *, told: ToldJob | None = None) -> dict[str, Any]:
    """The whole envelope; `told` knows from the trail when attempts began. Documents of the row that cannot be shown,
    because plain SQL wrote them in another form, are left out: they must not hide the job, or a list with it."""
    try:
        return _shown(job, now, told)
    except Exception:
        _log.warning("job %s: its envelope, retry policy or errors cannot be shown", job.id, exc_info=True)
        return _shown(replace(job, envelope=None, retry=None, errors=[]), now, told)


def _shown(job: Job, now: datetime, told: ToldJob | None) -> dict[str, Any]:
    kept: Mapping[str, Any] = job.envelope or {}
    options: Mapping[str, Any] = kept.get("options") or {}
    state = vocabulary.state(job, now)
    found: dict[str, Any] = {
        **(kept.get("fields") or {}),
        "specversion": VERSION,
        "id": job.client_id,
        "type": job.type,
        "queue": job.queue,
        "args": job.payload if isinstance(job.payload, list) else [job.payload],
        "meta": job.meta,
        "priority": URGENT - job.priority,
        "state": state,
        "attempt": vocabulary.attempt(job),
        "max_attempts": job.max_attempts,
        "retry": shown_policy(options.get("retry") or options.get("retry_policy"), job.max_attempts, job.retry),
        "created_at": (made := instant(job.created_at)),
    }
    if options:
        found["options"] = options
    for name, value in (("schema", kept.get("schema")), ("unique", options.get("unique")), ("tags", job.tags)):
        if value:
            found[name] = value
    if job.timeout is not None:
        found["timeout_ms"] = round(job.timeout / MILLISECOND)
    if job.run_id is not None:
        found["workflow_id"] = str(job.run_id)
    if job.result is not None and state == vocabulary.COMPLETED:
        found["result"] = job.result
    found |= _times(job, state, kept, made)
    if job.errors:
        found |= _errors(job, state)
    return found | _begun(told, state) if told is not None else found


def _begun(told: ToldJob, state: str) -> dict[str, Any]:
    """What only the trail knows."""
    found: dict[str, Any] = {}
    if told.number is not None and state == vocabulary.CANCELLED:
        found["attempt"] = told.number
    if told.started_at is not None:
        found["started_at"] = instant(told.started_at)
    return found


def error(entry: Mapping[str, Any]) -> dict[str, Any]:
    """What went wrong with an attempt."""
    at = entry.get("at")
    found = error_document(entry)
    if isinstance(at, str):
        moment = instant(datetime.fromisoformat(at))
        found |= {"occurred_at": moment, "timestamp": moment}
    return found | {name: entry[name] for name in ("retryable", "details") if entry.get(name) is not None}


def _times(job: Job, state: str, kept: Mapping[str, Any], made: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    scheduled = kept.get("scheduled_at")
    if state == vocabulary.SCHEDULED or scheduled:
        found["scheduled_at"] = scheduled or instant(job.run_at)
    if state not in (vocabulary.SCHEDULED, vocabulary.PENDING):
        found["enqueued_at"] = max(made, scheduled or "")
    if job.expires_at is not None or kept.get("expires_at"):
        found["expires_at"] = kept.get("expires_at") or instant(job.expires_at or job.created_at)
    return found | _end(job, state)


def _end(job: Job, state: str) -> dict[str, str]:
    """The time at which it came to where it is."""
    if state in vocabulary.WAITING:
        return {}
    at = instant(job.updated_at)
    match state:
        case vocabulary.ACTIVE:
            until = {"visibility_deadline": instant(job.lease_until)} if job.lease_until else {}
            return {"started_at": at, **until}
        case vocabulary.COMPLETED:
            return {"completed_at": at}
        case vocabulary.CANCELLED:
            return {"cancelled_at": at}
        case vocabulary.DISCARDED if job.status != "failed" or _last_type(job) == "Expired":
            return {"discarded_at": instant(job.expires_at) if job.expires_at else at}
        case vocabulary.DISCARDED:
            return {"completed_at": at, "discarded_at": at}
        case vocabulary.RETRYABLE:
            return {"next_attempt_at": instant(job.run_at)}
        case _:
            return {}


def _errors(job: Job, state: str) -> dict[str, Any]:
    found: dict[str, Any] = {"errors": [error(entry) for entry in job.errors]}
    if state != vocabulary.COMPLETED:
        found["error"] = found["errors"][-1]
    delay = job.errors[-1].get("retry_delay_ms")
    if delay is not None and state != vocabulary.DISCARDED:
        found["retry_delay_ms"] = delay
    return found


def _last_type(job: Job) -> str | None:
    return job.errors[-1].get("type") if job.errors else None
