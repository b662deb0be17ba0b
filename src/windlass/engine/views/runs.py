"""Converts runs and their tasks to the types of the API."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from windlass.core.artifacts import Artifact as ArtifactRow
from windlass.core.artifacts import Reference
from windlass.core.events.message import Awaited
from windlass.core.explain import timeline
from windlass.core.explain.activity import Activity, activity_of, summary
from windlass.core.explain.explanation import Explanation as RunExplanation
from windlass.core.explain.snapshot import ChildSnapshot, Origin, RunSnapshot, StepSnapshot
from windlass.core.jobs.job import JobState
from windlass.core.json_value import masked
from windlass.core.launches import LaunchState
from windlass.core.runs.run import NEVER_BEGAN, OPEN, WORDS, Fan, Letter, RunState
from windlass.core.workflows.step import (
    Action,
    ApprovalAction,
    ChildAction,
    CommandAction,
    EventAction,
    HookAction,
    HttpAction,
    JobAction,
    SleepAction,
    Step,
    UndoAction,
    pool_of,
)
from windlass.engine.runs.control import Instance as InstanceRow
from windlass.engine.runs.control import RunEvent as EventRow
from windlass.engine.runs.control import RunRow
from windlass.engine.runs.inspect import RunLine
from windlass.engine.runs.outputs import STATUS
from windlass.engine.runs.search import RunBatch
from windlass.schemas.common import TaskStatus
from windlass.schemas.runs import (
    Attempt,
    Batch,
    Explanation,
    NewRun,
    Run,
    RunDetail,
    RunEvent,
    Trigger,
    WaitedRun,
)
from windlass.schemas.tasks import (
    AwaitedMessage,
    Child,
    Counts,
    Instance,
    NamedTask,
    Span,
    Task,
    TaskArtifact,
    TaskExplanation,
    TaskLogLine,
)
from windlass.store.runs import InsertedRun

TASK_STATUS: Mapping[Letter, TaskStatus] = {letter: TaskStatus(status) for letter, status in STATUS.items()}
INSTANCE_STATUS: Mapping[JobState, TaskStatus] = {
    JobState.PENDING: TaskStatus.PENDING,
    JobState.LEASED: TaskStatus.RUNNING,
    JobState.SUCCEEDED: TaskStatus.SUCCESS,
    JobState.FAILED: TaskStatus.FAILED,
    JobState.CANCELLED: TaskStatus.CANCELLED,
}
ACTION_TYPES: Mapping[type[Action], str] = {
    HttpAction: "http",
    JobAction: "job",
    SleepAction: "sleep",
    HookAction: "wait_for_webhook",
    EventAction: "wait_for_event",
    ApprovalAction: "approve",
    CommandAction: "command",
    ChildAction: "workflow",
    UndoAction: "undo",
}
_ACTIVE: Mapping[type[Action], TaskStatus] = {
    SleepAction: TaskStatus.SLEEPING,
    HookAction: TaskStatus.WAITING,
    EventAction: TaskStatus.WAITING,
    ApprovalAction: TaskStatus.WAITING,
}
_BEGUN = frozenset({Activity.RUNNING, Activity.LOST, Activity.STOPPING})  # activities of a task that runs on its pool
_LETTERS: Mapping[str, Letter] = {word: letter for letter, word in WORDS.items()}

# Runs


def started(row: RunRow) -> NewRun:
    return NewRun(run_id=str(row.id), workflow_id=str(row.workflow_id), status=row.state, started_at=row.started_at)


def inserted(workflow_id: UUID, run: InsertedRun) -> NewRun:
    """Return a run that was just inserted, without reading it back."""
    return NewRun(
        run_id=str(run.id), workflow_id=str(workflow_id), status=RunState(run.state), started_at=run.started_at
    )


def line(row: RunRow) -> Run:
    """Return a run as a list item."""
    return Run(
        id=str(row.id),
        workflow_id=str(row.workflow_id),
        workflow=row.workflow,
        version=row.version,
        status=row.state,
        inserted_at=row.created_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        expires_at=row.expires_at,
        task_counts=_task_counts(row.letters),
        labels=row.labels,
        idempotency_key=row.idempotency_key,
        parent_run_id=str(row.parent_id) if row.parent_id else None,
        retried=row.round,
        paused_at=row.paused_at,
    )


def detail(account: RunSnapshot) -> RunDetail:
    return RunDetail(**_detail(account))


def waited(account: RunSnapshot, output: Any) -> WaitedRun:
    return WaitedRun(**_detail(account), run_id=str(account.id), output=output)


def event(step: Step | None, row: EventRow) -> RunEvent:
    return RunEvent(
        id=f"job-{row.id}" if row.of_job else str(row.id),
        task=step.name if step else None,
        event=event_name(row.word, step.action if step else None, row.code),
        code=row.code,
        reason=row.reason,
        actor=row.actor,
        attempt=row.attempt,
        at=row.created_at,
    )


def explanation(account: RunSnapshot, explained: RunExplanation) -> Explanation:
    tasks = [
        TaskExplanation(
            task=one.step,
            status=_status(step, account.state, account.now),
            does=one.does,
            sentences=one.sentences,
        )
        for one, step in zip(explained.steps, account.steps, strict=True)
    ]
    return Explanation(run=explained.run, now=explained.now, tasks=tasks)


def batch(done: RunBatch) -> Batch:
    ids = [str(id_) for id_ in done.runs]
    return Batch(dry_run=False, done=len(ids), left=done.left, runs=ids, next=str(done.next) if done.next else None)


def counted(left: int) -> Batch:
    """Return the batch of a dry run."""
    return Batch(dry_run=True, done=0, left=left, runs=[], next=None)


def _detail(account: RunSnapshot) -> dict[str, Any]:
    return {
        "id": str(account.id),
        "workflow_id": str(account.workflow_id),
        "workflow": account.workflow.name,
        "version": account.version,
        "status": account.state,
        "inserted_at": account.created_at,
        "started_at": account.started_at,
        "finished_at": account.finished_at,
        "expires_at": account.expires_at,
        "task_counts": _task_counts(account.letters),
        "labels": dict(account.labels),
        "idempotency_key": account.idempotency_key,
        "parent_run_id": str(account.parent_id) if account.parent_id else None,
        "retried": account.round,
        "paused_at": account.paused_at,
        "duration_ms": milliseconds(account.took),
        "input": account.input,
        "reason": account.reason,
        "is_undone": account.is_undone,
        "cursor": account.cursor,
        "trigger": _trigger(account.trigger),
        "attempts": [
            Attempt(attempt=one.number, status=one.state, began_at=one.began_at, ended_at=one.ended_at)
            for one in account.rounds
        ],
        "tasks": {step.step.name: task(step, account) for step in account.steps},
    }


def _trigger(origin: Origin) -> Trigger:
    parent = str(origin.parent_id) if origin.parent_id else None
    return Trigger(kind=origin.kind, scheduled_for=origin.scheduled_for, parent_id=parent)


def _task_counts(letters: str) -> dict[str, int]:
    counts = ((TASK_STATUS[letter].value, letters.count(letter)) for letter in Letter)
    return {status: count for status, count in counts if count}


# Tasks


def task(step: StepSnapshot, account: RunSnapshot) -> Task:
    return Task(**_task(step, account.state, account.now))


def named_task(step: StepSnapshot, account: RunSnapshot) -> NamedTask:
    return NamedTask(name=step.step.name, **_task(step, account.state, account.now))


def instance(row: InstanceRow) -> Instance:
    status = TaskStatus.DISPATCHED if row.launch is LaunchState.LAUNCHING else INSTANCE_STATUS[row.status]
    begun = row.status in (JobState.LEASED, JobState.SUCCEEDED)
    open_ = row.status in (JobState.PENDING, JobState.LEASED)
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


def instance_counts(fan: Fan) -> Counts:
    return Counts(
        count=fan.count,
        pending=fan.count - fan.ended - fan.active,
        running=fan.active,
        success=fan.succeeded,
        failed=fan.failed,
        cancelled=fan.cancelled,
    )


def log_line(name: str, row: RunLine) -> TaskLogLine:
    return TaskLogLine(task=name, index=row.item, attempt=row.attempt, at=row.at, level=row.level, message=row.message)


def artifact(run: UUID, row: ArtifactRow) -> TaskArtifact:
    return TaskArtifact(
        task=row.step,
        index=row.index,
        name=row.name,
        attempt=row.attempt,
        size=row.size,
        media_type=row.media_type,
        created_at=row.created_at,
        is_result=row.is_result,
        reference=str(Reference(run, row.step, row.index, row.name)),
    )


def span(account: RunSnapshot, row: timeline.Span) -> Span:
    return Span(
        task=account.steps[row.step].step.name,
        kind=row.kind,
        attempt=row.attempt,
        began_at=row.began_at,
        ended_at=row.ended_at,
        failed=row.failed,
    )


def milliseconds(duration: timedelta | None) -> int | None:
    return None if duration is None else round(duration / timedelta(milliseconds=1))


def _task(step: StepSnapshot, run: RunState, now: datetime) -> dict[str, Any]:
    job = step.job if step.fan is None else None
    answer, error = step.answer, _error(step)
    current = activity_of(step, run, now)
    took = milliseconds(step.took(now))
    return {
        "status": _status(step, run, now),
        "type": ACTION_TYPES[type(step.step.action)],
        "activity": current.activity if current else None,
        "until": current.until if current else None,
        "status_code": answer.status_code if answer else None,
        "duration_ms": took if answer is None or answer.duration_ms is None else answer.duration_ms,
        "started_at": _started_at(step),
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
        "child_run_id": str(step.child.id) if step.child else None,
        "child": _child(step.child) if step.child else None,
        "instances": instance_counts(step.fan.for_display(step.letter)) if step.fan else None,
        "awaited": _awaited(step.awaited) if isinstance(step.awaited, Awaited) else None,
        "compensates": step.step.compensates,
    }


def _error(step: StepSnapshot) -> str | None:
    """Return the message of the failure that still applies; None once the task has succeeded."""
    if step.letter is Letter.SUCCEEDED:
        return None
    failed = step.failed or step.job
    if step.letter in (Letter.FAILED, Letter.TIMED_OUT) and (step.code == NEVER_BEGAN or failed is None):
        return step.reason
    return failed.error if failed else None


def _child(below: ChildSnapshot) -> Child:
    return Child(run_id=str(below.id), status=below.state, done=below.done, total=below.total)


def _awaited(message: Awaited) -> AwaitedMessage:
    return AwaitedMessage(name=message.name, key=message.key, count=message.count, received=message.received)


def _started_at(step: StepSnapshot) -> datetime | None:
    if step.letter in (Letter.WAITING, Letter.SKIPPED):
        return None
    if step.began_at is None and step.wakes_at is not None:  # a sleep has no row except its timer
        action = step.step.action
        length = action.duration if isinstance(action, SleepAction) else None
        length = action.timeout if isinstance(action, HookAction | EventAction) else length
        return step.wakes_at - length if length is not None else None
    return step.began_at


# Statuses


def _status(step: StepSnapshot, run: RunState, now: datetime) -> TaskStatus:
    """Return the status of a task. A task on a pool is dispatched until it reports that it runs."""
    if step.letter is Letter.ACTIVE and pool_of(step.step.action) is not None:
        current = activity_of(step, run, now)
        if current is not None and current.activity not in _BEGUN:
            return TaskStatus.DISPATCHED
    return task_status(step.letter, step.step.action, step.code)


def task_status(letter: Letter, action: Action, code: str | None = None) -> TaskStatus:
    """Return the status of a task; `code` is the code of the reason for its state."""
    if letter is Letter.ACTIVE:
        return _ACTIVE.get(type(action), TaskStatus.RUNNING)
    if letter is Letter.FAILED and code == NEVER_BEGAN:
        return TaskStatus.TEMPLATE_ERROR
    return TASK_STATUS[letter]


def event_name(word: str, action: Action | None, code: str | None = None) -> str:
    """Return the name of an event: the new status of a task, or `word` itself for an event of the run."""
    letter = None if action is None else _LETTERS.get(word)
    return word if action is None or letter is None else task_status(letter, action, code).value
