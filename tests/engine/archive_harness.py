"""Helpers for tests of the archive: finish jobs, archive them, count rows."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from tests.engine.job_harness import take
from tests.engine.upkeep_harness import record
from windlass.core.jobs.job import JobMove, Setback, Success
from windlass.engine import upkeep
from windlass.engine.database import Tenant

Connection = Any

AT_ONCE = timedelta(microseconds=-1)  # the clock of tests does not advance on its own


async def archive(db: Tenant, age: timedelta = AT_ONCE) -> None:
    while await upkeep.archive(db, age=age):
        pass


async def counts(conn: Connection) -> tuple[int, int, int, int]:
    """Return the numbers of unarchived jobs, of all jobs, of unarchived runs and of all runs."""
    row = await conn.fetchrow("""select
        (select count(*) from only workflow.workflow_run), (select count(*) from workflow.workflow_run),
        (select count(*) from only windlass.run), (select count(*) from windlass.run)""")
    return tuple(row)


async def finish(db: Tenant, count: int = 1) -> list[UUID]:
    claimed = await take(db, count)
    await record(db, *(Success(job, '{"ok": true}') for job in claimed))
    return [job.id for job in claimed]


async def fail(db: Tenant) -> UUID:
    [job] = await take(db)
    await record(db, Setback(job, JobMove.FAIL, {"type": "ValueError", "message": "boom"}, timedelta()))
    return job.id
