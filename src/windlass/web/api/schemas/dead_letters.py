"""Dead letters as answers show them."""

from datetime import datetime
from typing import Any

from pydantic import ConfigDict, Field

from windlass.engine.jobs.dead_letters import MOST_COUNTED, Group, Steered
from windlass.web.api.schemas.common import Shown
from windlass.web.api.schemas.jobs import JOB_ID

GROUP: dict[str, Any] = {
    "type": "content.thumbnail.v1",
    "queue": "default",
    "error": "LookupError: no such object: <id>",
    "of_runs": False,
    "count": 42,
    "capped": False,
    "first_at": "2026-02-22T10:05:03Z",
    "last_at": "2026-02-22T11:15:42Z",
    "example_job_id": JOB_ID,
    "example_error": "no such object: c_123",
}


class DeadLetterGroup(Shown):
    """Jobs that failed for the same reason: `error` is what their errors have in common."""

    model_config = ConfigDict(json_schema_extra={"examples": [GROUP]})

    type: str
    queue: str
    error: str = Field(
        description="The type of the error and its first line; quoted parts, ids and numbers are masked."
    )
    of_runs: bool = Field(description="They are tasks of runs: a retry retries the runs, and they go with them.")
    count: int = Field(description=f"Counted up to {MOST_COUNTED}.")
    capped: bool = Field(description="There are more than were counted.")
    first_at: datetime
    last_at: datetime
    example_job_id: str = Field(description="The latest of them.")
    example_error: str | None


class DeadLetterBatch(Shown):
    """What was done. Go on with `before` set to `next` until that is null."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"dry_run": False, "done": 1, "left": 0, "jobs": [JOB_ID], "runs": [], "next": None}]
        }
    )

    dry_run: bool
    done: int = Field(description="Jobs that were started over or dropped, and runs that were retried.")
    left: int = Field(description=f"How many more there are, counted up to {MOST_COUNTED}.")
    jobs: list[str]
    runs: list[str] = Field(description="Retried for their tasks.")
    next: str | None


def group(row: Group) -> DeadLetterGroup:
    return DeadLetterGroup(
        type=row.type,
        queue=row.queue,
        error=row.error,
        of_runs=row.of_run,
        count=row.count,
        capped=row.count >= MOST_COUNTED,
        first_at=row.first_at,
        last_at=row.last_at,
        example_job_id=str(row.example_id),
        example_error=row.example,
    )


def batch(done: Steered) -> DeadLetterBatch:
    return DeadLetterBatch(
        dry_run=False,
        done=len(done.jobs) + len(done.runs),
        left=done.left,
        jobs=[str(id_) for id_ in done.jobs],
        runs=[str(id_) for id_ in done.runs],
        next=None if done.next is None else str(done.next),
    )
