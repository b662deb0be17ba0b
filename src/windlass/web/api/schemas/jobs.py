"""Jobs as answers show them: in a list, and whole with the errors of their attempts and their lease."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import ConfigDict, Field

from windlass.core import duration
from windlass.core.jobs.job import TERMINAL, JobState
from windlass.engine.jobs.control import Event as EventRow
from windlass.engine.jobs.control import Job as JobRow
from windlass.engine.jobs.control import LogLine as LineRow
from windlass.engine.jobs.control import Recorded
from windlass.engine.jobs.progress import Progress
from windlass.web.api.schemas.common import Shown

JOB_ID = "01890a5d-ac96-774b-bcce-b302099a8058"
LINE: dict[str, Any] = {
    "id": JOB_ID,
    "type": "content.thumbnail.v1",
    "status": "failed",
    "queue": "default",
    "priority": 100,
    "attempt": 3,
    "max_attempts": 3,
    "run_at": "2026-02-22T10:05:00Z",
    "inserted_at": "2026-02-22T10:00:00Z",
    "updated_at": "2026-02-22T10:05:03Z",
    "finished_at": "2026-02-22T10:05:03Z",
    "worker": None,
    "error": "no such object: c_123",
    "tags": ["shop"],
    "idempotency_key": None,
    "run_id": None,
    "task": None,
    "index": None,
    "place": "4711",
}
WHOLE: dict[str, Any] = LINE | {
    "payload": {"content_id": "c_123"},
    "result": None,
    "errors": [{"attempt": 3, "at": "2026-02-22T10:05:03Z", "type": "LookupError", "message": "no such object: c_123"}],
    "lost_leases": 0,
    "started_over": 0,
    "lease_until": None,
    "cancel_requested": False,
    "timeout": "30s",
    "retry": {"kind": "exponential", "base": 1.0, "factor": 2.0, "cap": None, "jitter": 0.1},
    "meta": {},
    "progress": {"fraction": 0.4, "message": "40 of 100 pages", "data": None, "at": "2026-02-22T10:05:02Z"},
}


class Job(Shown):
    """A job in a list. `place` is where it stands in the order of the list."""

    model_config = ConfigDict(json_schema_extra={"examples": [LINE]})

    id: str
    type: str
    status: JobState
    queue: str
    priority: int
    attempt: int = Field(description="The number of the attempt under way, or of the last one; 0: none was begun.")
    max_attempts: int
    run_at: datetime
    inserted_at: datetime
    updated_at: datetime
    finished_at: datetime | None
    worker: str | None = Field(description="Who holds it.")
    error: str | None = Field(description="Of the last attempt that failed.")
    tags: list[str]
    idempotency_key: str | None
    run_id: str | None = Field(description="The run that it is a task of.")
    task: str | None
    index: int | None = Field(description="Which instance of the task.")
    place: str


class JobProgress(Shown):
    """How far a job is, by its own words."""

    fraction: float = Field(ge=0, le=1)
    message: str | None
    data: Any
    at: datetime


class JobDetail(Job):
    """A job, whole."""

    model_config = ConfigDict(json_schema_extra={"examples": [WHOLE]})

    payload: Any
    result: Any
    errors: list[dict[str, Any]] = Field(description="Of the last ten attempts that failed.")
    lost_leases: int = Field(description="Attempts whose worker fell silent.")
    started_over: int = Field(description="How often it was begun afresh after its end.")
    lease_until: datetime | None
    cancel_requested: bool
    timeout: str | None
    retry: dict[str, Any] | None
    meta: dict[str, Any]
    progress: JobProgress | None


class Submitted(Shown):
    id: str
    created: bool = Field(description="False: the key was known, and this is the job that has it.")


class SubmittedJobs(Shown):
    """What became of a batch, in its order."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"created": 1, "jobs": [{"id": JOB_ID, "created": True}]}]}
    )

    created: int
    jobs: list[Submitted]


class JobEvent(Shown):
    """A line of a job's trail."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "id": "42",
                    "event": "retried",
                    "attempt": 1,
                    "actor": "worker-1",
                    "data": {"error": "no such object: c_123", "delay_seconds": 1.0},
                    "at": "2026-02-22T10:05:01Z",
                }
            ]
        }
    )

    id: str
    event: str
    attempt: int | None
    actor: str | None
    data: Any
    at: datetime


class JobLogLine(Shown):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"attempt": 1, "at": "2026-02-22T10:05:01Z", "level": "INFO", "message": "7 rows"}]
        }
    )

    attempt: int
    at: datetime
    level: str
    message: str


def line(row: JobRow, *, org: str, tasks: Mapping[UUID, str]) -> Job:
    return Job(**_line(row, org, tasks))


def detail(row: JobRow, *, org: str, tasks: Mapping[UUID, str], progress: Progress | None) -> JobDetail:
    return JobDetail(
        **_line(row, org, tasks),
        payload=row.payload,
        result=row.result,
        errors=row.errors,
        lost_leases=row.lost,
        started_over=row.epoch,
        lease_until=row.lease_until,
        cancel_requested=row.cancel_requested,
        timeout=None if row.timeout is None else duration.text(row.timeout),
        retry=row.retry,
        meta=row.meta,
        progress=None if progress is None else said(progress),
    )


def said(row: Progress) -> JobProgress:
    return JobProgress(fraction=row.fraction, message=row.message, data=row.data, at=row.updated_at)


def batch(recorded: Recorded) -> SubmittedJobs:
    jobs = [Submitted(id=str(id_), created=id_ in recorded.born) for id_ in recorded.ids]
    return SubmittedJobs(created=len(recorded.born), jobs=jobs)


def event(row: EventRow) -> JobEvent:
    return JobEvent(
        id=str(row.id), event=row.event_type, attempt=row.attempt, actor=row.actor, data=row.data, at=row.created_at
    )


def log_line(row: LineRow) -> JobLogLine:
    return JobLogLine(attempt=row.attempt, at=row.at, level=row.level, message=row.message)


def _line(row: JobRow, org: str, tasks: Mapping[UUID, str]) -> dict[str, Any]:
    begun = row.status in (JobState.LEASED, JobState.SUCCEEDED)
    return {
        "id": str(row.id),
        "type": row.type,
        "status": row.status,
        "queue": row.queue,
        "priority": row.priority,
        "attempt": row.attempt + row.lost + begun,
        "max_attempts": row.max_attempts,
        "run_at": row.run_at,
        "inserted_at": row.created_at,
        "updated_at": row.updated_at,
        "finished_at": row.updated_at if row.status in TERMINAL else None,
        "worker": row.leased_by,
        "error": row.last_error,
        "tags": row.tags,
        "idempotency_key": None if row.idempotency_key is None else row.idempotency_key.removeprefix(f"{org}/"),
        "run_id": str(row.run_id) if row.run_id else None,
        "task": tasks.get(row.id),
        "index": row.item,
        "place": str(row.seq),
    }
