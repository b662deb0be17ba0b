"""The commands that `decide` returns. `Judge` and `Expand` are questions: their answers come back as events."""

from dataclasses import dataclass
from datetime import datetime

from windlass.core.runs.reason import Reason
from windlass.core.runs.run import Letter, RunState


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
    """Run `count` failed or cancelled instances of a fanned-out step again."""

    step: int
    count: int


@dataclass(frozen=True, slots=True)
class WakeAt:
    step: int
    at: datetime


@dataclass(frozen=True, slots=True)
class ListenUntil:
    step: int
    at: datetime | None


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Cancel the work of a step: unclaimed jobs and timers end at once, workers and child runs are asked to stop."""

    step: int


@dataclass(frozen=True, slots=True)
class Conclude:
    """End the run. A run that did not complete has a reason."""

    state: RunState
    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class Note:
    """Record why a step's letter changed."""

    step: int
    letter: Letter
    reason: Reason


Command = Judge | Expand | Enqueue | StartChild | Reopen | WakeAt | ListenUntil | Withdraw | Conclude | Note
