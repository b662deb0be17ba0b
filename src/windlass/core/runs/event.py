"""The events of a run. Steps are identified by their number in the plan."""

from dataclasses import dataclass

from windlass.core.runs.reason import Reason
from windlass.core.runs.run import Letter


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
class CancelAsked:
    reason: Reason


@dataclass(frozen=True, slots=True)
class Expired:
    """The run exceeded its `max_duration`."""


@dataclass(frozen=True, slots=True)
class RetryAsked:
    """Run all failed, timed-out, cancelled and skipped steps again; keep what succeeded."""


@dataclass(frozen=True, slots=True)
class RerunAsked:
    """Run this step and all its descendants again."""

    step: int


Event = Begun | Ended | ChildStopped | Judged | Expanded | CancelAsked | Expired | RetryAsked | RerunAsked
