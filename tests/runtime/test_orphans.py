"""Jobs that were claimed by a turn whose response was lost."""

import logging
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.runtime.conftest import Working, eventually
from windlass import Windlass
from windlass.core.jobs.spec import JobSpec
from windlass.engine.database import Tenant
from windlass.engine.jobs import control as jobs
from windlass.engine.workers import turn
from windlass.engine.workers.turn import Turn
from windlass.runtime.worker.heartbeat import Registration
from windlass.testing import Clock

Connection = Any
LEASE = timedelta(seconds=30)
UNREADABLE = "update workflow.workflow_run set timeout = interval '-170000000 years' where id = $1"


async def claimed(db: Tenant, count: int, worker: str = "w") -> list[tuple[UUID, int]]:
    """Lease jobs to a worker that does not run them, and return their fences."""
    await jobs.submit(db, [JobSpec(type="a.b.v1")] * count)
    lanes = [(replace(lane, seq=0), count) for lane in await turn.look(db, ["default"])]
    taken, _ = await turn.turn(db, Turn(worker=worker, lease=LEASE, lanes=lanes, count=count))
    return [job.fence for job in taken]


async def test_a_worker_adopts_the_jobs_leased_to_it_that_it_does_not_run(db: Tenant) -> None:
    known, *forgotten = await claimed(db, 3)
    await claimed(db, 2, "another")
    adopted = await turn.adopt(db, worker="w", held={known}, lease=LEASE)
    assert [job.fence for job in adopted] == forgotten
    assert adopted[0].type == "a.b.v1"


async def test_an_unreadable_orphan_is_handed_back_uncharged_and_the_others_are_adopted(
    db: Tenant, clock: Clock, conn: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    first, strange, last = await claimed(db, 3)
    await conn.execute(UNREADABLE, strange[0])
    assert [job.fence for job in await turn.adopt(db, worker="w", held=(), lease=LEASE)] == [first, last]
    row = await conn.fetchrow(
        "select status, due, attempt, lost, last_error from workflow.workflow_run where id = $1", strange[0]
    )
    assert tuple(row)[:4] == ("pending", False, 0, 0)
    assert "this worker cannot read it" in row["last_error"]
    assert str(strange[0]) in caplog.text
    trail = "select event_type, data ->> 'reason' from workflow.workflow_event where workflow_id = $1 order by id"
    assert tuple((await conn.fetch(trail, strange[0]))[-1]) == ("retried", f"handed back: {row['last_error']}")


async def test_a_job_row_that_cannot_be_decoded_does_not_block_other_jobs(
    app: Windlass, conn: Connection, working: Working
) -> None:
    @app.job("a.b.v1")
    async def handle() -> None: ...

    *others, strange = await app.submit_many([{"type": "a.b.v1"}] * 11)
    await conn.execute(UNREADABLE, strange)
    async with working(app):
        for id_ in others:

            async def done(id_: UUID = id_) -> bool:
                return (await app.get(id_)).status == "succeeded"

            await eventually(done)
    assert await conn.fetchval("select max(claim_no) from workflow.workflow_run where id <> $1", strange) == 1
    assert await conn.fetchval("select status from workflow.workflow_run where id = $1", strange) == "pending"


async def test_two_processes_with_the_same_worker_id_detect_each_other(
    db: Tenant, conn: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    known: dict[str, Any] = {"queues": ["default"], "types": [], "concurrency": 1}
    first, second = Registration("w", lease=LEASE), Registration("w", lease=LEASE)
    await first.register(db, **known)
    await first.touch(db, active=0)
    assert first.exclusive
    await conn.execute("update windlass.worker set pid = pid + 1")  # as if another process had registered
    with caplog.at_level(logging.WARNING):
        await second.register(db, **known)
        await conn.execute("update windlass.worker set pid = pid + 1")
        await first.touch(db, active=0)
    assert (first.exclusive, second.exclusive) == (False, False)
    assert caplog.text.count("give each worker its own id") == 2


async def test_a_worker_restarted_after_a_clean_stop_owns_its_id_exclusively(db: Tenant, conn: Connection) -> None:
    known: dict[str, Any] = {"queues": ["default"], "types": [], "concurrency": 1}
    await Registration("w", lease=LEASE).register(db, **known)
    await conn.execute("update windlass.worker set pid = pid + 1, state = 'stopped'")
    again = Registration("w", lease=LEASE)
    await again.register(db, **known)
    assert again.exclusive
