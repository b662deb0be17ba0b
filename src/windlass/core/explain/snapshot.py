"""Snapshots: the state of a run and of each of its steps at one moment, for tables, trees and sentences.

The engine loads them; `core.explain.explanation` turns them into sentences. A run's origin (API call, cron, webhook,
parent run, Open Job Spec) is not stored but derived from its other data; its rounds (the first start, then one for each
retry and rerun) are reconstructed from its event trail.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple
from uuid import UUID

from windlass.core.approvals import Requested
from windlass.core.cron import schedule
from windlass.core.events.message import Awaited
from windlass.core.jobs.job import JobState
from windlass.core.launches import LaunchState
from windlass.core.runs.run import OPEN, WORDS, Fan, Letter, RunState
from windlass.core.workflows.step import SleepAction, Step
from windlass.core.workflows.workflow import Workflow
from windlass.errors import Invalid

AGAIN = frozenset({"retried", "rerun"})
ENDS = frozenset(RunState) - {RunState.PENDING, RunState.RUNNING}
EVENT_KEY = "event/"  # the prefix of the idempotency keys of runs that events start
SCHEDULED_FOR = "windlass-scheduled-for"  # the trigger header with the time of the tick


class OriginKind(StrEnum):
    API = "api"
    CRON = "cron"
    WEBHOOK = "webhook"
    EVENT = "event"
    PARENT = "parent"
    OJS = "ojs"


@dataclass(frozen=True, slots=True)
class Origin:
    kind: OriginKind
    scheduled_for: datetime | None = None  # the tick of a cron
    parent_id: UUID | None = None  # the parent run


BY_API = Origin(OriginKind.API)


def origin(
    *, key: str | None, headers: Mapping[str, str] | None, parent_id: UUID | None = None, composed: bool = False
) -> Origin:
    """Return the origin of a run.

    `key` is its idempotency key, `headers` are those of its trigger (None: it had none), and `composed` means that it
    is a composition of jobs.
    """
    if parent_id is not None:
        return Origin(OriginKind.PARENT, parent_id=parent_id)
    if composed:
        return Origin(OriginKind.OJS)
    if headers is None:
        return BY_API
    if key is not None and key.startswith(EVENT_KEY) and "event-name" in headers:
        return Origin(OriginKind.EVENT)
    if schedule.is_key(key) and SCHEDULED_FOR in headers:  # both: a client can send either one
        return Origin(OriginKind.CRON, scheduled_for=datetime.fromisoformat(headers[SCHEDULED_FOR]))
    return Origin(OriginKind.WEBHOOK)


@dataclass(frozen=True, slots=True)
class StateChange:
    """An entry of the event trail about the run itself, not about a step."""

    id: int
    word: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Round:
    """One round: the events with `first <= id < following` and the spans with `began_at <= start < left_at`.

    An upper bound of None means no bound.
    """

    number: int
    state: RunState  # its end state, or the current state of the run
    began_at: datetime
    ended_at: datetime | None
    first: int = 0
    following: int | None = None
    left_at: datetime | None = None


def rounds(
    lines: Sequence[StateChange], *, state: RunState, began_at: datetime, ended_at: datetime | None
) -> tuple[Round, ...]:
    """Return the rounds in order; the last one has the current state of the run."""
    earlier: list[Round] = []
    first, end = 0, (state, ended_at)
    for line in lines:
        if line.word in ENDS:
            end = (RunState(line.word), line.at)
        elif line.word in AGAIN:
            earlier.append(Round(len(earlier) + 1, end[0], began_at, end[1], first, line.id, line.at))
            first, began_at = line.id, line.at
    return (*earlier, Round(len(earlier) + 1, state, began_at, ended_at, first))


def round_of(known: Sequence[Round], number: int) -> Round:
    if not 1 <= number <= len(known):
        count = "1 attempt" if len(known) == 1 else f"{len(known)} attempts"
        raise Invalid(f"attempt is {number}: the run has {count}", field="attempt")
    return known[number - 1]


class Served(StrEnum):
    """Whether a worker will claim a pending job, and if not, why not."""

    YES = "yes"
    NO_WORKER = "no_worker"  # no live worker serves its type in its queue
    PAUSED = "paused"  # its queue is paused
    RUN_PAUSED = "run_paused"  # its run is paused
    OFF = "off"  # its type is disabled in the registry
    ELSEWHERE = "elsewhere"  # its type is registered to another runtime


class HandlerWait(NamedTuple):
    """The call in which a suspended handler waits."""

    name: str
    kind: str
    until: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSnapshot:
    """The job of a step, or of one of its instances."""

    id: UUID
    item: int
    type: str
    queue: str
    state: JobState
    failures: int  # attempts that failed or lost their lease
    max_attempts: int
    due_at: datetime
    error: str | None = None
    worker: str | None = None  # the worker that holds it, or held it last
    stopping: bool = False  # a stop was requested from its worker
    served: Served = Served.YES
    runtime: str = "python"
    launch: LaunchState | None = None  # of a job that a pool holds
    launch_text: str | None = None  # the state of the launch, for display
    wait: HandlerWait | None = None  # of a job whose handler is suspended

    @property
    def attempts(self) -> int:
        """Return the number of attempts started so far, including the current one."""
        return self.failures + (self.state in (JobState.LEASED, JobState.SUCCEEDED))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildSnapshot:
    """The child runs of a step: how many there are, and the most relevant one."""

    count: int
    live: int
    id: UUID
    state: RunState
    done: int = 0  # how many of its steps have ended
    total: int = 0


@dataclass(frozen=True, slots=True)
class ResponseSnapshot:
    """The response of an HTTP step, without its body."""

    status_code: int | None
    duration_ms: int | None
    is_truncated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSnapshot:
    step: Step
    letter: Letter
    reason: str | None = None  # why it has this letter, as stored
    code: str | None = None  # machine-readable code of the reason
    held: str | None = None  # why its `if` was true, as stored
    fan: Fan | None = None
    job: JobSnapshot | None = None  # of a fanned-out step: the job of the first instance
    busy: bool = False  # of a fanned-out step: a worker holds one of its instances
    is_launching: bool = False  # of a fanned-out step: the busy instances are on a pool, and none has reported running
    failed: JobSnapshot | None = None  # the first instance that failed
    child: ChildSnapshot | None = None
    answer: ResponseSnapshot | None = None
    wakes_at: datetime | None = None
    awaited: Awaited | Requested | None = None  # the message or the decision that it waits for
    began_at: datetime | None = None
    ended_at: datetime | None = None

    @property
    def word(self) -> str:
        return WORDS[self.letter]

    def took(self, now: datetime) -> timedelta | None:
        """Return how long the step has run so far or ran in total; None if it never started or a time is unknown."""
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
    reason: str | None = None  # why it was cancelled or ended early, or is being undone
    paused_at: datetime | None = None
    is_undone: bool = False  # compensations run, or will once no other step is active
    actor: str | None = None  # who cancelled it or ended it early
    last_restart: str | None = None  # a description of the last retry or rerun
    cursor: str | None = None  # later events are not in this snapshot
    running: int = 0  # active runs of this workflow; only set for a pending run

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
        """Return the time since the run started, until it ended; None if it never started."""
        return took(self.started_at, self.finished_at, self.now)


def took(began: datetime | None, ended: datetime | None, now: datetime) -> timedelta | None:
    return None if began is None else max((ended or now) - began, timedelta())
