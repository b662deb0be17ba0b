"""The outcome of one attempt. Effects return one of these types instead of raising."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any


@dataclass(frozen=True, slots=True)
class Succeeded:
    result: str = "null"  # JSON text, validated: one bad value must not fail a whole batch


@dataclass(frozen=True, slots=True)
class Failed:
    """The attempt failed. `error` has `type`, `message` and sometimes `traceback`; Postgres can store all its text."""

    error: Mapping[str, Any]
    retryable: bool = True
    retry_after: timedelta | None = None
    result: str | None = None  # JSON text kept with the failure: the response of an HTTP step
    dead_letter: bool | None = None  # whether a final failure becomes a dead letter; None: by the policy


@dataclass(frozen=True, slots=True)
class Released:
    """The attempt did not finish; the job goes back to its queue after `delay`, and no failure is charged."""

    reason: str | None = None  # recorded in the job's events
    delay: timedelta = timedelta()


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The attempt stopped on request, because its run was cancelled."""


Outcome = Succeeded | Failed | Released | Cancelled
