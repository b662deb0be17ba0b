"""What can happen to a run. Steps are named by their number in the plan."""

from dataclasses import dataclass

from windlass.core.runs.reason import Reason
from windlass.core.runs.run import Letter


@dataclass(frozen=True, slots=True)
class Begun:
    """The run starts, or no longer has to wait for others of its workflow."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A step, or `count` instances of it, ended; skipped means that its holder let it be."""

    step: int
    letter: Letter
    reason: Reason | None = None
    count: int = 1


@dataclass(frozen=True, slots=True)
class ChildStopped:
    """A run below a step was cancelled because an earlier round of this run asked for it."""

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
class CancelAsked:
    reason: Reason


@dataclass(frozen=True, slots=True)
class Expired:
    """The run's time is over."""


@dataclass(frozen=True, slots=True)
class RetryAsked:
    """Do again what failed and what hung on it; keep what succeeded."""


@dataclass(frozen=True, slots=True)
class RerunAsked:
    """Do this step again, and everything after it."""

    step: int


Event = Begun | Ended | ChildStopped | Judged | Expanded | CancelAsked | Expired | RetryAsked | RerunAsked
