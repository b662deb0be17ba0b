"""Describes the current state of a step in sentences, in a one-line summary, and by an `Activity` for programs.

A summary is for trees and tables; it changes only when the state changes, never because time passes. An activity is
more specific than a status such as `running`.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple

from windlass.core import duration
from windlass.core.explain.snapshot import ChildSnapshot, JobSnapshot, RunSnapshot, Served, StepSnapshot
from windlass.core.jobs.job import JobState
from windlass.core.launches import SUBPROCESS, LaunchState, pool_of_queue
from windlass.core.runs.run import Fan, Letter, RunState
from windlass.core.workflows.step import ApprovalAction, ChildAction, EventAction, HookAction, SleepAction
from windlass.core.workflows.step_payload import COMMAND_TYPE, HTTP_TYPE

LONGEST_ERROR = 300
EXPLAINED = frozenset(
    {Letter.FAILED, Letter.TIMED_OUT, Letter.SKIPPED, Letter.CANCELLED}
)  # a summary includes the reason


class Activity(StrEnum):
    HELD = "held"  # its run is pending
    WAITING_FOR_TASKS = "waiting_for_tasks"  # the steps it needs have not ended
    QUEUED = "queued"  # a live worker serves its type and queue
    NO_WORKER = "no_worker"  # no live worker serves its type in its queue
    QUEUE_PAUSED = "queue_paused"
    RUN_PAUSED = "run_paused"
    TYPE_DISABLED = "type_disabled"  # its type is disabled in the registry
    OTHER_RUNTIME = "other_runtime"  # its type is registered to another runtime
    BACKING_OFF = "backing_off"  # an attempt failed, the next one is not due yet
    LAUNCHING = "launching"  # its pool has accepted it, and it has not reported that it runs
    RUNNING = "running"
    LOST = "lost"  # its pool does not list it any more
    STOPPING = "stopping"  # a stop was requested from its worker
    SLEEPING = "sleeping"
    WAITING_FOR_CALLBACK = "waiting_for_callback"
    WAITING_FOR_MESSAGE = "waiting_for_message"
    WAITING_FOR_APPROVAL = "waiting_for_approval"
    WAITING_FOR_CHILD = "waiting_for_child"


class StepActivity(NamedTuple):
    activity: Activity
    until: datetime | None = None  # when a sleep, a wait or a backoff ends


LAUNCHED = {
    LaunchState.LAUNCHING: Activity.LAUNCHING,
    LaunchState.RUNNING: Activity.RUNNING,
    LaunchState.LOST: Activity.LOST,
    LaunchState.STOPPING: Activity.STOPPING,
}
WAITS = {
    "sleep": Activity.SLEEPING,
    "wait": Activity.WAITING_FOR_MESSAGE,
    "run": Activity.WAITING_FOR_CHILD,
}  # of suspended handlers, by the kind of the durable call
SERVED = {
    Served.YES: Activity.QUEUED,
    Served.NO_WORKER: Activity.NO_WORKER,
    Served.PAUSED: Activity.QUEUE_PAUSED,
    Served.RUN_PAUSED: Activity.RUN_PAUSED,
    Served.OFF: Activity.TYPE_DISABLED,
    Served.ELSEWHERE: Activity.OTHER_RUNTIME,
}


def current_sentences(run: RunSnapshot, step: StepSnapshot) -> Iterator[str]:
    """Yield sentences about what an active step waits for; for a fanned-out step, after the counts of its instances."""
    if step.fan is not None:
        fan = step.fan
        failed = f", {fan.failed} failed" if fan.failed else ""
        later = f", {fan.count - fan.created} have not started" if fan.count > fan.created else ""
        yield f"{fan.ended} of its {fan.count} instances have ended{failed}; {fan.active} are active{later}."
    if step.child is not None:
        yield _child_sentence(step.child)
    elif isinstance(step.step.action, HookAction):
        until = f", until {at(step.wakes_at)} at the latest" if step.wakes_at is not None else ""
        yield f"It waits for a callback{until}."
    elif step.awaited is not None:
        until = f", until {at(step.wakes_at)} at the latest" if step.wakes_at is not None else ""
        yield f"It waits for {step.awaited.text}{until}."
    elif step.wakes_at is not None:
        yield f"It sleeps until {at(step.wakes_at)}, {_from_now(run, step.wakes_at)}."
    elif step.job is not None:
        yield from _job(run, step, step.job)
    else:
        yield "It is running."


def at(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(sep=" ", timespec="seconds").replace("+00:00", "Z")


def first_line(text: str | None) -> str:
    """Return the first line, shortened, without its full stop: the caller's sentence adds one."""
    line = next(iter((text or "").strip().splitlines()), "no reason was recorded")
    return (line if len(line) <= LONGEST_ERROR else f"{line[: LONGEST_ERROR - 1]}…").rstrip(".")


def _child_sentence(child: ChildSnapshot) -> str:
    if child.count == 1:
        return f"It waits for run {child.id}, which is {child.state}: `windlass explain {child.id}`."
    counts = f"{child.live} of {child.count} runs are active; one of them is {child.state}"
    return f"It waits for its runs: {counts}, `windlass explain {child.id}`."


def _job(run: RunSnapshot, step: StepSnapshot, job: JobSnapshot) -> Iterator[str]:
    which = "Its job" if step.fan is None else f"Instance {job.item}"
    if job.state is JobState.LEASED:
        since = step.took(run.now) if step.fan is None else None
        took = duration.brief(since) if since is not None and not job.failures else ""
        stopping = " and was requested to stop" if job.stopping else ""
        attempt = f"attempt {job.attempts} of {job.max_attempts}"
        if job.launch is not None:
            text = job.launch_text or f"launching on {pool_of_queue(job.queue)}"
            yield f"{which} is {text} ({', '.join(filter(None, [attempt, took]))}){stopping}."
        else:
            yield f"Worker {job.worker} has been running it{took and f' for {took}'}, {attempt}{stopping}."
    elif job.state is JobState.PENDING:
        if job.failures:
            yield f"Attempt {job.failures} of {job.max_attempts} failed: {first_line(job.error)}."
        later = job.due_at > run.now and job.served is not Served.RUN_PAUSED
        if later and job.wait is not None:
            until = f", until {at(job.wait.until)} at the latest" if job.wait.until is not None else ""
            yield f"Its handler waits in `{job.wait.name}`{until}: `windlass jobs steps {job.id}`."
        elif later:
            yield f"The next attempt starts at {at(job.due_at)}, {_from_now(run, job.due_at)}."
        if not later or job.served is not Served.YES:
            yield _queue_sentence(which, job)
    else:
        yield f"{which} is {job.state}, and the run will be updated in a moment."


def _queue_sentence(which: str, job: JobSnapshot) -> str:
    match job.served:
        case Served.NO_WORKER:
            sentence = _unserved(job)
            return f"{sentence[0].upper()}{sentence[1:]}: {_remedy(job)}."
        case Served.RUN_PAUSED:
            return f"{which} starts when the run is resumed."
        case Served.PAUSED:
            return f"Queue {job.queue} is paused: `windlass queues resume {job.queue}`."
        case Served.OFF:
            return f"Type {job.type} is disabled: set is_enabled of its row in workflow.workflow_registry."
        case Served.ELSEWHERE:
            return f"{which} waits in queue {job.queue} for a {job.runtime} worker: {job.type} is registered to it."
        case Served.YES:
            pool = pool_of_queue(job.queue)
            where = f"in queue {job.queue} for a free worker" if pool is None else f"for a free slot of pool {pool}"
            return f"{which} waits {where}."


def _unserved(job: JobSnapshot, word: str = "type ") -> str:
    pool = pool_of_queue(job.queue)
    return (
        f"no worker serves {word}{job.type} in queue {job.queue}" if pool is None else f"no process offers pool {pool}"
    )


def _remedy(job: JobSnapshot) -> str:
    """Return how to start a worker that serves this job."""
    pool = pool_of_queue(job.queue)
    if pool is not None and pool != SUBPROCESS:
        return f"start a worker whose WINDLASS_POOLS has {pool}"
    if job.type == HTTP_TYPE:
        return "start one with `windlass worker`, or `windlass up`"
    if job.type == COMMAND_TYPE:
        return (
            "start one with `windlass worker --allow-commands`: anyone who can deploy workflows can run programs there"
        )
    queue = "" if job.queue == "default" else f" --queue {job.queue}"
    return f"start one with `windlass worker MODULE:APP{queue}`, where APP has a handler for it"


def _from_now(run: RunSnapshot, moment: datetime) -> str:
    left = moment - run.now
    return f"{duration.rough(left)} from now" if left.total_seconds() >= 1 else "any moment"


def summary(step: StepSnapshot) -> str:
    """Return progress, then what the step waits for or why it ended; empty if there is nothing to add to its state."""
    parts = [progress(step.fan.for_display(step.letter))] if step.fan is not None else []
    if step.letter is Letter.ACTIVE:
        parts += _waiting(step)
    elif step.letter in EXPLAINED:
        parts += [first_line(why) for why in [_why(step)] if why]
    elif step.letter is Letter.SUCCEEDED and step.fan is None and step.job is not None and step.job.failures:
        parts.append(f"attempt {step.job.attempts} of {step.job.max_attempts}")
    return ", ".join(parts)


def progress(fan: Fan) -> str:
    """Return the counts of the instances, such as `12/100, 1 failed`."""
    bad = [f"{count} {word}" for count, word in ((fan.failed, "failed"), (fan.cancelled, "cancelled")) if count]
    return ", ".join([f"{fan.ended}/{fan.count}", *bad])


def _why(step: StepSnapshot) -> str | None:
    if step.failed is not None:
        return f"number {step.failed.item}: {step.failed.error}"
    if step.reason is None and step.job is not None and step.letter is not Letter.CANCELLED:
        return step.job.error
    return step.reason if step.fan is None else None


def _waiting(step: StepSnapshot) -> list[str]:
    if step.awaited is not None:
        return [f"for {step.awaited.text}", *([f"until {at(step.wakes_at)}"] if step.wakes_at is not None else [])]
    if step.wakes_at is not None:
        return [f"until {at(step.wakes_at)}"]
    if step.child is not None:
        return [f"run {step.child.id} is {step.child.state}"]
    return _job_summary(step.job) if step.job is not None else []


def _job_summary(job: JobSnapshot) -> list[str]:
    if job.state is JobState.LEASED:
        attempt = [f"attempt {job.attempts} of {job.max_attempts}"] if job.failures else []
        launch = [job.launch_text] if job.launch_text else []
        return attempt + launch + (["stop requested"] if job.stopping else [])
    if job.state is not JobState.PENDING:
        return []
    if job.wait is not None:
        until = [f"until {at(job.wait.until)}"] if job.wait.until is not None else []
        return [f"its handler waits in {job.wait.name}", *until]
    if job.served is Served.NO_WORKER:
        return [_unserved(job, word="")]
    if job.served is Served.RUN_PAUSED:
        return ["the run is paused"]
    if job.served is Served.PAUSED:
        return [f"queue {job.queue} is paused"]
    if job.served is Served.OFF:
        return [f"{job.type} is disabled"]
    if job.failures:
        return [f"attempt {job.failures + 1} of {job.max_attempts} at {at(job.due_at)} after: {first_line(job.error)}"]
    return []


def activity_of(step: StepSnapshot, run: RunState, now: datetime) -> StepActivity | None:
    """Return the current activity of a step; None if it has ended."""
    if step.letter is Letter.WAITING:
        return StepActivity(Activity.HELD if run is RunState.PENDING else Activity.WAITING_FOR_TASKS)
    if step.letter is not Letter.ACTIVE:
        return None
    if isinstance(step.step.action, SleepAction):
        return StepActivity(Activity.SLEEPING, step.wakes_at)
    if isinstance(step.step.action, HookAction):
        return StepActivity(Activity.WAITING_FOR_CALLBACK, step.wakes_at)
    if isinstance(step.step.action, EventAction):
        return StepActivity(Activity.WAITING_FOR_MESSAGE, step.wakes_at)
    if isinstance(step.step.action, ApprovalAction):
        return StepActivity(Activity.WAITING_FOR_APPROVAL, step.wakes_at)
    if isinstance(step.step.action, ChildAction):
        return StepActivity(Activity.WAITING_FOR_CHILD)
    if step.busy or step.job is None:
        return StepActivity(Activity.LAUNCHING if step.is_launching else Activity.RUNNING)
    return _job_activity(step.job, now)


def _job_activity(job: JobSnapshot, now: datetime) -> StepActivity:
    if job.state is not JobState.PENDING:  # leased, or ended and not yet settled
        launched = Activity.RUNNING if job.launch is None else LAUNCHED[job.launch]
        return StepActivity(Activity.STOPPING if job.stopping else launched)
    if job.wait is not None and job.due_at > now:
        return StepActivity(WAITS.get(job.wait.kind, Activity.SLEEPING), job.wait.until)
    if job.served is Served.YES and job.due_at > now:
        return StepActivity(Activity.BACKING_OFF, job.due_at)
    return StepActivity(SERVED[job.served])
