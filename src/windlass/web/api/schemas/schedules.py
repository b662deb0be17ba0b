"""Schedules as answers show them."""

from datetime import datetime
from typing import Any, Literal

from pydantic import ConfigDict, Field

from windlass.engine.schedules.listing import JobScheduleRow, ScheduleRow
from windlass.engine.schedules.workflow import Backfill as Filled
from windlass.engine.schedules.workflow import Unfilled
from windlass.web.api.schemas.common import RUN_ID, Shown

LINE: dict[str, Any] = {
    "name": "order-processing",
    "starts": "run",
    "id": "018cc251-f400-7f5c-8a3a-6d3e6f1c9b11",
    "cron": "0 2 * * *",
    "timezone": "Europe/Berlin",
    "input": {"bucket": "landing"},
    "overlap": "skip",
    "catch_up": "one",
    "enabled": True,
    "paused": False,
    "paused_reason": None,
    "next_run_at": "2026-02-23T01:00:00Z",
    "waiting_tick": None,
    "last_run_at": "2026-02-22T01:00:00Z",
    "last_run_id": RUN_ID,
    "skipped_at": None,
    "skipped_reason": None,
}


class Schedule(Shown):
    """What runs by the clock. Those that start jobs were made by plain SQL, and are steered there."""

    model_config = ConfigDict(json_schema_extra={"examples": [LINE]})

    name: str = Field(description="Of the workflow, or the type of the job.")
    starts: Literal["run", "job"]
    id: str
    cron: str
    timezone: str
    input: Any = Field(description="Of the runs; the payload of the jobs.")
    overlap: str | None
    catch_up: str | None
    enabled: bool = Field(description="Whether its workflow is; of those that start jobs, the same as not paused.")
    paused: bool
    paused_reason: str | None
    next_run_at: datetime | None = Field(description="No tick: paused, disabled, or the times are over.")
    waiting_tick: datetime | None = Field(description="A tick that waits for the run before it to end.")
    last_run_at: datetime | None
    last_run_id: str | None
    skipped_at: datetime | None = Field(description="The last tick that started no run.")
    skipped_reason: str | None


class ScheduleDetail(Schedule):
    """A schedule, and its next ticks in its own time zone; those of a paused one are what it would do."""

    model_config = ConfigDict(json_schema_extra={"examples": [LINE | {"upcoming": ["2026-02-23T02:00:00+01:00"]}]})

    upcoming: list[datetime]


class TickRun(Shown):
    tick: datetime
    run_id: str


class Backfill(Shown):
    """The run of each tick. Go on with `from` set to `next` until that is null."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "dry_run": False,
                    "started": 1,
                    "left": 0,
                    "runs": [{"tick": "2026-02-21T01:00:00Z", "run_id": RUN_ID}],
                    "next": None,
                }
            ]
        }
    )

    dry_run: bool
    started: int = Field(description="How many are new; the other ticks had their run.")
    left: int = Field(description="Of a dry run: how many it would start.")
    runs: list[TickRun]
    next: datetime | None


def line(row: ScheduleRow | JobScheduleRow) -> Schedule:
    return Schedule(**(_run_fields(row) if isinstance(row, ScheduleRow) else _job_fields(row)))


def detail(row: ScheduleRow, ticks: list[datetime]) -> ScheduleDetail:
    return ScheduleDetail(**_run_fields(row), upcoming=ticks)


def backfill(done: Filled | Unfilled) -> Backfill:
    if isinstance(done, Unfilled):
        return Backfill(dry_run=True, started=0, left=done.count, runs=[], next=done.next)
    runs = [TickRun(tick=tick, run_id=str(id_)) for tick, id_ in done.runs]
    return Backfill(dry_run=False, started=done.started, left=0, runs=runs, next=done.next)


def _run_fields(row: ScheduleRow) -> dict[str, Any]:
    return {
        "name": row.workflow,
        "starts": "run",
        "id": str(row.id),
        "cron": row.cron,
        "timezone": row.timezone,
        "input": row.input,
        "overlap": row.overlap,
        "catch_up": row.catch_up,
        "enabled": row.enabled,
        "paused": row.paused,
        "paused_reason": row.paused_reason,
        "next_run_at": row.next_run_at,
        "waiting_tick": row.buffered_at,
        "last_run_at": row.last_run_at,
        "last_run_id": str(row.last_run_id) if row.last_run_id else None,
        "skipped_at": row.skipped_at,
        "skipped_reason": row.skipped_reason,
    }


def _job_fields(row: JobScheduleRow) -> dict[str, Any]:
    return {
        "name": row.type,
        "starts": "job",
        "id": str(row.id),
        "cron": row.schedule,
        "timezone": row.timezone,
        "input": row.payload,
        "overlap": None,
        "catch_up": None,
        "enabled": row.enabled,
        "paused": not row.enabled,
        "paused_reason": None,
        "next_run_at": row.next_run_at if row.enabled else None,
        "waiting_tick": None,
        "last_run_at": row.last_run_at,
        "last_run_id": None,
        "skipped_at": None,
        "skipped_reason": None,
    }
