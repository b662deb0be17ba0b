"""How things stand, in numbers, as answers show it."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

from pydantic import ConfigDict, Field

from windlass.core.jobs.job import JobState
from windlass.core.runs.run import RunState
from windlass.engine.stats import LAST_RUNS, LATEST_RUNS, MOST_COUNTED, Hour, Tick, WorkerRow, WorkflowStats
from windlass.engine.stats import Overview as Found
from windlass.web.api.schemas import queues as schema_queues
from windlass.web.api.schemas import runs as schema_runs
from windlass.web.api.schemas.common import RUN_ID, Shown
from windlass.web.api.schemas.queues import Depth
from windlass.web.api.schemas.runs import Run
from windlass.web.api.schemas.tasks import milliseconds

HOUR: dict[str, Any] = {"at": "2026-02-22T10:00:00Z", "started": 12, "completed": 11, "failed": 1}
HOUR |= {"cancelled": 0, "timeout": 0, "capped": False}
STATS: dict[str, Any] = {
    "latest": [{"id": RUN_ID, "status": "completed"}],
    "success_rate": 0.98,
    "p50_ms": 1200,
    "p95_ms": 4800,
    "next_run_at": None,
}
JOBS: dict[str, Any] = {"counts": {"due": 12, "scheduled": 3, "succeeded": 10000}, "capped": ["succeeded"]}
RUNS_NOW = (RunState.PENDING, RunState.RUNNING)
RUNS_ENDED = (RunState.COMPLETED, RunState.FAILED, RunState.CANCELLED, RunState.TIMEOUT)
JOBS_ENDED = (JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED)


class Totals(Shown):
    """By state; `capped` names those of which there are more than were counted."""

    counts: dict[str, int]
    capped: list[str]


class StatsHour(Shown):
    """Runs that were asked for and runs that ended in the hour that begins `at`."""

    at: datetime
    started: int
    completed: int
    failed: int
    cancelled: int
    timeout: int
    capped: bool = Field(description=f"There were more than {MOST_COUNTED}.")


class StatsWorkers(Shown):
    up: int
    silent: int
    slots: int = Field(description="Of those that are up.")
    active: int


class StatsTick(Shown):
    name: str = Field(description="Of a workflow or another schedule, or the type of a job.")
    starts: Literal["run", "job"]
    cron: str
    timezone: str
    next_run_at: datetime


class Stats(Shown):
    """An overview of everything at one moment."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "runs": {"counts": {"pending": 0, "running": 3, "completed": 11, "failed": 1}, "capped": []},
                    "jobs": JOBS,
                    "hours": [HOUR],
                    "failing": [schema_runs.LINE | {"status": "failed"}],
                    "queues": [],
                    "workers": {"up": 2, "silent": 0, "slots": 200, "active": 8},
                    "next": [],
                }
            ]
        }
    )

    runs: Totals = Field(description="Those under way, and those that ended in the last 24 hours.")
    jobs: Totals = Field(description="Those that are due, wait for their time or are held, and those that have ended.")
    hours: list[StatsHour] = Field(description="The last 24, the latest last.")
    failing: list[Run] = Field(description="The latest runs that failed or timed out.")
    queues: list[Depth] = Field(description="By name, with the time that the first one in line has waited.")
    workers: StatsWorkers
    next: list[StatsTick] = Field(description="What the clock does next.")


class LatestRun(Shown):
    id: str
    status: RunState


class WorkflowNumbers(Shown):
    """The last runs of a workflow in numbers."""

    model_config = ConfigDict(json_schema_extra={"examples": [STATS]})

    latest: list[LatestRun] = Field(description=f"The latest {LATEST_RUNS}, newest first.")
    success_rate: float | None = Field(
        description=f"Of the last {LAST_RUNS} runs, without those under way and cancelled; null: there are none."
    )
    p50_ms: int | None = Field(description="Half of those that completed took no longer.")
    p95_ms: int | None
    next_run_at: datetime | None = Field(description="The next tick of its schedule.")


def overview(found: Found) -> Stats:
    return Stats(
        runs=_runs(found),
        jobs=_jobs(found),
        hours=[_hour(hour) for hour in found.hours],
        failing=[schema_runs.line(row) for row in found.failing],
        queues=[schema_queues.depth(row) for row in found.queues],
        workers=_workers(found.workers),
        next=[_tick(tick) for tick in found.ticks],
    )


def numbers(found: WorkflowStats) -> WorkflowNumbers:
    ended = found.completed + found.failed
    return WorkflowNumbers(
        latest=[LatestRun(id=str(id_), status=state) for id_, state in found.latest],
        success_rate=round(found.completed / ended, 4) if ended else None,
        p50_ms=milliseconds(found.p50),
        p95_ms=milliseconds(found.p95),
        next_run_at=found.next_run_at,
    )


def _runs(found: Found) -> Totals:
    live = {state.value: found.live_runs.get(state, 0) for state in RUNS_NOW}
    ended = {state.value: sum(getattr(hour, state.value) for hour in found.hours) for state in RUNS_ENDED}
    full = list(live) if sum(live.values()) >= MOST_COUNTED else []
    return Totals(counts=live | ended, capped=full + (list(ended) if any(hour.capped for hour in found.hours) else []))


def _jobs(found: Found) -> Totals:
    live = {name: sum(getattr(row, name) for row in found.queues) for name in ("due", "scheduled", "leased")}
    ended = {state.value: found.ended_jobs.get(state, 0) for state in JOBS_ENDED}
    full = ["due", "scheduled"] if any(row.capped for row in found.queues) else []
    return Totals(counts=live | ended, capped=full + [name for name, count in ended.items() if count >= MOST_COUNTED])


def _hour(hour: Hour) -> StatsHour:
    ended = {state.value: getattr(hour, state.value) for state in RUNS_ENDED}
    return StatsHour(at=hour.at, started=hour.started, **ended, capped=hour.capped)


def _workers(rows: Sequence[WorkerRow]) -> StatsWorkers:
    up = [row for row in rows if row.alive]
    silent = sum(not row.alive and row.state != "stopped" for row in rows)
    slots, active = sum(row.concurrency for row in up), sum(row.active for row in up)
    return StatsWorkers(up=len(up), silent=silent, slots=slots, active=active)


def _tick(tick: Tick) -> StatsTick:
    starts: Literal["run", "job"] = "run" if tick.starts == "run" else "job"
    return StatsTick(
        name=tick.name, starts=starts, cron=tick.cron, timezone=tick.timezone, next_run_at=tick.next_run_at
    )
