"""What became of one attempt. Effects return one of these and never raise for it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any


@dataclass(frozen=True, slots=True)
class Succeeded:
    result: str = "null"  # JSON text, checked: a poisoned value never reaches a batch


@dataclass(frozen=True, slots=True)
class Failed:
    """`error` has `type`, `message` and where it helps `traceback`; all text in it can be stored."""

    error: Mapping[str, Any]
    retryable: bool = True
    retry_after: timedelta | None = None
    result: str | None = None  # JSON text kept with the failure: the answer of an HTTP step
    dead_letter: bool | None = None  # whether somebody is to look at it if it is final; None: the policy says


@dataclass(frozen=True, slots=True)
class Released:
    """The attempt did not come to an end; the job goes back to its queue uncharged, after `delay`."""

    reason: str | None = None  # recorded in the job's events
    delay: timedelta = timedelta()


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The attempt was asked to stop, because its run was cancelled, and did."""


Outcome = Succeeded | Failed | Released | Cancelled
