"""The current activity of a step as an enum value: finer than a status such as `running`."""

from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from windlass.core.explain.snapshot import JobSnapshot, Served, StepSnapshot
from windlass.core.jobs.job import JobState
from windlass.core.runs.run import Letter, RunState
from windlass.core.workflows.step import ChildAction, HookAction, SleepAction


class Activity(StrEnum):
    HELD = "held"  # its run is pending
    WAITING_FOR_TASKS = "waiting_for_tasks"  # the steps it needs have not ended
    QUEUED = "queued"  # a live worker serves its type and queue
    NO_WORKER = "no_worker"  # no live worker serves its type in its queue
    QUEUE_PAUSED = "queue_paused"
    TYPE_DISABLED = "type_disabled"  # its type is switched off in the registry
    OTHER_RUNTIME = "other_runtime"  # its type is registered to another runtime
    BACKING_OFF = "backing_off"  # an attempt failed, the next one is not due yet
    RUNNING = "running"
    STOPPING = "stopping"  # its worker was asked to stop
    SLEEPING = "sleeping"
    WAITING_FOR_CALLBACK = "waiting_for_callback"
    WAITING_FOR_CHILD = "waiting_for_child"


class Doing(NamedTuple):
    activity: Activity
    until: datetime | None = None  # when a sleep, a wait or a backoff ends


SERVED = {
    Served.YES: Activity.QUEUED,
    Served.NOBODY: Activity.NO_WORKER,
    Served.PAUSED: Activity.QUEUE_PAUSED,
    Served.OFF: Activity.TYPE_DISABLED,
    Served.ELSEWHERE: Activity.OTHER_RUNTIME,
}


def doing(step: StepSnapshot, run: RunState, now: datetime) -> Doing | None:
    """Return what the step is doing; None: it has ended."""
    if step.letter is Letter.WAITING:
        return Doing(Activity.HELD if run is RunState.PENDING else Activity.WAITING_FOR_TASKS)
    if step.letter is not Letter.ACTIVE:
        return None
    if isinstance(step.step.action, SleepAction):
        return Doing(Activity.SLEEPING, step.wakes_at)
    if isinstance(step.step.action, HookAction):
        return Doing(Activity.WAITING_FOR_CALLBACK, step.wakes_at)
    if isinstance(step.step.action, ChildAction):
        return Doing(Activity.WAITING_FOR_CHILD)
    if step.busy or step.job is None:
        return Doing(Activity.RUNNING)
    return _job(step.job, now)


def _job(job: JobSnapshot, now: datetime) -> Doing:
    if job.state is not JobState.PENDING:  # leased, or ended and not yet settled
        return Doing(Activity.STOPPING if job.stopping else Activity.RUNNING)
    if job.served is Served.YES and job.due_at > now:
        return Doing(Activity.BACKING_OFF, job.due_at)
    return Doing(SERVED[job.served])
