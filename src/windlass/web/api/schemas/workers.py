"""Workers as answers show them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import ConfigDict, Field

from windlass.engine.jobs.control import Job as JobRow
from windlass.engine.workers.registry import MOST_HELD, WorkerRow
from windlass.web.api.schemas import jobs as schema_jobs
from windlass.web.api.schemas.common import Shown
from windlass.web.api.schemas.jobs import Job
from windlass.web.api.schemas.queues import seconds
from windlass.web.api.vocabulary import WorkerStatus, worker_status

WORKER: dict[str, Any] = {
    "id": "web-1-4711",
    "status": "running",
    "host": "web-1",
    "pid": 4711,
    "queues": ["default", "sql"],
    "types": ["content.thumbnail.v1"],
    "slots": 100,
    "active": 8,
    "started_at": "2026-02-22T10:00:00Z",
    "seen_at": "2026-02-22T10:05:00Z",
    "seen_seconds_ago": 2.5,
}


class Worker(Shown):
    """A worker, as it was when it was last seen."""

    model_config = ConfigDict(json_schema_extra={"examples": [WORKER]})

    id: str
    status: WorkerStatus = Field(description="`silent`: it has not been seen for long, and did not say goodbye.")
    host: str
    pid: int
    queues: list[str]
    types: list[str]
    slots: int = Field(description="How many jobs it runs at a time.")
    active: int = Field(description="How many it was running.")
    started_at: datetime
    seen_at: datetime
    seen_seconds_ago: float


class WorkerDetail(Worker):
    """A worker, and what it holds."""

    model_config = ConfigDict(json_schema_extra={"examples": [WORKER | {"jobs": []}]})

    jobs: list[Job] = Field(description=f"{MOST_HELD} at most.")


def worker(row: WorkerRow) -> Worker:
    return Worker(**_fields(row))


def detail(row: WorkerRow, held: Sequence[JobRow], *, org: str, tasks: Mapping[UUID, str]) -> WorkerDetail:
    return WorkerDetail(**_fields(row), jobs=[schema_jobs.line(job, org=org, tasks=tasks) for job in held])


def _fields(row: WorkerRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "status": worker_status(row.state, alive=row.alive),
        "host": row.host,
        "pid": row.pid,
        "queues": row.queues,
        "types": row.types,
        "slots": row.concurrency,
        "active": row.active,
        "started_at": row.started_at,
        "seen_at": row.seen_at,
        "seen_seconds_ago": seconds(row.silence),
    }
