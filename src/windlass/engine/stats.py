"""Statistics: an overview of an org, of the latest runs of workflows, and of tenants (`meta.tenant_id` of jobs)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from windlass.core.jobs.job import JobState
from windlass.core.json_value import encode
from windlass.core.runs.run import RunState
from windlass.engine.database import MOST_COUNTED, Database, Tenant
from windlass.engine.views import jobs as job_views
from windlass.engine.views import runs as run_views
from windlass.schemas.common import PAGE_LIMIT
from windlass.schemas.monitoring import StateCounts, Stats, StatsHour, StatsTick, StatsWorkers
from windlass.store import queues, runs, stats, workers
from windlass.store.queues import QueueRow
from windlass.store.runs import RunFilter, RunRow
from windlass.store.stats import WorkflowStats
from windlass.store.workers import ALIVE_WITHIN, WorkerRow

FAILING = 10  # latest failed runs that are listed
TICKS = 10
LAST_RUNS = 100  # over which the numbers of a workflow are computed
MOST_TENANTS = 1000
LATEST_RUNS = 20  # that are listed individually
LIVE_RUNS = (RunState.PENDING, RunState.RUNNING)
ENDED_RUNS = (RunState.COMPLETED, RunState.FAILED, RunState.CANCELLED, RunState.TIMEOUT)
ENDED_JOBS = (JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED)


@dataclass(frozen=True, slots=True)
class Overview:
    """The current state of an org. Counts that reach MOST_COUNTED are not exact."""

    live_runs: dict[str, int]  # by state
    ended_jobs: dict[str, int]  # by state
    hours: list[StatsHour]  # the last 24, the latest last
    failing: list[RunRow]  # the latest runs that failed or timed out
    queues: list[QueueRow]
    workers: list[WorkerRow]
    ticks: list[StatsTick]  # the next ticks of schedules


async def overview(db: Tenant) -> Overview:
    bad = RunFilter(org=db.org, states=[RunState.FAILED, RunState.TIMEOUT], limit=FAILING)
    async with db.begin() as conn:
        return Overview(
            live_runs=await stats.live_runs(conn, org=db.org, cap=MOST_COUNTED),
            ended_jobs=await stats.ended_jobs(conn, org=db.org, cap=MOST_COUNTED),
            hours=await stats.hours(conn, org=db.org, cap=MOST_COUNTED),
            failing=await runs.list_(conn, bad),
            queues=await queues.list_(conn, org=db.org, after="", limit=PAGE_LIMIT, cap=MOST_COUNTED),
            workers=await workers.list_(conn, org=db.org, alive_within=ALIVE_WITHIN),
            ticks=await stats.next_ticks(conn, org=db.org, limit=TICKS),
        )


async def of_workflows(db: Database, ids: Iterable[UUID]) -> dict[UUID, WorkflowStats]:
    async with db.once() as conn:
        return await stats.of_workflows(conn, ids, last=LAST_RUNS, latest=LATEST_RUNS)


async def tenants(db: Tenant) -> list[str]:
    """Return the tenants that have jobs, by name."""
    async with db.once() as conn:
        return await stats.tenants(conn, org=db.org, limit=MOST_TENANTS)


async def jobs_of_tenant(db: Tenant, tenant: str) -> dict[str, int]:
    """Return the number of a tenant's jobs by state; at most MOST_COUNTED jobs are examined."""
    encode(tenant, field="tenant")
    async with db.once() as conn:
        return await stats.tenant_counts(conn, tenant, org=db.org, cap=MOST_COUNTED)


def to_schema(rows: Overview) -> Stats:
    """Return the overview as the type of the API."""
    return Stats(
        runs=_runs(rows),
        jobs=_jobs(rows),
        hours=rows.hours,
        failing=[run_views.line(row) for row in rows.failing],
        queues=[job_views.depth(row) for row in rows.queues],
        workers=_workers(rows.workers),
        next=rows.ticks,
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


def _workers(rows: Sequence[WorkerRow]) -> StatsWorkers:
    up = [row for row in rows if row.alive]
    silent = sum(not row.alive and row.state != "stopped" for row in rows)
    slots, active = sum(row.concurrency for row in up), sum(row.active for row in up)
    return StatsWorkers(up=len(up), silent=silent, slots=slots, active=active)
