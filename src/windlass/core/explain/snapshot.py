"""An account: what is known about a run and each of its steps at one moment. Values that people are told about in
tables, trees and sentences; the shell loads them, `core.explain.explanation` makes prose of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

from windlass.core.explain.attempts import Round
from windlass.core.explain.source import BY_API, Origin
from windlass.core.jobs.job import JobState
from windlass.core.runs.run import OPEN, WORDS, Fan, Letter, RunState
from windlass.core.workflows.step import SleepAction, Step
from windlass.core.workflows.workflow import Workflow


class Served(StrEnum):
    """Will somebody take a job that waits in line?"""

    YES = "yes"
    NOBODY = "nobody"  # no live worker serves its type in its queue
    PAUSED = "paused"  # its queue is paused
    OFF = "off"  # its type is switched off in the registry
    ELSEWHERE = "elsewhere"  # its type is registered to another runtime


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSnapshot:
    """The job of a step, or of one of its instances."""

    id: UUID
    item: int
    type: str
    queue: str
    state: JobState
    failures: int  # attempts that came to nothing
    max_attempts: int
    due_at: datetime
    error: str | None = None
    worker: str | None = None  # who has it, or had it last
    stopping: bool = False  # its holder is asked to stop
    served: Served = Served.YES
    runtime: str = "python"

    @property
    def attempts(self) -> int:
        """Begun so far, the present one included."""
        return self.failures + (self.state in (JobState.LEASED, JobState.SUCCEEDED))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildSnapshot:
    """Runs of another workflow that a step started, and the one that is most worth a look."""

    count: int
    live: int
    id: UUID
    state: RunState
    done: int = 0  # of its steps, so many have ended
    total: int = 0


@dataclass(frozen=True, slots=True)
class ResponseSnapshot:
    """What the other side of an HTTP step said, without its words."""

    status_code: int | None
    duration_ms: int | None
    is_truncated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSnapshot:
    step: Step
    letter: Letter
    reason: str | None = None  # why its letter is what it is, as stored
    code: str | None = None  # the same for programs
    held: str | None = None  # why its `if` held, as stored
    fan: Fan | None = None
    job: JobSnapshot | None = None  # of a fanned-out step that of the first instance
    busy: bool = False  # of a fanned-out step: a worker holds one of its instances
    failed: JobSnapshot | None = None  # the first instance that failed
    below: ChildSnapshot | None = None
    answer: ResponseSnapshot | None = None
    wakes_at: datetime | None = None
    began_at: datetime | None = None
    ended_at: datetime | None = None

    @property
    def word(self) -> str:
        return WORDS[self.letter]

    def took(self, now: datetime) -> timedelta | None:
        """How long it worked, so far or in all; None: it never began, or nobody knows."""
        if self.letter is Letter.SUCCEEDED and isinstance(self.step.action, SleepAction):
            return self.step.action.duration
        if self.began_at is None or self.letter in (Letter.WAITING, Letter.SKIPPED):
            return None
        if self.letter is Letter.ACTIVE:
            return now - self.began_at
        return self.ended_at - self.began_at if self.ended_at is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSnapshot:
    id: UUID
    workflow: Workflow
    version: int
    state: RunState
    now: datetime
    created_at: datetime
    expires_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    workflow_id: UUID | None = None
    input: Any = None
    labels: Mapping[str, str] = field(default_factory=dict)
    idempotency_key: str | None = None
    parent_id: UUID | None = None
    trigger: Origin = BY_API
    round: int = 0
    rounds: tuple[Round, ...] = ()
    steps: tuple[StepSnapshot, ...] = ()
    reason: str | None = None  # why it was cancelled or ended early
    actor: str | None = None  # who did that
    asked_again: str | None = None  # the last retry or rerun, in words
    cursor: str | None = None  # what happens from here on is not in it
    running: int = 0  # runs of this workflow under way; only told of a run that is held

    @property
    def letters(self) -> str:
        return "".join(step.letter for step in self.steps)

    @property
    def ended(self) -> int:
        return sum(step.letter not in OPEN for step in self.steps)

    @property
    def is_live(self) -> bool:
        return self.state in (RunState.PENDING, RunState.RUNNING)

    @property
    def took(self) -> timedelta | None:
        """Since it began; None: it never did."""
        return took(self.started_at, self.finished_at, self.now)


def took(began: datetime | None, ended: datetime | None, now: datetime) -> timedelta | None:
    return None if began is None else max((ended or now) - began, timedelta())
