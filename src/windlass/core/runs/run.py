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

NEVER_BEGAN = "template_error"  # reason code and status of a step or instance whose input could not be filled in
MISFIT = "input"  # reason code of a child run that was not started: its input does not fit the workflow


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
    (Letter.ACTIVE, StepMove.SKIP): Letter.SKIPPED,  # its worker declined it: paused or still running
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
    UNDO = "undo"  # the parent run is undone
    WAIT = "wait"  # retried or rerun, and held by a concurrency limit


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
    (RunState.COMPLETED, RunMove.UNDO): RunState.RUNNING,
    (RunState.COMPLETED, RunMove.WAIT): RunState.PENDING,
    (RunState.FAILED, RunMove.WAIT): RunState.PENDING,
    (RunState.TIMEOUT, RunMove.WAIT): RunState.PENDING,
}


@dataclass(frozen=True, slots=True)
class Reason:
    """The reason why a step ran, waits, was skipped or failed. Stored and shown to users unchanged."""

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


@dataclass(frozen=True, slots=True)
class Undo:
    """The record of a run with compensations, stored beside its letters.

    While a run is being undone, its state is `running`; `move` and `reason` determine how it ends afterwards.
    """

    order: tuple[int, ...] = ()  # the succeeded steps that have a compensation, in the order of their completion
    move: RunMove | None = None  # None if the run is not being undone
    reason: Reason | None = None
    reply: int | None = None  # the compensation of the parent run that waits for this one to be undone


NO_UNDO = Undo()


@dataclass(frozen=True, slots=True)
class Restart:
    """A retry, or a rerun from a step. While a concurrency limit holds it, no letter changes."""

    step: int | None = None


class Run(NamedTuple):
    """A run as `decide` sees it. A tuple for speed: the hot path creates two for every step."""

    plan: Plan
    state: RunState
    letters: str
    fans: Mapping[int, Fan] = NO_FANS
    undo: Undo = NO_UNDO
    paused: bool = False
    restart: Restart | None = None

    @classmethod
    def new(cls, plan: Plan, *, held: bool = False) -> "Run":
        return cls(plan, RunState.PENDING if held else RunState.RUNNING, first_letters(plan))

    @property
    def counters(self) -> str | None:
        """Return the JSON stored beside the letters: counters of fanned-out steps, `undo`, `restart`; None if empty."""
        if not self.fans and self.restart is None and (self.undo is NO_UNDO or self.undo == NO_UNDO):
            return None
        restart = {} if self.restart is None else {"restart": {"step": self.restart.step}}
        fans = {str(step): astuple(fan) for step, fan in self.fans.items()}
        return json.dumps(fans | _undo_to_json(self.undo) | restart)


def first_letters(plan: Plan) -> str:
    """Return the letters of a new run. A compensation counts as skipped until the run is undone."""
    if not plan.compensations:
        return Letter.WAITING * len(plan.steps)
    return "".join(Letter.SKIPPED if n in plan.compensations else Letter.WAITING for n in range(len(plan.steps)))


class Counters(NamedTuple):
    """The parsed `Run.counters`."""

    fans: Mapping[int, Fan]
    undo: Undo = NO_UNDO
    restart: Restart | None = None


def read_counters(stored: Mapping[str, Any]) -> Counters:
    fans = {int(step): Fan(*counters) for step, counters in stored.items() if step not in ("undo", "restart")}
    undo = _undo_from_json(stored["undo"]) if "undo" in stored else NO_UNDO
    return Counters(fans, undo, Restart(stored["restart"]["step"]) if "restart" in stored else None)


def _undo_to_json(undo: Undo) -> dict[str, Any]:
    if undo == NO_UNDO:
        return {}
    reason = {} if undo.reason is None else {"code": undo.reason.code, "reason": undo.reason.text}
    fields = {"order": undo.order, "move": undo.move, "reply": undo.reply} | reason
    return {"undo": {key: value for key, value in fields.items() if value is not None}}


def _undo_from_json(stored: Mapping[str, Any]) -> Undo:
    move = RunMove(stored["move"]) if "move" in stored else None
    reason = Reason(stored["code"], stored["reason"]) if "reason" in stored else None
    return Undo(tuple(stored["order"]), move, reason, stored.get("reply"))


class RunFailed(WindlassError):
    """Raised by `RunResult.value` of a run that did not complete."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """The state and output of a run. `output` is that of its last step, or of several last steps by name."""

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
