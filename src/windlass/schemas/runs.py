"""Runs of workflows, their events and explanations."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from windlass.schemas.common import OriginKind, RunState
from windlass.schemas.tasks import Task, TaskExplanation


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run in a list."""

    id: str
    workflow_id: str
    workflow: str
    version: int
    status: RunState
    inserted_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    expires_at: datetime
    task_counts: dict[str, int]
    """How many tasks are pending, running, success, ..."""
    labels: dict[str, str]
    idempotency_key: str | None
    parent_run_id: str | None
    retried: int
    """How often it was retried or rerun."""
    paused_at: datetime | None = None
    """When it was paused; null: it is not paused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """The trigger of a run: a request (`api`), its schedule, a request to its webhook, another run, or the Open Job
    Spec."""

    kind: OriginKind
    scheduled_for: datetime | None = None
    """The scheduled time, if a schedule started it."""
    parent_id: str | None = None
    """The parent run, if a run started it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """An attempt of a run: the first, or one after a retry or rerun. `ended_at` is null while it is in progress."""

    attempt: int
    status: RunState
    began_at: datetime
    ended_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDetail(Run):
    """A run with its tasks."""

    duration_ms: int | None
    input: Any
    reason: str | None
    """Why it failed, timed out or was cancelled, or is being undone."""
    is_undone: bool = False
    """Whether the tasks that succeeded are being undone, before it ends."""
    cursor: str | None = None
    """Pass it to `/stream?after=` to receive the events that follow."""
    trigger: Trigger
    attempts: list[Attempt]
    """The first one first; `?attempt=` selects the events of one."""
    tasks: dict[str, Task]
    """By name, in the order of the definition."""

    @property
    def has_ended(self) -> bool:
        return self.finished_at is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRun:
    """A run that was started; `pending` only while a concurrency limit holds it."""

    run_id: str
    workflow_id: str
    status: RunState
    started_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitedRun(RunDetail):
    """The response to `?wait=`: the run at its end, or as it was when the time expired."""

    run_id: str
    output: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedRun(NewRun):
    """The result of a start in the client: a `NewRun`, with the fields of a `WaitedRun` if the client waited."""

    finished_at: datetime | None = None
    duration_ms: int | None = None
    reason: str | None = None
    output: Any = None
    tasks: dict[str, Task] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvent:
    """An event of a run, or of one of its tasks."""

    id: str
    task: str | None
    event: str
    """The new state of the run or the task; of a task also `queued` and `retrying`."""
    code: str | None
    reason: str | None
    actor: str | None
    attempt: int | None = None
    """The attempt of the task, if the event is about one."""
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPreview:
    """The effect of a retry, or of a rerun from a task: the names of the tasks, in definition order."""

    kept: list[str]
    """Their results are kept."""
    again: list[str]
    new: list[str]
    """Those that only the live version has."""
    gone: list[str]
    """Those that the live version no longer has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """An explanation of the state of a run, in sentences; `now` is what it waits for."""

    run: list[str]
    now: list[str]
    tasks: list[TaskExplanation]


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The runs of one batch. Repeat the request with `before` set to `next` until `next` is null."""

    dry_run: bool
    done: int
    left: int
    """How many more there are, counted up to 10000."""
    runs: list[str]
    next: str | None
