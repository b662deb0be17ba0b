"""The overview as the type of the API."""

from collections.abc import Sequence

from windlass.core.jobs.job import JobState
from windlass.core.runs.run import RunState
from windlass.engine.database import MOST_COUNTED
from windlass.engine.stats import Hour, Overview, Tick, WorkerRow
from windlass.engine.views import jobs, runs
from windlass.schemas.monitoring import StateCounts, Stats, StatsHour, StatsTick, StatsWorkers

LIVE_RUNS = (RunState.PENDING, RunState.RUNNING)
ENDED_RUNS = (RunState.COMPLETED, RunState.FAILED, RunState.CANCELLED, RunState.TIMEOUT)
ENDED_JOBS = (JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED)


def overview(rows: Overview) -> Stats:
    return Stats(
        runs=_runs(rows),
        jobs=_jobs(rows),
        hours=[_hour(hour) for hour in rows.hours],
        failing=[runs.line(row) for row in rows.failing],
        queues=[jobs.depth(row) for row in rows.queues],
        workers=_workers(rows.workers),
        next=[_tick(tick) for tick in rows.ticks],
    )


def _runs(rows: Overview) -> StateCounts:
    live = {state.value: rows.live_runs.get(state, 0) for state in LIVE_RUNS}
    ended = {state.value: sum(getattr(hour, state.value) for hour in rows.hours) for state in ENDED_RUNS}
    capped = list(live) if sum(live.values()) >= MOST_COUNTED else []
    if any(hour.capped for hour in rows.hours):
        capped += ended
    return StateCounts(counts=live | ended, capped=capped)


def _jobs(rows: Overview) -> StateCounts:
    live = {name: sum(getattr(row, name) for row in rows.queues) for name in ("due", "scheduled", "leased")}
    ended = {state.value: rows.ended_jobs.get(state, 0) for state in ENDED_JOBS}
    capped = ["due", "scheduled"] if any(row.capped for row in rows.queues) else []
    capped += [name for name, count in ended.items() if count >= MOST_COUNTED]
    return StateCounts(counts=live | ended, capped=capped)


def _hour(row: Hour) -> StatsHour:
    ended = {state.value: getattr(row, state.value) for state in ENDED_RUNS}
    return StatsHour(at=row.at, started=row.started, **ended, capped=row.capped)


def _workers(rows: Sequence[WorkerRow]) -> StatsWorkers:
    up = [row for row in rows if row.alive]
    silent = sum(not row.alive and row.state != "stopped" for row in rows)
    slots, active = sum(row.concurrency for row in up), sum(row.active for row in up)
    return StatsWorkers(up=len(up), silent=silent, slots=slots, active=active)


def _tick(row: Tick) -> StatsTick:
    return StatsTick(
        name=row.name,
        starts="run" if row.starts == "run" else "job",
        cron=row.cron,
        timezone=row.timezone,
        next_run_at=row.next_run_at,
    )
