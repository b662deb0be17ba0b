"""What a decision asks the shell to do. `Judge` and `Expand` are questions: their answers come back as events."""

from dataclasses import dataclass
from datetime import datetime

from windlass.core.runs.reason import Reason
from windlass.core.runs.run import Letter, RunState


@dataclass(frozen=True, slots=True)
class Judge:
    """Does the step's `if` hold?"""

    step: int


@dataclass(frozen=True, slots=True)
class Expand:
    """How many instances will there be?"""

    step: int


@dataclass(frozen=True, slots=True)
class Enqueue:
    """Make jobs of the instances `first` to `first + count - 1`; rows of an earlier try are reopened."""

    step: int
    first: int
    count: int


@dataclass(frozen=True, slots=True)
class StartChild:
    """Start runs of another workflow, one for each instance."""

    step: int
    first: int
    count: int


@dataclass(frozen=True, slots=True)
class Reopen:
    """Do `count` failed instances of a fanned-out step again."""

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
    """Take back what was begun: work that nobody holds ends at once, holders are told."""

    step: int


@dataclass(frozen=True, slots=True)
class Conclude:
    """The run has ended. A run that did not complete has a reason."""

    state: RunState
    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class Note:
    """Record why a step's letter changed."""

    step: int
    letter: Letter
    reason: Reason


Command = Judge | Expand | Enqueue | StartChild | Reopen | WakeAt | ListenUntil | Withdraw | Conclude | Note
