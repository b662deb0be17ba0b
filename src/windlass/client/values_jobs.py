"""What a client gives back about jobs, queues, workers and schedules. Names, words and fields are those of the API."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from windlass.client.values_runs import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job in a list."""

    id: str
    type: str
    status: str
    queue: str
    priority: int
    attempt: int
    max_attempts: int
    run_at: datetime
    inserted_at: datetime
    updated_at: datetime
    finished_at: datetime | None
    worker: str | None
    error: str | None
    tags: list[str]
    idempotency_key: str | None
    run_id: str | None
    task: str | None
    index: int | None
    place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobProgress:
    """How far a job is, by its own words."""

    fraction: float  # 0 to 1
    message: str | None
    data: Any
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDetail(Job):
    payload: Any
    result: Any
    errors: list[dict[str, Any]]
    lost_leases: int
    started_over: int
    lease_until: datetime | None
    cancel_requested: bool
    timeout: str | None
    retry: dict[str, Any] | None
    meta: dict[str, Any]
    progress: JobProgress | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedJob:
    id: str
    created: bool  # no: its idempotency key was known


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedJobs:
    created: int
    jobs: list[SubmittedJob]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEvent:
    id: str
    event: str
    attempt: int | None
    actor: str | None
    data: Any
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLogLine:
    attempt: int
    at: datetime
    level: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterGroup:
    """Failed jobs with the same type, queue and error."""

    type: str
    queue: str
    error: str
    of_runs: bool
    count: int
    capped: bool
    first_at: datetime
    last_at: datetime
    example_job_id: str
    example_error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterBatch:
    dry_run: bool
    done: int
    left: int
    jobs: list[str]
    runs: list[str]
    next: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Depth:
    """How much is in a queue; counts may be capped."""

    name: str
    paused: bool
    due: int
    scheduled: int
    leased: int
    capped: bool
    oldest_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue(Depth):
    paused_at: datetime | None
    resumed_at: datetime | None
    ended_per_second: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    id: str
    status: str  # running, draining, stopped or silent
    host: str
    pid: int
    queues: list[str]
    types: list[str]
    slots: int
    active: int
    started_at: datetime
    seen_at: datetime
    seen_seconds_ago: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerDetail(Worker):
    jobs: list[Job]


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    name: str
    starts: str  # a run, or a job (those of plain SQL)
    id: str
    cron: str
    timezone: str
    input: Any
    overlap: str | None
    catch_up: str | None
    enabled: bool
    paused: bool
    paused_reason: str | None
    next_run_at: datetime | None
    waiting_tick: datetime | None
    last_run_at: datetime | None
    last_run_id: str | None
    skipped_at: datetime | None
    skipped_reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleDetail(Schedule):
    upcoming: list[datetime]


@dataclass(frozen=True, slots=True, kw_only=True)
class TickRun:
    tick: datetime
    run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Backfill:
    dry_run: bool
    started: int
    left: int
    runs: list[TickRun]
    next: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StateCounts:
    """By state; those named in `capped` are at least so many."""

    counts: dict[str, int]
    capped: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsHour:
    at: datetime
    started: int
    completed: int
    failed: int
    cancelled: int
    timeout: int
    capped: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsWorkers:
    up: int
    silent: int
    slots: int
    active: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsTick:
    name: str
    starts: str
    cron: str
    timezone: str
    next_run_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """An overview."""

    runs: StateCounts
    jobs: StateCounts
    hours: list[StatsHour]
    failing: list[Run]
    queues: list[Depth]
    workers: StatsWorkers
    next: list[StatsTick]


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantined:
    """Something that could not be processed and is set aside."""

    kind: str
    key: str
    error_type: str
    reason: str
    failures: int
    first_at: datetime
    last_at: datetime
    retry_at: datetime | None
