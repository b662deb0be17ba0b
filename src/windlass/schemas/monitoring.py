"""Monitoring: queues, workers, pools, quarantined objects, and statistics."""

from dataclasses import dataclass
from datetime import datetime

from windlass.schemas.common import QuarantineKind, Starts, WorkerStatus
from windlass.schemas.jobs import Job
from windlass.schemas.runs import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Depth:
    """The number of jobs in a queue, by state."""

    name: str
    paused: bool
    due: int
    """Jobs that a worker may claim now, counted up to 10000 of each type."""
    scheduled: int
    """Jobs that are not due yet, counted up to 10000."""
    leased: int
    """Jobs that workers hold."""
    capped: bool
    """There are more than were counted."""
    oldest_seconds: float | None
    """How long the first due job has waited."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue(Depth):
    """A queue and its throughput."""

    paused_at: datetime | None
    resumed_at: datetime | None
    ended_per_second: float
    """Over the last minute; at high rates, over the latest part of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """A worker, as of its last heartbeat."""

    id: str
    status: WorkerStatus
    """`silent`: no heartbeat for a while, and it did not report that it stopped."""
    host: str
    pid: int
    queues: list[str]
    types: list[str]
    slots: int
    """How many jobs it runs at a time."""
    active: int
    """How many it was running."""
    started_at: datetime
    seen_at: datetime
    seen_seconds_ago: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerDetail(Worker):
    """A worker and the jobs that it holds."""

    jobs: list[Job]
    """1000 at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """A pool, on which steps with `runs_on` run."""

    name: str
    launcher: str
    max_parallel: int
    """How many jobs it runs at a time."""
    image: str | None
    """For steps that give none."""
    holder: str | None
    """The process that launches its jobs; shown to the operator only."""
    problem: str | None
    """Why its jobs cannot be launched; null: they can."""
    fix: str | None
    """What to do if it is not alive or has a problem."""
    seen_at: datetime
    alive: bool
    """Whether a process offered it in the last 30 seconds."""
    waiting: int
    """Jobs of the org that are due, counted up to 10000; for the operator, of all orgs."""
    running: int
    """Jobs of the org that are launched; for the operator, of all orgs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantined:
    """An item that could not be processed and is set aside, so that it does not block other items."""

    kind: QuarantineKind
    key: str
    error_type: str
    reason: str
    failures: int
    """How many times processing it failed."""
    first_at: datetime
    last_at: datetime
    retry_at: datetime | None
    """When it is retried; null: it is only reported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateCounts:
    """Counts by state; `capped` lists the states with more items than were counted."""

    counts: dict[str, int]
    capped: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsHour:
    """Runs that were created and runs that ended in the hour that begins `at`."""

    at: datetime
    started: int
    completed: int
    failed: int
    cancelled: int
    timeout: int
    capped: bool
    """There were more than 10000."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsWorkers:
    up: int
    silent: int
    slots: int
    """The slots of those that are up."""
    active: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsTick:
    name: str
    """The name of a workflow or another schedule, or the type of a job."""
    starts: Starts
    cron: str
    timezone: str
    next_run_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """Statistics of runs, jobs, queues, workers and schedules at one moment."""

    runs: StateCounts
    """Live runs, and runs that ended in the last 24 hours."""
    jobs: StateCounts
    """Those that are due, scheduled or leased, and those that have ended."""
    hours: list[StatsHour]
    """The last 24, the latest last."""
    failing: list[Run]
    """The latest runs that failed or timed out."""
    queues: list[Depth]
    """By name, with the time that the first due job has waited."""
    workers: StatsWorkers
    next: list[StatsTick]
    """The next scheduled times."""
