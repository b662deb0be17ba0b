"""Lanes that a worker does not serve, or has no capacity for, never hide work, however many there are."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from tests.runtime.conftest import Working, eventually
from windlass import Windlass
from windlass.engine import doctor
from windlass.engine.database import Tenant
from windlass.engine.workers import turn
from windlass.store import claims
from windlass.store.claims import Served

Connection = Any
UNSERVED = """insert into workflow.workflow_run (type, payload, queue, priority, updated_at, run_at)
  select 'old.customer' || n || '.v1', '{}', 'default', -1000000, now() - interval '5 min', now() - interval '5 min'
    from generate_series(1, $1) n"""


async def finished(app: Windlass, ids: Sequence[UUID]) -> bool:
    return all([(await app.get(id_)).status == "succeeded" for id_ in ids])


async def test_many_unserved_urgent_lanes_do_not_hide_jobs_from_a_new_worker(
    app: Windlass, conn: Connection, working: Working
) -> None:
    @app.job("a.b.v1")
    async def handler() -> int:
        return 1

    await app.open()
    await conn.execute(UNSERVED, 2500)
    ids = [await app.submit("a.b.v1", priority=priority) for priority in (100, 99)]
    async with working(app):
        await eventually(lambda: finished(app, ids))


async def test_many_unserved_urgent_lanes_do_not_hide_jobs_from_a_pattern_handler(
    app: Windlass, conn: Connection, working: Working
) -> None:
    @app.job("new.%")
    async def handler() -> int:
        return 1

    await app.open()
    await conn.execute(UNSERVED, 2500)
    ids = [await app.submit(f"new.thing{n}.v1") for n in range(2)]
    async with working(app):
        await eventually(lambda: finished(app, ids))


async def test_many_lanes_of_a_handler_at_its_limit_do_not_hide_other_lanes(app: Windlass, working: Working) -> None:
    begun, over = asyncio.Event(), asyncio.Event()

    @app.job("slow.x.v1", concurrency=1)
    async def slow() -> None:
        begun.set()
        await over.wait()

    @app.job("quick.x.v1")
    async def quick() -> int:
        return 1

    await app.submit_many([{"type": "slow.x.v1", "priority": n} for n in range(150)])
    async with working(app, grace=timedelta()):
        await begun.wait()
        id_ = await app.submit("quick.x.v1", priority=1000)
        await eventually(lambda: finished(app, [id_]))
        over.set()


async def test_a_look_pages_through_every_lane(db: Tenant, conn: Connection) -> None:
    await conn.execute(UNSERVED, claims.PAGE + 500)
    await conn.execute("""insert into workflow.workflow_run (type, payload, queue) values
      ('a.b.v1', '{}', 'default'), ('zebra.b.v1', '{}', 'sql'), ('zebra.b.v1', '{}', 'default')""")
    found = await turn.look(db, ["default", "sql", "empty"])
    assert len(found) == len(set(found)) == claims.PAGE + 503
    assert found == sorted(found, key=lambda lane: (lane.priority, lane.seq))
    served = await turn.look(db, ["default", "sql"], Served(["a.b.v1", "zebra.b.v1", "none.b.v1"]))
    ours = [(lane.queue, lane.type) for lane in served if not lane.type.startswith("old.")]
    assert ours == [("default", "a.b.v1"), ("sql", "zebra.b.v1"), ("default", "zebra.b.v1")]
    assert len(served) < 10  # it hopped over the others


async def test_the_doctor_reports_types_that_no_worker_serves(db: Tenant, conn: Connection) -> None:
    await conn.execute(UNSERVED, 3)
    told = [finding.message for finding in await doctor.examine(db) if finding.check == "waiting"]
    for n in range(1, 4):
        assert any(message.startswith(f"old.customer{n}.v1 in queue default has waited") for message in told)
    assert all(message.endswith("no live worker serves it") for message in told)
