"""The state of a run: one letter per step, in definition order, and counters for fanned-out steps.

STEP_EDGES and RUN_EDGES list every allowed transition; `decide` makes no other. Letters: `.` waiting, `a` active,
`s` succeeded, `f` failed, `t` timed out, `k` skipped, `c` cancelled.
"""

import json
from collections.abc import Mapping
from dataclasses import astuple, dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID

from windlass.core.workflows.graph import Plan
from windlass.errors import WindlassError

NEVER_BEGAN = "template_error"  # the code of a step or instance whose input could not be filled in, and its status


class Letter(StrEnum):
    WAITING = "."
    ACTIVE = "a"
    SUCCEEDED = "s"
    FAILED = "f"
    TIMED_OUT = "t"
    SKIPPED = "k"
    CANCELLED = "c"


WORDS = {letter: letter.name.lower().replace("_", " ") for letter in Letter}


class StepMove(StrEnum):
    START = "start"
    SUCCEED = "succeed"
    FAIL = "fail"
    TIME_OUT = "time out"
    SKIP = "skip"
    CANCEL = "cancel"
    REOPEN = "reopen"


OPEN = frozenset({Letter.WAITING, Letter.ACTIVE})
BAD = frozenset({Letter.FAILED, Letter.TIMED_OUT, Letter.CANCELLED})  # meets a `failure` edge

STEP_EDGES: Mapping[tuple[Letter, StepMove], Letter] = {
    (Letter.WAITING, StepMove.START): Letter.ACTIVE,
    (Letter.WAITING, StepMove.SUCCEED): Letter.SUCCEEDED,  # a fan-out over an empty list
    (Letter.WAITING, StepMove.FAIL): Letter.FAILED,  # could not start: template or expansion failed
    (Letter.WAITING, StepMove.SKIP): Letter.SKIPPED,
    (Letter.WAITING, StepMove.CANCEL): Letter.CANCELLED,
    (Letter.ACTIVE, StepMove.SUCCEED): Letter.SUCCEEDED,
    (Letter.ACTIVE, StepMove.FAIL): Letter.FAILED,
    (Letter.ACTIVE, StepMove.TIME_OUT): Letter.TIMED_OUT,
    (Letter.ACTIVE, StepMove.SKIP): Letter.SKIPPED,  # its worker declined: paused, still running
    (Letter.ACTIVE, StepMove.CANCEL): Letter.CANCELLED,
    (Letter.SUCCEEDED, StepMove.REOPEN): Letter.WAITING,  # downstream of a rerun
    (Letter.FAILED, StepMove.REOPEN): Letter.WAITING,
    (Letter.TIMED_OUT, StepMove.REOPEN): Letter.WAITING,
    (Letter.SKIPPED, StepMove.REOPEN): Letter.WAITING,
    (Letter.CANCELLED, StepMove.REOPEN): Letter.WAITING,
}


class RunState(StrEnum):
    PENDING = "pending"  # held by a concurrency limit
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"


LIVE = frozenset({RunState.PENDING, RunState.RUNNING})


class RunMove(StrEnum):
    BEGIN = "begin"
    COMPLETE = "complete"
    FAIL = "fail"
    CANCEL = "cancel"
    EXPIRE = "expire"
    RETRY = "retry"
    RERUN = "rerun"


RUN_EDGES: Mapping[tuple[RunState, RunMove], RunState] = {
    (RunState.PENDING, RunMove.BEGIN): RunState.RUNNING,
    (RunState.PENDING, RunMove.CANCEL): RunState.CANCELLED,
    (RunState.PENDING, RunMove.EXPIRE): RunState.TIMEOUT,
    (RunState.RUNNING, RunMove.COMPLETE): RunState.COMPLETED,
    (RunState.RUNNING, RunMove.FAIL): RunState.FAILED,
    (RunState.RUNNING, RunMove.CANCEL): RunState.CANCELLED,
    (RunState.RUNNING, RunMove.EXPIRE): RunState.TIMEOUT,
    (RunState.FAILED, RunMove.RETRY): RunState.RUNNING,
    (RunState.TIMEOUT, RunMove.RETRY): RunState.RUNNING,
    (RunState.COMPLETED, RunMove.RERUN): RunState.RUNNING,
    (RunState.FAILED, RunMove.RERUN): RunState.RUNNING,
    (RunState.TIMEOUT, RunMove.RERUN): RunState.RUNNING,
}


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a step ran, waits, was skipped or failed. Stored and shown to users unchanged."""

    code: str  # for programs
    text: str  # for people


EXPIRED = Reason("expired", "the run exceeded its max_duration")


@dataclass(frozen=True, slots=True)
class Fan:
    """Counters of the instances of a fanned-out step: total, created, and ended by outcome."""

    count: int
    created: int = 0
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    parked: int = 0  # created, failed or cancelled, to be run again when a slot is free

    @property
    def ended(self) -> int:
        """Return the number of instances that ended and are not parked."""
        return self.succeeded + self.failed + self.cancelled

    @property
    def active(self) -> int:
        return self.created - self.ended - self.parked

    @property
    def letter(self) -> Letter:
        """Return the letter of the step once no instance is active."""
        if self.failed:
            return Letter.FAILED
        return Letter.SUCCEEDED if self.succeeded == self.count else Letter.CANCELLED

    @property
    def reason(self) -> Reason | None:
        """Return why the step did not succeed, as counts: the text must not depend on which instance ended last."""
        if self.letter is Letter.SUCCEEDED:
            return None
        if self.failed:
            return Reason("instances", f"{self.failed} of {self.count} instances failed")
        return Reason("instances", f"{self.count - self.succeeded} of {self.count} instances were cancelled")

    def for_display(self, letter: str) -> "Fan":
        """Return the counters for display: once the step has ended, instances that never ran count as cancelled."""
        if letter in OPEN:
            return self
        return Fan(self.count, self.count, self.succeeded, self.failed, self.count - self.succeeded - self.failed)

    def after(self, letter: Letter, count: int) -> "Fan":
        if letter is Letter.SUCCEEDED:
            return replace(self, succeeded=self.succeeded + count)
        if letter is Letter.CANCELLED:
            return replace(self, cancelled=self.cancelled + count)
        return replace(self, failed=self.failed + count)


NO_FANS: Mapping[int, Fan] = MappingProxyType({})


class Run(NamedTuple):
    """A run as `decide` sees it. A tuple for speed: the hot path creates two for every step."""

    plan: Plan
    state: RunState
    letters: str
    fans: Mapping[int, Fan] = NO_FANS

    @classmethod
    def new(cls, plan: Plan, *, held: bool = False) -> "Run":
        return cls(plan, RunState.PENDING if held else RunState.RUNNING, Letter.WAITING * len(plan.steps))


def fans_to_json(fans: Mapping[int, Fan]) -> str | None:
    return json.dumps({str(step): astuple(fan) for step, fan in fans.items()}) if fans else None


def fans_from_json(text: str | None) -> Mapping[int, Fan]:
    return {int(step): Fan(*counters) for step, counters in json.loads(text).items()} if text else {}


class RunFailed(WindlassError):
    """Raised by `RunResult.value` of a run that did not complete."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """The state and output of a run. `output` is the result of its last step, or of its last steps by name."""

    id: UUID
    state: RunState
    output: Any
    steps: dict[str, str]  # step name -> state

    @property
    def value(self) -> Any:
        """The output of the run. Raises `RunFailed` if the run did not complete."""
        if self.state is not RunState.COMPLETED:
            bad = ", ".join(name for name, state in self.steps.items() if state in ("failed", "timed out"))
            raise RunFailed(f"run {self.id} is {self.state}{f': {bad}' if bad else ''}; windlass explain {self.id}")
        return self.output
