"""Workflows with triggers, and queries of their runs and schedules."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg

from tests.keys import KEYS
from windlass.core.definition.parser import parse
from windlass.core.workflows.step import JobAction, Step
from windlass.core.workflows.workflow import Workflow
from windlass.engine import workflows
from windlass.engine.database import Tenant
from windlass.engine.runs import control as runs
from windlass.engine.workflows import Published
from windlass.store.postgres.pool import DatabaseOptions
from windlass.testing import Clock

Client = Any  # a plain asyncpg connection
NOON = datetime(2030, 3, 1, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
BEFORE = NOON - timedelta(minutes=30)


def timed(cron: str = "0 * * * *", name: str = "etl", *, concurrency: int | None = None, **trigger: Any) -> Workflow:
    given = {"name": name, "trigger": {"cron": cron, **trigger}, "tasks": {"load": {"job": "a.b.v1"}}}
    return parse(given | ({} if concurrency is None else {"concurrency": concurrency}))


def called(name: str = "incoming", trigger: Any = "webhook") -> Workflow:
    steps = {"load": {"job": "a.b.v1", "input": {"got": "{{trigger.body}}", "from": "{{trigger.headers.x-from}}"}}}
    return parse({"name": name, "trigger": trigger, "tasks": steps})


def asked(name: str = "etl") -> Workflow:
    return Workflow(name, (Step(name="load", action=JobAction("a.b.v1", {})),))


async def publish(db: Tenant, workflow: Workflow) -> Published:
    return await workflows.publish(db, workflow)


async def runs_of(conn: Client, workflow: str = "etl") -> list[asyncpg.Record]:
    rows: list[asyncpg.Record] = await conn.fetch(
        """select r.* from windlass.run r join windlass.workflow w on w.id = r.workflow_id
            where w.name = $1 order by r.idempotency_key, r.id""",
        workflow,
    )
    return rows


async def ticks_of(conn: Client, workflow: str = "etl") -> list[datetime]:
    """Return the ticks that have a run, oldest first."""
    keys = [row["idempotency_key"] for row in await runs_of(conn, workflow)]
    return sorted(datetime.fromisoformat(key.rpartition("/")[2]) for key in keys if key)


async def schedule_of(conn: Client, workflow: str = "etl") -> asyncpg.Record | None:
    row: asyncpg.Record | None = await conn.fetchrow(
        """select s.* from windlass.schedule s join windlass.workflow w on w.id = s.workflow_id
            where w.name = $1 and w.deleted_at is null""",
        workflow,
    )
    return row


async def next_of(conn: Client, workflow: str = "etl") -> datetime | None:
    row = await schedule_of(conn, workflow)
    assert row is not None
    found: datetime | None = row["next_run_at"]
    return found


async def end(db: Tenant, run: UUID) -> None:
    await runs.cancel(db, run)


@asynccontextmanager
async def another(database: str, clock: Clock, *, org: str = "default") -> AsyncIterator[Tenant]:
    opened = await Tenant.open(DatabaseOptions(url=database, clock=clock.now, size=3), org=org, keys=KEYS)
    try:
        yield opened
    finally:
        await opened.close()
