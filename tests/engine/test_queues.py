"""Queues: depth, age and rate; a pause applies to the next claim of a Python worker."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.engine.harness import LEASE, ManualWorker
from windlass import Windlass
from windlass.core.jobs.job import Success
from windlass.core.jobs.spec import JobSpec
from windlass.engine import upkeep
from windlass.engine.database import Tenant
from windlass.engine.jobs import control as jobs
from windlass.engine.jobs import queues
from windlass.engine.workers import turn
from windlass.engine.workers.turn import Turn
from windlass.errors import Invalid
from windlass.runtime.worker.worker import WorkerOptions
from windlass.testing import Clock

Client = Any
SPEC = JobSpec(type="a.b.v1")
HOUR = timedelta(hours=1)


async def test_a_pause_applies_to_the_next_claim_even_on_a_lane_that_was_read_before(db: Tenant) -> None:
    await jobs.submit(db, [SPEC, replace(SPEC, queue="sql")])
    lanes = [(replace(lane, seq=0), 9) for lane in await turn.look(db, ["default", "sql"])]
    await queues.pause(db, "default")
    assert [lane.queue for lane in await turn.look(db, ["default", "sql"])] == ["sql"]
    taken, _ = await turn.turn(db, Turn(worker="w1", lease=LEASE, lanes=lanes, count=9))
    assert [job.queue for job in taken] == ["sql"]
    await queues.resume(db, "default")
    taken, _ = await turn.turn(db, Turn(worker="w1", lease=LEASE, lanes=lanes, count=9))
    assert [job.queue for job in taken] == ["default"]


async def test_a_job_that_was_leased_before_a_pause_can_finish(db: Tenant) -> None:
    [id_] = await jobs.submit(db, [SPEC])
    worker = await ManualWorker.registered(db)
    [job] = await worker.take()
    await queues.pause(db, "default")
    assert await worker.end(job)
    assert (await jobs.get(db, id_)).status == "succeeded"


async def test_a_worker_that_polls_with_plain_sql_ignores_the_pause(db: Tenant, conn: Client) -> None:
    await jobs.submit(db, [SPEC])
    await queues.pause(db, "default")
    claimed = await conn.fetchval("""update workflow.workflow_run set status = 'leased', leased_by = 'go-1',
      lease_until = now() + interval '30 s' where id = (select id from workflow.workflow_run where status = 'pending'
      and run_at <= now() order by priority, created_at for update skip locked limit 1) returning queue""")
    assert claimed == "default"


async def test_a_worker_skips_a_paused_queue_and_a_resume_wakes_it(app: Windlass) -> None:
    done: asyncio.Queue[str] = asyncio.Queue()
    app.job("a.b.v1")(lambda queue: done.put_nowait(queue))
    app.job("a.c.v1")(lambda queue: done.put_nowait(queue))
    db = await app.open()
    await queues.pause(db, "default")
    stop = asyncio.Event()
    working = asyncio.create_task(app.work(WorkerOptions(poll=HOUR), stop=stop))
    await app.submit("a.b.v1", {"queue": "default"})
    await app.submit("a.c.v1", {"queue": "sql"}, queue="sql")
    async with asyncio.timeout(20):
        assert await done.get() == "sql"
        assert done.empty()
        await queues.resume(db, "default")
        assert await done.get() == "default"
    stop.set()
    await working


async def test_a_queue_has_a_depth_an_age_and_a_rate(db: Tenant, clock: Clock) -> None:
    clock.move(HOUR)
    await jobs.submit(db, [SPEC] * 3 + [replace(SPEC, type="a.c.v1", priority=5), replace(SPEC, delay=HOUR)])
    await jobs.submit(db, [replace(SPEC, queue="later", delay=2 * HOUR)] * 2)
    worker = await ManualWorker.registered(db)
    [first] = await worker.take(1)
    clock.move(timedelta(seconds=90))
    page = await queues.list_(db)
    default, later = (found.row for found in page.queues)
    assert (default.name, default.due, default.scheduled, default.leased, default.capped) == ("default", 3, 1, 1, False)
    assert default.oldest == timedelta(seconds=90)
    assert (later.name, later.due, later.scheduled, later.leased, later.oldest) == ("later", 0, 2, 0, None)
    assert [found.rate for found in page.queues] == [0.0, 0.0]
    second, *_ = await worker.take(2)
    await worker.send(Success(first, "1"), Success(second, "1"))
    assert (await queues.get(db, "default")).rate == pytest.approx(2 / 60)
    clock.move(timedelta(seconds=61))
    assert (await queues.get(db, "default")).rate == 0.0
    clock.move(3 * HOUR)
    await upkeep.become_due(db)
    assert (await queues.get(db, "later")).row.due == 2


async def test_the_rate_of_a_busy_minute_is_estimated_from_its_latest_events(
    db: Tenant, clock: Clock, conn: Client
) -> None:
    clock.move(HOUR)
    [id_] = await jobs.submit(db, [SPEC])
    now = clock.now()
    await conn.execute(
        """insert into workflow.workflow_event (workflow_id, event_type, created_at)
           select $1, 'succeeded', $2::timestamptz - n * interval '1 millisecond'
             from generate_series(20000, 1, -1) n""",
        id_,
        now,
    )
    assert (await queues.get(db, "default")).rate == pytest.approx(1000, rel=0.01)


async def test_queues_are_listed_by_name_in_pages(db: Tenant) -> None:
    for name in ("b", "a", "c"):
        await queues.pause(db, name)
    await queues.pause(db, "a")
    await queues.resume(db, "b")
    await queues.resume(db, "never heard of")
    await jobs.submit(db, [replace(SPEC, queue="d")])
    page = await queues.list_(db, limit=3)
    rest = await queues.list_(db, after=page.next or "", limit=3)
    assert [(found.row.name, found.row.paused) for found in page.queues + rest.queues] == [
        ("a", True),
        ("b", False),
        ("c", True),
        ("d", False),
    ]
    assert (page.next, rest.next) == ("c", None)
    empty = (await queues.get(db, "nobody")).row
    assert (empty.due, empty.leased, empty.paused) == (0, 0, False)


@pytest.mark.parametrize("name", ["", " ", "a\x00b", "x" * 256, "\ud800"], ids=ascii)
async def test_an_invalid_queue_name_is_refused(db: Tenant, name: str) -> None:
    for act in (queues.get, queues.pause, queues.resume):
        with pytest.raises(Invalid, match="queue"):
            await act(db, name)
