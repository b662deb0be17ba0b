"""Sentences that say what an active step is waiting for."""

from collections.abc import Iterator
from datetime import UTC, datetime

from windlass.core import duration
from windlass.core.explain.snapshot import JobSnapshot, RunSnapshot, Served, StepSnapshot
from windlass.core.jobs.job import JobState
from windlass.core.workflows.step import HookAction
from windlass.core.workflows.step_payload import COMMAND_TYPE, HTTP_TYPE

LONGEST_ERROR = 300


def now_of(account: RunSnapshot, step: StepSnapshot) -> Iterator[str]:
    """Yield what an active step is waiting for; for a fanned-out step, the counts of its instances come first."""
    if step.fan is not None:
        fan = step.fan
        failed = f", {fan.failed} failed" if fan.failed else ""
        later = f", {fan.count - fan.created} are not begun yet" if fan.count > fan.created else ""
        yield f"{fan.ended} of its {fan.count} instances have ended{failed}; {fan.active} are under way{later}."
    if step.below is not None:
        yield _below(step)
    elif isinstance(step.step.action, HookAction):
        until = f", until {at(step.wakes_at)} at the latest" if step.wakes_at is not None else ""
        yield f"It waits for a callback from outside{until}."
    elif step.wakes_at is not None:
        yield f"It sleeps until {at(step.wakes_at)}, {_from_now(account, step.wakes_at)}."
    elif step.job is not None:
        yield from _job(account, step, step.job)
    else:
        yield "It is under way."


def at(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(sep=" ", timespec="seconds").replace("+00:00", "Z")


def first_line(text: str | None) -> str:
    """Return the first line, shortened, without its full stop: the caller's sentence adds one."""
    told = next(iter((text or "").strip().splitlines()), "nobody wrote down why")
    return (told if len(told) <= LONGEST_ERROR else f"{told[: LONGEST_ERROR - 1]}…").rstrip(".")


def _below(step: StepSnapshot) -> str:
    below = step.below
    assert below is not None
    if below.count == 1:
        return f"It waits for run {below.id}, which is {below.state}: `windlass explain {below.id}`."
    told = f"{below.live} of {below.count} runs are under way; one to look at is {below.state}"
    return f"It waits for its runs: {told}, `windlass explain {below.id}`."


def _job(account: RunSnapshot, step: StepSnapshot, job: JobSnapshot) -> Iterator[str]:
    which = "Its job" if step.fan is None else f"Instance {job.item}"
    if job.state is JobState.LEASED:
        since = step.took(account.now) if step.fan is None else None
        time = f" for {duration.brief(since)}" if since is not None and not job.failures else ""
        stopping = " and was asked to stop" if job.stopping else ""
        yield f"Worker {job.worker} has been at it{time}, attempt {job.attempts} of {job.max_attempts}{stopping}."
    elif job.state is JobState.PENDING:
        if job.failures:
            yield f"Attempt {job.failures} of {job.max_attempts} failed: {first_line(job.error)}."
        later = job.due_at > account.now
        if later:
            yield f"The next begins at {at(job.due_at)}, {_from_now(account, job.due_at)}."
        if not later or job.served is not Served.YES:
            yield from _in_line(which, job)
    else:
        yield f"{which} is {job.state}, and the run will hear of it in a moment."


def _in_line(which: str, job: JobSnapshot) -> Iterator[str]:
    match job.served:
        case Served.NOBODY:
            yield f"No worker serves type {job.type} in queue {job.queue}: {_remedy(job)}."
        case Served.PAUSED:
            yield f"Queue {job.queue} is paused: `windlass queues resume {job.queue}`."
        case Served.OFF:
            yield f"Type {job.type} is switched off: set is_enabled of its row in workflow.workflow_registry."
        case Served.ELSEWHERE:
            yield f"{which} waits in queue {job.queue} for a {job.runtime} worker: {job.type} is registered to it."
        case Served.YES:
            yield f"{which} waits in queue {job.queue} for a free worker."


def _remedy(job: JobSnapshot) -> str:
    """Return how to start a worker that serves this job."""
    if job.type == HTTP_TYPE:
        return "start one with `windlass worker`, or `windlass up`"
    if job.type == COMMAND_TYPE:
        return "start one with `windlass worker --allow-commands`: whoever deploys workflows can run programs there"
    queue = "" if job.queue == "default" else f" --queue {job.queue}"
    return f"start one with `windlass worker MODULE:APP{queue}`, where APP has a handler for it"


def _from_now(account: RunSnapshot, moment: datetime) -> str:
    left = moment - account.now
    return f"{duration.rough(left)} from now" if left.total_seconds() >= 1 else "any moment"
