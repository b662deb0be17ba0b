"""Queues, workers, and what is quarantined."""

from dataclasses import dataclass
from datetime import datetime

from windlass.schemas.jobs import Job
from windlass.schemas.states import QuarantineKind, WorkerStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Depth:
    """How many jobs are in a queue."""

    name: str
    paused: bool
    due: int
    """Jobs that a worker may claim now, counted up to 10000 of each type."""
    scheduled: int
    """Jobs whose time has not come, counted up to 10000."""
    leased: int
    """Jobs that workers hold."""
    capped: bool
    """There are more than were counted."""
    oldest_seconds: float | None
    """How long the first one in line has waited."""


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
class Quarantined:
    """Something that could not be processed and is set aside. Everything else goes on without it."""

    kind: QuarantineKind
    key: str
    error_type: str
    reason: str
    failures: int
    """How often it was tried."""
    first_at: datetime
    last_at: datetime
    retry_at: datetime | None
    """When it is tried again; null: it is only reported."""
