"""One-line summaries of steps for trees and tables.

A summary changes only when the state changes, never because time passes.
"""

from windlass.core.explain.current import at, first_line
from windlass.core.explain.snapshot import JobSnapshot, Served, StepSnapshot
from windlass.core.jobs.job import JobState
from windlass.core.runs.run import Fan, Letter

TOLD = frozenset({Letter.FAILED, Letter.TIMED_OUT, Letter.SKIPPED, Letter.CANCELLED})


def remark(step: StepSnapshot) -> str:
    """Return progress, then what the step waits for or why it ended; empty if there is nothing to add to its state."""
    parts = [progress(step.fan.shown(step.letter))] if step.fan is not None else []
    if step.letter is Letter.ACTIVE:
        parts += _waiting(step)
    elif step.letter in TOLD:
        parts += [first_line(why) for why in [_why(step)] if why]
    elif step.letter is Letter.SUCCEEDED and step.fan is None and step.job is not None and step.job.failures:
        parts.append(f"attempt {step.job.attempts} of {step.job.max_attempts}")
    return ", ".join(parts)


def progress(fan: Fan) -> str:
    """Return the counts of the instances: 12/100, 1 failed."""
    bad = [f"{count} {word}" for count, word in ((fan.failed, "failed"), (fan.cancelled, "cancelled")) if count]
    return ", ".join([f"{fan.ended}/{fan.count}", *bad])


def _why(step: StepSnapshot) -> str | None:
    if step.failed is not None:
        return f"number {step.failed.item}: {step.failed.error}"
    if step.reason is None and step.job is not None and step.letter is not Letter.CANCELLED:
        return step.job.error
    return step.reason if step.fan is None else None


def _waiting(step: StepSnapshot) -> list[str]:
    if step.wakes_at is not None:
        return [f"until {at(step.wakes_at)}"]
    if step.below is not None:
        return [f"run {step.below.id} is {step.below.state}"]
    return _job(step.job) if step.job is not None else []


def _job(job: JobSnapshot) -> list[str]:
    if job.state is JobState.LEASED:
        found = [f"attempt {job.attempts} of {job.max_attempts}"] if job.failures else []
        return [*found, *(["asked to stop"] if job.stopping else [])]
    if job.state is not JobState.PENDING:
        return []
    if job.served is Served.NOBODY:
        return [f"no worker serves {job.type} in queue {job.queue}"]
    if job.served is Served.PAUSED:
        return [f"queue {job.queue} is paused"]
    if job.served is Served.OFF:
        return [f"{job.type} is switched off"]
    if job.failures:
        return [f"attempt {job.failures + 1} of {job.max_attempts} at {at(job.due_at)} after: {first_line(job.error)}"]
    return []
