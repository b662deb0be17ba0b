"""Monthly executions under real concurrency: two processes that start runs concurrently."""

import asyncio
import os
import sys
from typing import Any

import pytest

from tests.engine.harness import node, publish
from windlass.core.jobs.spec import JobSpec
from windlass.engine.database import Tenant
from windlass.engine.jobs import control as jobs
from windlass.engine.orgs import plans, usage
from windlass.errors import QuotaExceeded

ROOM, STARTS, PROCESSES = 10, 32, 2


async def started(database: str) -> asyncio.subprocess.Process:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.chaos.quota_starter", "w", str(STARTS)),
        env=os.environ | {"WINDLASS_DATABASE_URL": database},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"ready\n"
    return process


async def answer(process: asyncio.subprocess.Process) -> tuple[int, int]:
    out, _ = await process.communicate(b"go\n")
    admitted, refused = map(int, out.split())
    return admitted, refused


async def test_each_process_admits_at_most_the_quota_left_at_the_last_count(
    database: str, db: Tenant, conn: Any
) -> None:
    """The bound in docs/how-to/plans-and-quotas.md: each process admits at most the quota left at the last count."""
    await publish(db, node("a"))
    await plans.put(db, "small", {"executions_per_month": 100})
    await plans.assign(db, "default", "small")
    await usage.count(db)
    await jobs.submit(db, [JobSpec(type="a.b.v1", payload={})] * (100 - ROOM))
    await usage.count(db)
    processes = [await started(database) for _ in range(PROCESSES)]
    answers = await asyncio.gather(*map(answer, processes))
    admitted = sum(count for count, _ in answers)
    assert ROOM <= admitted <= ROOM * PROCESSES
    assert sum(refused for _, refused in answers) == STARTS * PROCESSES - admitted
    assert await conn.fetchval("select count(*) from windlass.run") == admitted
    await usage.count(db)
    db.allowances.forget()
    with pytest.raises(QuotaExceeded) as refused:
        await jobs.submit(db, [JobSpec(type="a.b.v1", payload={})])
    assert refused.value.used == 100 - ROOM + admitted
