"""Tasks of a run as answers show them, their instances, and what their handlers logged."""

from datetime import datetime, timedelta
from typing import Any

from pydantic import ConfigDict, Field

from windlass.core.explain.current import Activity, activity_of, summary
from windlass.core.explain.snapshot import ChildSnapshot, RunSnapshot, StepSnapshot
from windlass.core.runs.reason import NEVER_BEGAN
from windlass.core.runs.run import OPEN, Fan, Letter, RunState
from windlass.core.sensitive import masked
from windlass.core.workflows.step import HookAction, SleepAction
from windlass.engine.runs.control import Instance as InstanceRow
from windlass.engine.runs.inspect import RunLine
from windlass.web.api import vocabulary
from windlass.web.api.schemas.common import Shown
from windlass.web.api.vocabulary import TaskStatus


class Counts(Shown):
    """The instances of a fanned-out task, in numbers."""

    count: int
    pending: int
    running: int
    success: int
    failed: int
    cancelled: int


class Child(Shown):
    """A run below: so many of its tasks have ended, of all."""

    run_id: str
    status: RunState
    done: int
    total: int


class Task(Shown):
    """What became of a task. Times that nobody wrote down are null."""

    status: TaskStatus
    type: str = Field(description="http, job, sleep, wait_for_webhook, command or workflow.")
    activity: Activity | None = Field(default=None, description="What it is doing now; null once it has ended.")
    until: datetime | None = Field(default=None, description="When a sleep, a wait or a backoff ends.")
    status_code: int | None = Field(default=None, description="Of the last answer to an HTTP task.")
    duration_ms: int | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    attempt: int | None = None
    max_attempts: int | None = None
    error: str | None = Field(
        default=None,
        description="Why it failed, or why its last attempt did; template errors too. Null once it has succeeded.",
    )
    error_message: str | None = Field(default=None, description="The same as `error`.")
    reason: str | None = Field(default=None, description="Why it was skipped, failed, ran, or waits.")
    remark: str = Field(default="", description="What is worth knowing at a glance: progress, next attempt, error.")
    is_truncated: bool = Field(default=False, description="The answer was too large and was cut.")
    wake_at: datetime | None = Field(default=None, description="When it will go on, or stop waiting.")
    worker: str | None = None
    child_run_id: str | None = Field(default=None, description="The run it started that is most worth a look.")
    child: Child | None = Field(default=None, description="How that run stands.")
    instances: Counts | None = Field(default=None, description="Of a fanned-out task.")


class NamedTask(Task):
    """A task in a list."""

    name: str


class Instance(Shown):
    """One copy of a fanned-out task; a task that is not fanned out has one, number 0."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "index": 0,
                    "job_id": "01890a5d-ac96-774b-bcce-b302099a8058",
                    "status": "success",
                    "attempt": 1,
                    "max_attempts": 3,
                    "result": {"rows": 7},
                    "error": None,
                    "errors": [],
                    "worker": None,
                    "started_at": "2026-02-22T10:05:00Z",
                    "finished_at": "2026-02-22T10:05:01Z",
                }
            ]
        }
    )

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


class LogLine(Shown):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "task": "load",
                    "index": 3,
                    "attempt": 1,
                    "at": "2026-02-22T10:05:01Z",
                    "level": "INFO",
                    "message": "7 rows",
                }
            ]
        }
    )

    task: str
    index: int
    attempt: int
    at: datetime
    level: str
    message: str


def task(step: StepSnapshot, account: RunSnapshot) -> Task:
    return Task(**_fields(step, account.state, account.now))


def named_task(step: StepSnapshot, account: RunSnapshot) -> NamedTask:
    return NamedTask(name=step.step.name, **_fields(step, account.state, account.now))


def instance(row: InstanceRow) -> Instance:
    status = vocabulary.INSTANCES[row.status]
    begun = status in (TaskStatus.RUNNING, TaskStatus.SUCCESS)
    open_ = status in (TaskStatus.PENDING, TaskStatus.RUNNING)
    return Instance(
        index=row.item,
        job_id=str(row.job_id),
        status=status,
        attempt=row.attempts + begun,
        max_attempts=row.max_attempts,
        result=masked(row.result),
        error=row.last_error,
        errors=row.errors,
        worker=row.leased_by,
        started_at=row.created_at,
        finished_at=None if open_ else row.updated_at,
    )


def log_line(name: str, row: RunLine) -> LogLine:
    return LogLine(task=name, index=row.item, attempt=row.attempt, at=row.at, level=row.level, message=row.message)


def milliseconds(span: timedelta | None) -> int | None:
    return None if span is None else round(span / timedelta(milliseconds=1))


def _fields(step: StepSnapshot, run: RunState, now: datetime) -> dict[str, Any]:
    job = step.job if step.fan is None else None
    answer, error = step.answer, _error(step)
    now_doing = activity_of(step, run, now)
    took = milliseconds(step.took(now))
    return {
        "status": vocabulary.task_status(step.letter, step.step.action, step.code),
        "type": vocabulary.TYPES[type(step.step.action)],
        "activity": now_doing.activity if now_doing else None,
        "until": now_doing.until if now_doing else None,
        "status_code": answer.status_code if answer else None,
        "duration_ms": took if answer is None or answer.duration_ms is None else answer.duration_ms,
        "started_at": _began(step),
        "finished_at": None if step.letter in OPEN or step.letter is Letter.SKIPPED else step.ended_at,
        "attempt": job.attempts if job else None,
        "max_attempts": job.max_attempts if job else None,
        "error": error,
        "error_message": error,
        "reason": step.reason or step.held,
        "remark": summary(step),
        "is_truncated": answer is not None and answer.is_truncated,
        "wake_at": step.wakes_at,
        "worker": job.worker if job else None,
        "child_run_id": str(step.below.id) if step.below else None,
        "child": _child(step.below) if step.below else None,
        "instances": counts(step.fan.shown(step.letter)) if step.fan else None,
    }


def _error(step: StepSnapshot) -> str | None:
    """The message of the failure that is still true: none once the task has succeeded."""
    if step.letter is Letter.SUCCEEDED:
        return None
    failed = step.failed or step.job
    if step.letter in (Letter.FAILED, Letter.TIMED_OUT) and (step.code == NEVER_BEGAN or failed is None):
        return step.reason
    return failed.error if failed else None


def _child(below: ChildSnapshot) -> Child:
    return Child(run_id=str(below.id), status=below.state, done=below.done, total=below.total)


def _began(step: StepSnapshot) -> datetime | None:
    if step.letter in (Letter.WAITING, Letter.SKIPPED):
        return None
    if step.began_at is None and step.wakes_at is not None:  # a sleep has no row of its own but its timer
        action = step.step.action
        span = action.duration if isinstance(action, SleepAction) else None
        span = action.timeout if isinstance(action, HookAction) else span
        return step.wakes_at - span if span is not None else None
    return step.began_at


def counts(fan: Fan) -> Counts:
    return Counts(
        count=fan.count,
        pending=fan.count - fan.ended - fan.active,
        running=fan.active,
        success=fan.succeeded,
        failed=fan.failed,
        cancelled=fan.cancelled,
    )
