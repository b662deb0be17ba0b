"""Statistics: an overview of everything, of the last runs of workflows, and of tenants (`meta.tenant_id` of jobs)."""

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from windlass.core.json_value import encode
from windlass.core.runs.run import RunState
from windlass.engine.database import MOST_COUNTED, Database
from windlass.schemas.common import PAGE_LIMIT
from windlass.store import queues, runs, stats, workers
from windlass.store.queues import QueueRow
from windlass.store.rows import WorkerRow
from windlass.store.runs import RunFilter, RunRow
from windlass.store.stats import Hour, Tick, WorkflowStats
from windlass.store.workers import ALIVE_WITHIN

__all__ = ["Hour", "Overview", "QueueRow", "RunRow", "Tick", "WorkerRow", "WorkflowStats", "of_workflows", "overview"]
FAILING = 10  # of the latest
TICKS = 10
LAST_RUNS = 100  # that the numbers of a workflow cover
MOST_TENANTS = 1000
LATEST_RUNS = 20  # that are listed one by one


@dataclass(frozen=True, slots=True)
class Overview:
    """The state of everything at one moment. Counts that reach MOST_COUNTED are not exact."""

    live_runs: dict[str, int]  # by state
    ended_jobs: dict[str, int]  # by state
    hours: list[Hour]  # the last 24, the latest last
    failing: list[RunRow]  # the latest runs that failed or timed out
    queues: list[QueueRow]
    workers: list[WorkerRow]
    ticks: list[Tick]  # the next ticks of schedules


async def overview(db: Database) -> Overview:
    bad = RunFilter(org=db.org, states=[RunState.FAILED, RunState.TIMEOUT], limit=FAILING)
    async with db.begin() as conn:
        return Overview(
            live_runs=await stats.live_runs(conn, org=db.org, cap=MOST_COUNTED),
            ended_jobs=await stats.ended_jobs(conn, org=db.org, cap=MOST_COUNTED),
            hours=await stats.hours(conn, org=db.org, cap=MOST_COUNTED),
            failing=await runs.list_(conn, bad),
            queues=await queues.list_(conn, after="", limit=PAGE_LIMIT, cap=MOST_COUNTED),
            workers=await workers.list_(conn, alive_within=ALIVE_WITHIN),
            ticks=await stats.next_ticks(conn, org=db.org, limit=TICKS),
        )


async def of_workflows(db: Database, ids: Iterable[UUID]) -> dict[UUID, WorkflowStats]:
    async with db.once() as conn:
        return await stats.of_workflows(conn, ids, last=LAST_RUNS, latest=LATEST_RUNS)


async def tenants(db: Database) -> list[str]:
    """Return the tenants that have jobs, by name."""
    async with db.once() as conn:
        return await stats.tenants(conn, org=db.org, limit=MOST_TENANTS)


async def jobs_of_tenant(db: Database, tenant: str) -> dict[str, int]:
    """Return the number of a tenant's jobs by state; at most MOST_COUNTED jobs are examined."""
    encode(tenant, field="tenant")
    async with db.once() as conn:
        return await stats.tenant_counts(conn, tenant, org=db.org, cap=MOST_COUNTED)
