"""Tasks of a run, their instances, logs, artifacts and timelines."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from windlass.schemas.common import Activity, RunState, SpanKind, TaskStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The instances of a fanned-out task by status."""

    count: int
    pending: int
    running: int
    success: int
    failed: int
    cancelled: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """A child run: `done` of its `total` tasks have ended."""

    run_id: str
    status: RunState
    done: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitedMessage:
    """The message that a task waits for."""

    name: str
    key: str | None
    """The key of the event; null: a signal to the run."""
    count: int
    received: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task of a run. Times that were not recorded are null."""

    status: TaskStatus
    type: str
    """http, job, sleep, wait_for_webhook, wait_for_event, command, workflow or undo."""
    activity: Activity | None = None
    """What it is doing now; null once it has ended."""
    until: datetime | None = None
    """When a sleep, a wait or a backoff ends."""
    status_code: int | None = None
    """The status of the last response to an HTTP task."""
    duration_ms: int | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    attempt: int | None = None
    max_attempts: int | None = None
    error: str | None = None
    """Why it failed, or why its last attempt did; template errors too. Null once it has succeeded."""
    error_message: str | None = None
    """The same as `error`."""
    reason: str | None = None
    """Why it was skipped, failed, ran, or waits."""
    remark: str = ""
    """A summary for lists: progress, next attempt, error."""
    is_truncated: bool = False
    """The response was too large and was truncated."""
    wake_at: datetime | None = None
    """When it continues, or stops waiting."""
    worker: str | None = None
    child_run_id: str | None = None
    """The most relevant run that it started."""
    child: Child | None = None
    """The progress of that run."""
    instances: Counts | None = None
    """The instances of a fanned-out task."""
    awaited: AwaitedMessage | None = None
    """The message that it waits for."""
    compensates: str | None = None
    """The task that it undoes; it runs only if the run is undone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedTask(Task):
    """A task in a list."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """One instance of a fanned-out task; a task that is not fanned out has one, number 0."""

    index: int
    job_id: str
    status: TaskStatus
    attempt: int
    max_attempts: int
    result: Any
    error: str | None
    errors: list[dict[str, Any]]
    worker: str | None
    started_at: datetime
    finished_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLogLine:
    task: str
    index: int
    attempt: int
    at: datetime
    level: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskArtifact:
    """A file that an attempt of a task wrote."""

    task: str
    index: int
    name: str
    attempt: int
    size: int
    """In bytes."""
    media_type: str
    created_at: datetime
    is_result: bool
    """Whether it is of the attempt that succeeded."""
    reference: str
    """The reference for templates and handlers: to the artifact of the attempt that succeeded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A period in the timeline of a task. `ended_at` is null while it is in progress."""

    task: str
    kind: SpanKind
    attempt: int | None
    began_at: datetime
    ended_at: datetime | None
    failed: bool
    """The attempt failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskExplanation:
    task: str
    status: TaskStatus
    does: str
    sentences: list[str]
