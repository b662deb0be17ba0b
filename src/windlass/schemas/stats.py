"""Counts of runs, jobs, queues and workers at one moment."""

from dataclasses import dataclass
from datetime import datetime

from windlass.schemas.queues import Depth
from windlass.schemas.runs import Run
from windlass.schemas.states import Starts


@dataclass(frozen=True, slots=True, kw_only=True)
class StateCounts:
    """By state; `capped` names those of which there are more than were counted."""

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
    """Of those that are up."""
    active: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsTick:
    name: str
    """Of a workflow or another schedule, or the type of a job."""
    starts: Starts
    cron: str
    timezone: str
    next_run_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """An overview of everything at one moment."""

    runs: StateCounts
    """Those under way, and those that ended in the last 24 hours."""
    jobs: StateCounts
    """Those that are due, scheduled or leased, and those that have ended."""
    hours: list[StatsHour]
    """The last 24, the latest last."""
    failing: list[Run]
    """The latest runs that failed or timed out."""
    queues: list[Depth]
    """By name, with the time that the first job in line has waited."""
    workers: StatsWorkers
    next: list[StatsTick]
    """The next scheduled times."""
