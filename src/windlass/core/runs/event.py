"""Defines the events of a run, and derives them from ended jobs, ended child runs and fired timers.

Steps are identified by their number in the plan.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from windlass.core.runs.run import Letter, Reason
from windlass.core.workflows.graph import Plan
from windlass.core.workflows.step import EventAction, HookAction

ERROR_LETTERS = {"Timeout": Letter.TIMED_OUT, "Skipped": Letter.SKIPPED}  # error types whose letter is not FAILED


@dataclass(frozen=True, slots=True)
class Begun:
    """The run starts, or the concurrency limit of its workflow no longer holds it."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A step, or `count` instances of it, ended. An active step ends as skipped if its worker declined to run it."""

    step: int
    letter: Letter
    reason: Reason | None = None
    count: int = 1


@dataclass(frozen=True, slots=True)
class ChildStopped:
    """A child run was cancelled at the request of an earlier round of this run."""

    step: int
    item: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class Judged:
    """The answer to `Judge`."""

    step: int
    holds: bool
    reason: Reason


@dataclass(frozen=True, slots=True)
class Expanded:
    """The answer to `Expand`; a failure to expand is an `Ended` with the reason."""

    step: int
    count: int


@dataclass(frozen=True, slots=True)
class CancelRequested:
    reason: Reason
    compensate: bool = False  # undo the steps that succeeded


@dataclass(frozen=True, slots=True)
class UndoRequested:
    """The parent run is undone, and this run with it. The parent's compensation `reply` waits for the answer."""

    reason: Reason
    reply: int


@dataclass(frozen=True, slots=True)
class Expired:
    """The run exceeded its `max_duration`."""


@dataclass(frozen=True, slots=True)
class RetryRequested:
    """Run all failed, timed-out, cancelled and skipped steps again; keep the succeeded ones.

    `held`: the concurrency limit is reached; the retry begins later.
    """

    held: bool = False


@dataclass(frozen=True, slots=True)
class RerunRequested:
    """Run this step and all its descendants again."""

    step: int
    held: bool = False


@dataclass(frozen=True, slots=True)
class PauseRequested:
    """Start no more jobs until the run is resumed. Timers, callbacks and running jobs continue."""

    reason: Reason


@dataclass(frozen=True, slots=True)
class ResumeRequested:
    reason: Reason


Stop = CancelRequested | Expired | UndoRequested
Steer = PauseRequested | ResumeRequested
Event = Begun | Ended | ChildStopped | Judged | Expanded | Stop | RetryRequested | RerunRequested | Steer


def ended_letter(status: str, error_type: str | None) -> Letter:
    """Return the letter of a step whose job ended with this status and error type."""
    if status == "succeeded":
        return Letter.SUCCEEDED
    if status == "cancelled":
        return Letter.CANCELLED
    return ERROR_LETTERS.get(error_type or "", Letter.FAILED)


def ended_jobs(ends: Iterable[tuple[UUID, int, Letter, Reason | None]]) -> dict[UUID, list[Event]]:
    """Return the events of runs whose jobs ended, given as (run, step, letter, reason).

    Instances of a step that ended with the same letter are combined into one event, with the last reason.
    """
    counts: Counter[tuple[UUID, int, Letter]] = Counter()
    reasons: dict[tuple[UUID, int, Letter], Reason] = {}
    for run, step, letter, reason in ends:
        key = run, step, letter
        counts[key] += 1
        if reason is not None:
            reasons[key] = reason
    events: dict[UUID, list[Event]] = defaultdict(list)
    for key, count in counts.items():
        run, step, letter = key
        events[run].append(Ended(step, letter, reasons.get(key), count))
    return events


def ended_child(step: int, item: int, letter: Letter, reason: str | None, *, earlier: bool) -> Event:
    """Return the parent's event for the end of a child run; `earlier`: an earlier round started the child."""
    if letter is Letter.SUCCEEDED:
        return Ended(step, letter)
    why = Reason("child", reason or "the child run failed")
    if letter is Letter.CANCELLED and earlier:
        return ChildStopped(step, item, why)  # that round expired and stopped it
    return Ended(step, letter, why)


def fired_timer(plan: Plan, step: int) -> Event:
    """Return the event of a timer: a sleep succeeds, a wait for a callback or a message times out."""
    if isinstance(plan.steps[step].action, HookAction):
        return Ended(step, Letter.TIMED_OUT, Reason("timeout", "no callback arrived in time"))
    if isinstance(plan.steps[step].action, EventAction):
        return Ended(step, Letter.TIMED_OUT, Reason("timeout", "no message arrived in time"))
    return Ended(step, Letter.SUCCEEDED)
