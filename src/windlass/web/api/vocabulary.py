"""The words of this surface. Runs have seed 001's, which are ours; 004's are taken where somebody asks for a state.

Steps are letters inside; out here they have 001's words, and `cancelled` for those that a cancelled run took back.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum

from windlass.core.jobs.job import JobState
from windlass.core.runs.reason import NEVER_BEGAN
from windlass.core.runs.run import WORDS, Letter, RunState
from windlass.core.workflows.step import (
    Action,
    ChildAction,
    CommandAction,
    HookAction,
    HttpAction,
    JobAction,
    SleepAction,
)
from windlass.errors import Invalid


class TaskStatus(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    SLEEPING = "sleeping"
    WAITING = "waiting"
    SUCCESS = "success"
    FAILED = "failed"
    TIMEOUT = "timeout"
    SKIPPED = "skipped"
    TEMPLATE_ERROR = "template_error"
    CANCELLED = "cancelled"


class WorkerStatus(StrEnum):
    RUNNING = "running"
    DRAINING = "draining"
    STOPPED = "stopped"
    SILENT = "silent"


JOB_ALIASES: Mapping[str, JobState] = {
    **{state.value: state for state in JobState},
    "running": JobState.LEASED,
    "success": JobState.SUCCEEDED,
    "completed": JobState.SUCCEEDED,
    "canceled": JobState.CANCELLED,
}

RUN_ALIASES: Mapping[str, RunState] = {
    **{state.value: state for state in RunState},
    "success": RunState.COMPLETED,
    "succeeded": RunState.COMPLETED,
    "canceled": RunState.CANCELLED,
    "timed_out": RunState.TIMEOUT,
}

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

# What a line of the inbox's trail means to the task or job it is about.
HAPPENINGS: Mapping[str, str] = {
    "created": "queued",
    "leased": "running",
    "started": "running",
    "retried": "retrying",
    "succeeded": "success",
    "failed": "failed",
    "cancelled": "cancelled",
}

_ACTIVE: Mapping[type[Action], TaskStatus] = {SleepAction: TaskStatus.SLEEPING, HookAction: TaskStatus.WAITING}
_LETTERS: Mapping[str, Letter] = {word: letter for letter, word in WORDS.items()}


def run_states(words: Iterable[str]) -> list[str]:
    """Ours, for any of the words a caller may use."""
    asked = [(word, RUN_ALIASES.get(word.lower())) for word in words]
    for word, state in asked:
        if state is None:
            known = ", ".join(RunState)
            raise Invalid(f"status is {word[:100]!r}: one of {known} (or success, for completed)", field="status")
    return list(dict.fromkeys(state.value for _, state in asked if state is not None))


def job_states(words: Iterable[str]) -> list[str]:
    """The inbox's, for any of the words a caller may use."""
    asked = [(word, JOB_ALIASES.get(word.lower())) for word in words]
    for word, state in asked:
        if state is None:
            known = ", ".join(JobState)
            raise Invalid(f"status is {word[:100]!r}: one of {known} (or running, for leased)", field="status")
    return list(dict.fromkeys(state.value for _, state in asked if state is not None))


def worker_status(state: str, *, alive: bool) -> WorkerStatus:
    """Who said goodbye is not silent."""
    known = WorkerStatus(state)
    return known if alive or known is WorkerStatus.STOPPED else WorkerStatus.SILENT


def task_status(letter: Letter, action: Action, code: str | None = None) -> TaskStatus:
    """`code` is that of the reason of its letter."""
    if letter is Letter.ACTIVE:
        return _ACTIVE.get(type(action), TaskStatus.RUNNING)
    if letter is Letter.FAILED and code == NEVER_BEGAN:
        return TaskStatus.TEMPLATE_ERROR
    return LETTERS[letter]


def event_word(word: str, action: Action | None, code: str | None = None) -> str:
    """What a line of the trail says: a status of a task, by what it does; or, of the run itself, what became of it."""
    letter = None if action is None else _LETTERS.get(word)
    return word if action is None or letter is None else task_status(letter, action, code).value
