"""Jobs, their events and logs, and dead letters."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from windlass.schemas.common import JobState


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job in a list."""

    id: str
    type: str
    status: JobState
    queue: str
    priority: int
    attempt: int
    """The number of the current or the last attempt; 0: not started yet."""
    max_attempts: int
    run_at: datetime
    inserted_at: datetime
    updated_at: datetime
    finished_at: datetime | None
    worker: str | None
    """The worker that holds it."""
    error: str | None
    """The error of the last attempt that failed."""
    tags: list[str]
    idempotency_key: str | None
    run_id: str | None
    """The run that it is a task of."""
    task: str | None
    index: int | None
    """Which instance of the task."""
    place: str
    """Its position in the order of the list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobProgress:
    """The progress that the handler reported."""

    fraction: float = field(metadata={"ge": 0, "le": 1})
    message: str | None
    data: Any
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDetail(Job):
    """A job with all its fields."""

    payload: Any
    result: Any
    errors: list[dict[str, Any]]
    """The errors of the last ten attempts that failed."""
    lost_leases: int
    """Attempts whose worker stopped sending heartbeats."""
    started_over: int
    """How often it was retried after it had ended."""
    lease_until: datetime | None
    cancel_requested: bool
    timeout: str | None
    retry: dict[str, Any] | None
    meta: dict[str, Any]
    progress: JobProgress | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedJob:
    id: str
    created: bool
    """False: the idempotency key was used before, and this is its job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedJobs:
    """The jobs of a batch, in the order of the request."""

    created: int
    jobs: list[SubmittedJob]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEvent:
    """An event of a job."""

    id: str
    event: str
    attempt: int | None
    actor: str | None
    data: Any
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class JobChunk:
    """A chunk of the stream of a job."""

    section: int
    """Each attempt writes a section of its own."""
    number: int
    """In its section, from 1."""
    attempt: int
    at: datetime
    data: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStep:
    """A durable call of a job's handler: a step, or a wait."""

    name: str
    kind: Literal["step", "sleep", "wait", "run", "now"]
    status: Literal["done", "waiting", "timed_out"]
    result: Any
    """Null if it is larger than 16 KiB."""
    is_large: bool
    """The result is left out."""
    at: datetime
    """When it was recorded: the end of a step, the beginning of a sleep."""
    until: datetime | None
    """When its wait ends at the latest."""
    run_id: str | None
    """The run that it waits for."""
    message: str | None
    """The name of the message that it waits for."""
    key: str | None
    """The key of the event that it waits for; null: a signal to this job or its run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLogLine:
    attempt: int
    at: datetime
    level: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterGroup:
    """Dead letters that failed for the same reason: `error` is the common part of their errors."""

    type: str
    queue: str
    error: str
    """The type of the error and its first line; quoted parts, ids and numbers are masked."""
    of_runs: bool
    """They are tasks of runs: a retry retries the runs, and they are deleted with them."""
    count: int
    """Counted up to 10000."""
    capped: bool
    """There are more than were counted."""
    first_at: datetime
    last_at: datetime
    example_job_id: str
    """The latest of them."""
    example_error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterBatch:
    """The jobs and runs of one batch. Repeat the request with `before` set to `next` until `next` is null."""

    dry_run: bool
    done: int
    """Jobs that were retried or dropped, and runs that were retried."""
    left: int
    """How many more there are, counted up to 10000."""
    jobs: list[str]
    runs: list[str]
    """Retried for their tasks."""
    next: str | None
