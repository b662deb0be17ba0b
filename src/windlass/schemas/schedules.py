"""Schedules of workflows and of jobs."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from windlass.schemas.common import Starts


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A schedule. Schedules that start jobs are created and changed by plain SQL."""

    name: str
    """The name of the workflow, or the type of the job."""
    starts: Starts
    id: str
    cron: str
    timezone: str
    input: Any
    """The input of the runs; the payload of the jobs."""
    overlap: str | None
    catch_up: str | None
    enabled: bool
    """Whether its workflow is; of those that start jobs, the same as not paused."""
    paused: bool
    paused_reason: str | None
    next_run_at: datetime | None
    """Null: paused, disabled, or no more times."""
    waiting_tick: datetime | None
    """A time whose run waits for the end of the previous run."""
    last_run_at: datetime | None
    last_run_id: str | None
    skipped_at: datetime | None
    """The last time that started no run."""
    skipped_reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleDetail(Schedule):
    """A schedule and its next times in its own time zone; for a paused one, the times if it were resumed."""

    upcoming: list[datetime]


@dataclass(frozen=True, slots=True, kw_only=True)
class TickRun:
    tick: datetime
    run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Backfill:
    """The run of each past tick. Repeat the request with `from` set to `next` until `next` is null."""

    dry_run: bool
    started: int
    """How many runs were started; the other times already had one."""
    left: int
    """In a dry run: how many runs it would start."""
    runs: list[TickRun]
    next: datetime | None
