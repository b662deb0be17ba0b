"""Helpers for tests of upkeep: reports, rows of plain SQL, leader terms."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from tests.engine.job_harness import LEASE
from windlass.core.jobs.job import Report
from windlass.engine import upkeep
from windlass.engine.database import Tenant
from windlass.engine.workers import turn
from windlass.engine.workers.turn import Turn
from windlass.runtime.loops.upkeep import DUTY

Connection = Any
TERM = timedelta(seconds=10)


async def record(db: Tenant, *reports: Report) -> None:
    await turn.turn(db, Turn(worker="w1", lease=LEASE, reports=reports))


async def by_sql(conn: Connection, **columns: Any) -> UUID:
    row = {"type": "a.b.v1", "payload": "{}", **columns}
    marks = ", ".join(f"${n}" for n in range(1, len(row) + 1))
    id_: UUID = await conn.fetchval(
        f"insert into workflow.workflow_run ({', '.join(row)}) values ({marks}) returning id", *row.values()
    )
    return id_


async def hold(db: Tenant, holder: str, duty: str = DUTY) -> bool:
    return (await upkeep.take_term(db, duty=duty, holder=holder, term=TERM)).held
