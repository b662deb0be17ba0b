"""Statuses of the API for the letters of steps, the states of jobs and the rows of workers."""

from collections.abc import Mapping

from windlass.core.jobs.job import JobState
from windlass.core.runs.run import NEVER_BEGAN, WORDS, Letter
from windlass.core.workflows.step import (
    Action,
    ChildAction,
    CommandAction,
    HookAction,
    HttpAction,
    JobAction,
    SleepAction,
)
from windlass.schemas.common import TaskStatus, WorkerStatus

LETTERS: Mapping[Letter, TaskStatus] = {
    Letter.WAITING: TaskStatus.PENDING,
    Letter.ACTIVE: TaskStatus.RUNNING,
    Letter.SUCCEEDED: TaskStatus.SUCCESS,
    Letter.FAILED: TaskStatus.FAILED,
    Letter.TIMED_OUT: TaskStatus.TIMEOUT,
    Letter.SKIPPED: TaskStatus.SKIPPED,
    Letter.CANCELLED: TaskStatus.CANCELLED,
}
INSTANCES: Mapping[JobState, TaskStatus] = {
    JobState.PENDING: TaskStatus.PENDING,
    JobState.LEASED: TaskStatus.RUNNING,
    JobState.SUCCEEDED: TaskStatus.SUCCESS,
    JobState.FAILED: TaskStatus.FAILED,
    JobState.CANCELLED: TaskStatus.CANCELLED,
}
TYPES: Mapping[type[Action], str] = {
    HttpAction: "http",
    JobAction: "job",
    SleepAction: "sleep",
    HookAction: "wait_for_webhook",
    CommandAction: "command",
    ChildAction: "workflow",
}
_ACTIVE: Mapping[type[Action], TaskStatus] = {SleepAction: TaskStatus.SLEEPING, HookAction: TaskStatus.WAITING}
_LETTERS: Mapping[str, Letter] = {word: letter for letter, word in WORDS.items()}


def of_task(letter: Letter, action: Action, code: str | None = None) -> TaskStatus:
    """Return the status of a task; `code` is that of the reason of its letter."""
    if letter is Letter.ACTIVE:
        return _ACTIVE.get(type(action), TaskStatus.RUNNING)
    if letter is Letter.FAILED and code == NEVER_BEGAN:
        return TaskStatus.TEMPLATE_ERROR
    return LETTERS[letter]


def of_event(word: str, action: Action | None, code: str | None = None) -> str:
    """Return the name of an event: the new status of a task, or the word itself for an event of the run."""
    letter = None if action is None else _LETTERS.get(word)
    return word if action is None or letter is None else of_task(letter, action, code).value


def of_worker(state: str, *, alive: bool) -> WorkerStatus:
    """Return the status of a worker; one that reported its stop is not silent."""
    status = WorkerStatus(state)
    return status if alive or status is WorkerStatus.STOPPED else WorkerStatus.SILENT
