"""Runs as answers show them: in a list, and whole with what became of each task."""

from datetime import datetime
from typing import Any

from pydantic import ConfigDict, Field

from windlass.core.explain.explanation import Explanation as Told
from windlass.core.explain.snapshot import Origin, OriginKind, RunSnapshot
from windlass.core.runs.run import Letter, RunState
from windlass.core.workflows.step import Step
from windlass.engine.runs.bulk import MOST_COUNTED, Steered
from windlass.engine.runs.control import RunEvent, RunRow
from windlass.web.api import vocabulary
from windlass.web.api.schemas.common import RUN_ID, WORKFLOW_ID, Shown
from windlass.web.api.schemas.tasks import Task, milliseconds, task

STARTED: dict[str, Any] = {
    "run_id": RUN_ID,
    "workflow_id": WORKFLOW_ID,
    "status": "running",
    "started_at": "2026-02-22T10:05:00Z",
}
LINE: dict[str, Any] = {
    "id": RUN_ID,
    "workflow_id": WORKFLOW_ID,
    "workflow": "order-processing",
    "version": 1,
    "status": "completed",
    "inserted_at": "2026-02-22T10:05:00Z",
    "started_at": "2026-02-22T10:05:00Z",
    "finished_at": "2026-02-22T10:05:03Z",
    "expires_at": "2026-03-24T10:05:00Z",
    "task_counts": {"success": 2},
    "labels": {},
    "idempotency_key": None,
    "parent_run_id": None,
    "retried": 0,
}
TRIGGER: dict[str, Any] = {"kind": "api", "scheduled_for": None, "parent_id": None}
FIRST: dict[str, Any] = {
    "attempt": 1,
    "status": "completed",
    "began_at": "2026-02-22T10:05:00Z",
    "ended_at": "2026-02-22T10:05:03Z",
}
CHARGE: dict[str, Any] = {
    "status": "success",
    "type": "http",
    "status_code": 200,
    "duration_ms": 450,
    "started_at": "2026-02-22T10:05:00Z",
    "finished_at": "2026-02-22T10:05:00Z",
    "attempt": 1,
    "max_attempts": 4,
    "error": None,
    "error_message": None,
    "reason": None,
    "activity": None,
    "until": None,
}


class Started(Shown):
    """A run that was asked for; `pending` only while a limit of runs at a time holds it."""

    model_config = ConfigDict(json_schema_extra={"examples": [STARTED]})

    run_id: str
    workflow_id: str
    status: RunState
    started_at: datetime | None


class Run(Shown):
    """A run in a list."""

    model_config = ConfigDict(json_schema_extra={"examples": [LINE]})

    id: str
    workflow_id: str
    workflow: str
    version: int
    status: RunState
    inserted_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    expires_at: datetime
    task_counts: dict[str, int] = Field(description="How many tasks are pending, running, success, ...")
    labels: dict[str, str]
    idempotency_key: str | None
    parent_run_id: str | None
    retried: int = Field(description="How often it was retried or rerun.")


class Trigger(Shown):
    """What a run came from: a request for it (`api`), the clock, a call of its workflow's address, another run, or the
    Open Job Spec."""

    kind: OriginKind
    scheduled_for: datetime | None = Field(default=None, description="The tick, if it was the clock.")
    parent_id: str | None = Field(default=None, description="The run above, if it was another run.")


class Attempt(Shown):
    """A run is begun once, and once more with each retry and rerun. No end: it goes on."""

    attempt: int
    status: RunState
    began_at: datetime
    ended_at: datetime | None


class RunDetail(Run):
    """A run with what became of each task."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                LINE
                | {"duration_ms": 3000, "input": {"order_id": 123}, "reason": None, "cursor": "7312+0"}
                | {"trigger": TRIGGER, "attempts": [FIRST], "tasks": {"charge": CHARGE}}
            ]
        }
    )

    duration_ms: int | None
    input: Any
    reason: str | None = Field(description="Why it failed, timed out or was cancelled.")
    cursor: str | None = Field(default=None, description="What happens from here on: `/stream?after=` this.")
    trigger: Trigger
    attempts: list[Attempt] = Field(description="The first one first; `?attempt=` asks for the events of one.")
    tasks: dict[str, Task] = Field(description="By name, in the order of the definition.")


class WaitedRun(RunDetail):
    """The answer to `?wait=`: the run at its end, or as it was when the time was over."""

    run_id: str
    output: Any = None


class Event(Shown):
    """A line of the trail: of the run, or of one of its tasks."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "id": "42",
                    "task": "send-receipt",
                    "event": "skipped",
                    "code": "if",
                    "reason": "tasks.charge.status_code == 200 is false: tasks.charge.status_code is 402",
                    "actor": "worker",
                    "attempt": None,
                    "at": "2026-02-22T10:05:01Z",
                }
            ]
        }
    )

    id: str
    task: str | None
    event: str = Field(description="What the run or the task became; of a task also `queued` and `retrying`.")
    code: str | None
    reason: str | None
    actor: str | None
    attempt: int | None = Field(default=None, description="Of the task, where the line is about one of its attempts.")
    at: datetime


class TaskExplanation(Shown):
    task: str
    status: vocabulary.TaskStatus
    does: str
    sentences: list[str]


class Explanation(Shown):
    """Why the run is as it is, in sentences; `now` is what it waits for."""

    run: list[str]
    now: list[str]
    tasks: list[TaskExplanation]


class Batch(Shown):
    """What was done to which runs. Go on with `before` set to `next` until that is null."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"dry_run": False, "done": 1, "left": 0, "runs": [RUN_ID], "next": None}]}
    )

    dry_run: bool
    done: int
    left: int = Field(description=f"How many more there are, counted up to {MOST_COUNTED}.")
    runs: list[str]
    next: str | None


def started(row: RunRow) -> Started:
    return Started(run_id=str(row.id), workflow_id=str(row.workflow_id), status=row.state, started_at=row.started_at)


def line(row: RunRow) -> Run:
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
        task_counts=_counts(row.letters),
        labels=row.labels,
        idempotency_key=row.idempotency_key,
        parent_run_id=str(row.parent_id) if row.parent_id else None,
        retried=row.round,
    )


def detail(account: RunSnapshot) -> RunDetail:
    return RunDetail(**_detail(account))


def waited(account: RunSnapshot, output: Any) -> WaitedRun:
    return WaitedRun(**_detail(account), run_id=str(account.id), output=output)


def event(step: Step | None, row: RunEvent) -> Event:
    return Event(
        id=f"job-{row.id}" if row.of_job else str(row.id),
        task=step.name if step else None,
        event=vocabulary.event_word(row.word, step.action if step else None, row.code),
        code=row.code,
        reason=row.reason,
        actor=row.actor,
        attempt=row.attempt,
        at=row.created_at,
    )


def explanation(account: RunSnapshot, told: Told) -> Explanation:
    tasks = [
        TaskExplanation(
            task=one.step,
            status=vocabulary.task_status(step.letter, step.step.action, step.code),
            does=one.does,
            sentences=one.sentences,
        )
        for one, step in zip(told.steps, account.steps, strict=True)
    ]
    return Explanation(run=told.run, now=told.now, tasks=tasks)


def batch(found: Steered) -> Batch:
    ids = [str(id_) for id_ in found.runs]
    return Batch(dry_run=False, done=len(ids), left=found.left, runs=ids, next=str(found.next) if found.next else None)


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
        "task_counts": _counts(account.letters),
        "labels": dict(account.labels),
        "idempotency_key": account.idempotency_key,
        "parent_run_id": str(account.parent_id) if account.parent_id else None,
        "retried": account.round,
        "duration_ms": milliseconds(account.took),
        "input": account.input,
        "reason": account.reason,
        "cursor": account.cursor,
        "trigger": _trigger(account.trigger),
        "attempts": [
            Attempt(attempt=one.number, status=one.state, began_at=one.began_at, ended_at=one.ended_at)
            for one in account.rounds
        ],
        "tasks": {step.step.name: task(step, account) for step in account.steps},
    }


def _trigger(told: Origin) -> Trigger:
    above = str(told.parent_id) if told.parent_id else None
    return Trigger(kind=told.kind, scheduled_for=told.scheduled_for, parent_id=above)


def _counts(letters: str) -> dict[str, int]:
    counts: dict[str, int] = {}
    for letter in Letter:
        if count := letters.count(letter):
            counts[vocabulary.LETTERS[letter].value] = count
    return counts
