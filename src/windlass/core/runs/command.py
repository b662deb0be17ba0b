"""The commands that `decide` returns, for the caller to execute.

`Judge` and `Expand` are questions: the caller answers them with events. Commands that can end a step immediately are
answered with events, too.
"""

from dataclasses import dataclass
from datetime import datetime

from windlass.core.runs.run import Letter, Reason, RunState


@dataclass(frozen=True, slots=True)
class Judge:
    """Evaluate the step's `if`; the answer is a `Judged`."""

    step: int


@dataclass(frozen=True, slots=True)
class Expand:
    """Compute the number of instances; the answer is an `Expanded`."""

    step: int


@dataclass(frozen=True, slots=True)
class Enqueue:
    """Create the jobs of the instances `first` to `first + count - 1`; rows of an earlier round are reopened."""

    step: int
    first: int
    count: int


@dataclass(frozen=True, slots=True)
class StartChild:
    """Start child runs, one for each of the instances `first` to `first + count - 1`."""

    step: int
    first: int
    count: int


@dataclass(frozen=True, slots=True)
class Reopen:
    """Run `count` failed or cancelled jobs of a fanned-out step again."""

    step: int
    count: int


@dataclass(frozen=True, slots=True)
class RestartChildren:
    """Start child runs again for `count` failed or cancelled instances of a fanned-out step."""

    step: int
    count: int


@dataclass(frozen=True, slots=True)
class WakeAt:
    step: int
    at: datetime


@dataclass(frozen=True, slots=True)
class OpenHook:
    """Create the callback address of a step; keep an existing one."""

    step: int


@dataclass(frozen=True, slots=True)
class ForgetHook:
    """Delete the callback that a step used and replace its address: the step runs again and waits for a new one."""

    step: int


@dataclass(frozen=True, slots=True)
class ListenUntil:
    """Wait for a callback. If it has arrived already, the answer is an `Ended`."""

    step: int
    at: datetime | None


@dataclass(frozen=True, slots=True)
class AwaitMessages:
    """Wait for messages. If their name or key cannot be filled in, the answer is an `Ended`."""

    step: int
    at: datetime | None


@dataclass(frozen=True, slots=True)
class RequestApproval:
    """Wait for the decision of a person. If the message cannot be filled in, the answer is an `Ended`."""

    step: int
    at: datetime | None


@dataclass(frozen=True, slots=True)
class CancelJobs:
    """Cancel the jobs of a step: unclaimed ones end at once, counted by an `Ended`; workers are requested to stop."""

    step: int


@dataclass(frozen=True, slots=True)
class CancelTimer:
    """End the sleep of a step, or its wait for a callback, a message or a decision; the answer is an `Ended`."""

    step: int


@dataclass(frozen=True, slots=True)
class CancelChildren:
    """Request the child runs of a step to stop, and to undo their succeeded steps if `compensate` is set."""

    step: int
    compensate: bool = False


@dataclass(frozen=True, slots=True)
class UndoChildren:
    """Undo the completed child runs of the step `of`, one for each of its `count` instances.

    Each answers with an `Ended` of the compensation `step`.
    """

    step: int
    of: int
    count: int


@dataclass(frozen=True, slots=True)
class Pause:
    """Hold the pending jobs of the run, and pause its child runs."""

    reason: Reason


@dataclass(frozen=True, slots=True)
class Resume:
    """Let the held jobs of the run start again, each at its original time, and resume its child runs."""

    reason: Reason


@dataclass(frozen=True, slots=True)
class Undoing:
    """Record in the run's event trail that the steps that succeeded are undone, and why."""

    reason: Reason


@dataclass(frozen=True, slots=True)
class Reply:
    """Report to the compensation `step` of the parent run that this run is undone, or why it is not."""

    step: int
    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class Conclude:
    """End the run. A run that did not complete has a reason."""

    state: RunState
    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class Note:
    """Record in the run's event trail that a step started or ended, and why."""

    step: int
    letter: Letter
    reason: Reason | None = None


Question = Judge | Expand
Wait = WakeAt | ListenUntil | AwaitMessages | RequestApproval
Start = Enqueue | StartChild | Reopen | RestartChildren | Wait | UndoChildren
Cancel = CancelJobs | CancelTimer | CancelChildren
Command = Question | Start | Cancel | OpenHook | ForgetHook | Conclude | Note | Undoing | Reply | Pause | Resume
