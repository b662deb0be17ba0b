"""Statistics for the overview: runs, jobs, schedules, workflows and tenants (`meta.tenant_id` of jobs)."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from windlass.core.runs.run import RunState
from windlass.schemas.monitoring import StatsHour, StatsTick
from windlass.store.postgres.pool import Connection
from windlass.store.postgres.queries import column, mapping, statements

_SQL = statements("stats")
_TENANTS = statements("tenants")


@dataclass(frozen=True, slots=True)
class WorkflowStats:
    """The last runs of a workflow: how many completed and failed, and the durations of those that completed."""

    completed: int
    failed: int
    p50: timedelta | None
    p95: timedelta | None
    latest: list[tuple[UUID, RunState]]
    next_run_at: datetime | None


async def ended_jobs(conn: Connection, *, org: str, cap: int) -> dict[str, int]:
    return mapping(await conn.fetch(_SQL["ended_jobs"], org, cap))


async def live_runs(conn: Connection, *, org: str, cap: int) -> dict[str, int]:
    return mapping(await conn.fetch(_SQL["live_runs"], org, cap))


async def hours(conn: Connection, *, org: str, cap: int) -> list[StatsHour]:
    return [StatsHour(**row) for row in await conn.fetch(_SQL["hours"], org, cap)]


async def next_ticks(conn: Connection, *, org: str, limit: int) -> list[StatsTick]:
    return [StatsTick(**row) for row in await conn.fetch(_SQL["next_ticks"], org, limit)]


async def of_workflows(conn: Connection, ids: Iterable[UUID], *, last: int, latest: int) -> dict[UUID, WorkflowStats]:
    stats = {}
    for id_, completed, failed, p50, p95, runs, states, tick in await conn.fetch(
        _SQL["of_workflows"], list(ids), last, latest
    ):
        pairs = [(run, RunState(state)) for run, state in zip(runs or (), states or (), strict=True)]
        stats[id_] = WorkflowStats(completed, failed, p50, p95, pairs, tick)
    return stats


async def tenants(conn: Connection, *, org: str, limit: int) -> list[str]:
    return column(await conn.fetch(_TENANTS["list"], org, limit))


async def tenant_counts(conn: Connection, tenant: str, *, org: str, cap: int) -> dict[str, int]:
    return mapping(await conn.fetch(_TENANTS["counts"], org, tenant, cap))
