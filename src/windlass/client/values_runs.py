"""What a client gives back about runs and their tasks. Names, words and fields are those of the API."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The instances of a fanned-out task, in numbers."""

    count: int
    pending: int
    running: int
    success: int
    failed: int
    cancelled: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """The run below a task: so many of its tasks have ended, of all."""

    run_id: str
    status: str
    done: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What became of a task."""

    status: str
    type: str
    activity: str | None = None  # what it is doing now: queued, no_worker, backing_off, running, sleeping, ...
    until: datetime | None = None  # when a sleep, a wait or a backoff ends
    status_code: int | None = None
    duration_ms: int | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    attempt: int | None = None
    max_attempts: int | None = None
    error: str | None = None
    error_message: str | None = None
    reason: str | None = None
    remark: str = ""
    is_truncated: bool = False
    wake_at: datetime | None = None
    worker: str | None = None
    child_run_id: str | None = None
    child: Child | None = None
    instances: Counts | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedTask(Task):
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """One copy of a fanned-out task."""

    index: int
    job_id: str
    status: str
    attempt: int
    max_attempts: int
    result: Any
    error: str | None
    errors: list[dict[str, Any]]
    worker: str | None
    started_at: datetime
    finished_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run in a list."""

    id: str
    workflow_id: str
    workflow: str
    version: int
    status: str
    inserted_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    expires_at: datetime
    task_counts: dict[str, int]
    labels: dict[str, str]
    idempotency_key: str | None
    parent_run_id: str | None
    retried: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """What a run came from."""

    kind: str  # api, cron, webhook, parent or ojs
    scheduled_for: datetime | None = None
    parent_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A run is begun once, and once more with each retry and rerun."""

    attempt: int
    status: str
    began_at: datetime
    ended_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDetail(Run):
    """A run with what became of each task."""

    duration_ms: int | None
    input: Any
    reason: str | None
    cursor: str | None  # where a stream goes on after this look
    trigger: Trigger
    attempts: list[Attempt]
    tasks: dict[str, Task]

    @property
    def has_ended(self) -> bool:
        return self.finished_at is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRun:
    """A run that was asked for."""

    run_id: str
    workflow_id: str
    status: str
    started_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedRun(NewRun):
    """The same; what comes now is told if its end was waited for."""

    finished_at: datetime | None = None
    duration_ms: int | None = None
    reason: str | None = None
    output: Any = None
    tasks: dict[str, Task] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvent:
    id: str
    task: str | None
    event: str
    code: str | None
    reason: str | None
    actor: str | None
    at: datetime
    attempt: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskExplanation:
    task: str
    status: str
    does: str
    sentences: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    run: list[str]
    now: list[str]
    tasks: list[TaskExplanation]


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What was done to which runs; go on with `before` set to `next`."""

    dry_run: bool
    done: int
    left: int
    runs: list[str]
    next: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLogLine:
    task: str
    index: int
    attempt: int
    at: datetime
    level: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """What a task did from when to when; no end: it goes on."""

    task: str
    kind: str  # queued, running, backoff, sleeping or waiting
    attempt: int | None
    began_at: datetime
    ended_at: datetime | None
    failed: bool = False  # what was begun came to nothing
