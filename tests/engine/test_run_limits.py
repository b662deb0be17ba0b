"""The concurrency limit of a workflow: further runs are pending and begin in order as capacity becomes free."""

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

from tests.engine.harness import ManualWorker, begin, letters, node, publish, state, tick
from windlass.engine import workflows
from windlass.engine.database import Tenant
from windlass.engine.runs import control as runs
from windlass.engine.runs import start as run_start
from windlass.engine.runs import sweep
from windlass.engine.runs.start import RunSpec
from windlass.store.postgres.pool import DatabaseOptions
from windlass.testing import Clock

Connection = Any
RUNNING = "select count(*) from windlass.run where state = 'running'"


async def start(db: Tenant, count: int) -> list[UUID]:
    """Start runs one after the other, so that their order is known."""
    return [await begin(db) for _ in range(count)]


async def states(db: Tenant, ids: list[UUID]) -> list[str]:
    return [await state(db, id_) for id_ in ids]


async def test_a_run_beyond_the_limit_is_pending_and_has_not_started(db: Tenant, conn: Connection) -> None:
    await publish(db, node("a"), concurrency=1)
    first, second = await start(db, 2)
    row = await runs.get(db, second)
    assert (row.state, row.letters, row.started_at) == ("pending", ".", None)
    assert await state(db, first) == "running"
    assert await conn.fetchval("select count(*) from workflow.workflow_run") == 1
    assert await tick(db) == 0


async def test_a_batch_starts_as_many_runs_as_there_are_free_slots(db: Tenant) -> None:
    await publish(db, node("a"), concurrency=3)
    await run_start.start(db, "w", [RunSpec()] * 2)
    ids = await run_start.start(db, "w", [RunSpec()] * 4)
    assert await states(db, ids) == ["running", "pending", "pending", "pending"]


async def test_pending_runs_begin_in_the_order_of_their_start(db: Tenant) -> None:
    await publish(db, node("a"), concurrency=1)
    ids = await start(db, 4)
    worker = await ManualWorker.registered(db)
    for n in range(4):
        assert await states(db, ids) == ["completed"] * n + ["running"] + ["pending"] * (3 - n)
        await worker.end(await worker.take_one("a"))
        await tick(db)
    assert (await runs.get(db, ids[3])).started_at is not None


async def test_runs_of_one_batch_begin_in_its_order(db: Tenant) -> None:
    await publish(db, node("a"), concurrency=1)
    ids = await run_start.start(db, "w", [RunSpec()] * 6)
    worker = await ManualWorker.registered(db)
    begun = []
    for _ in ids:
        job = await worker.take_one("a")
        begun.append(job.run_id)
        await worker.end(job)
        await tick(db)
    assert begun == ids


async def test_a_new_run_does_not_overtake_pending_runs(db: Tenant) -> None:
    await publish(db, node("a"), concurrency=1)
    first, second = await start(db, 2)
    worker = await ManualWorker.registered(db)
    await worker.end(await worker.take_one("a"))
    [third] = await start(db, 1)  # a slot is free, but a pending run waits for it
    await tick(db)
    assert await states(db, [first, second, third]) == ["completed", "running", "pending"]


async def test_a_higher_limit_of_a_new_version_starts_pending_runs_on_their_own_version(db: Tenant) -> None:
    await publish(db, node("a"), concurrency=1)
    ids = await start(db, 5)
    await publish(db, node("a"), node("b"), concurrency=3)
    await tick(db)
    assert await states(db, ids) == ["running"] * 3 + ["pending"] * 2
    assert {(await runs.get(db, id_)).version for id_ in ids} == {1}
    await publish(db, node("a"), node("b"))
    await tick(db)
    assert await states(db, ids) == ["running"] * 5


async def test_a_lower_limit_stops_no_running_run_and_starts_no_pending_run(db: Tenant) -> None:
    await publish(db, node("a"), concurrency=3)
    ids = await start(db, 4)
    await publish(db, node("a"), concurrency=1)
    worker = await ManualWorker.registered(db)
    for left in (2, 1):
        job = (await worker.take(1))[0]
        await worker.end(job)
        await tick(db)
        assert (await states(db, ids)).count("running") == left
        assert await state(db, ids[3]) == "pending"
    await worker.end((await worker.take(1))[0])
    await tick(db)
    assert await states(db, ids) == ["completed"] * 3 + ["running"]


async def test_pending_runs_of_a_disabled_or_deleted_workflow_still_start(db: Tenant) -> None:
    await publish(db, node("a"), concurrency=1)
    ids = await start(db, 3)
    await workflows.enable(db, "w", False)
    worker = await ManualWorker.registered(db)
    await worker.end(await worker.take_one("a"))
    await tick(db)
    await workflows.delete(db, "w")
    await worker.play()
    assert await states(db, ids) == ["completed"] * 3


async def test_a_cancelled_pending_run_ends_immediately_and_never_starts(db: Tenant) -> None:
    await publish(db, node("a"), node("b", "a"), concurrency=1)
    first, second, third = await start(db, 3)
    await runs.cancel(db, second)
    row = await runs.get(db, second)
    assert (row.state, row.letters, row.started_at) == ("cancelled", "cc", None)
    assert row.finished_at is not None
    await (await ManualWorker.registered(db)).play()
    assert await states(db, [first, second, third]) == ["completed", "cancelled", "completed"]


async def test_a_pending_run_that_exceeds_its_max_duration_ends_as_timeout(db: Tenant, clock: Clock) -> None:
    await publish(db, node("a"), concurrency=1)
    await start(db, 1)
    held = await begin(db, max_duration=timedelta(minutes=1))
    clock.move(timedelta(minutes=2))
    assert await sweep.expire(db) == 1
    row = await runs.get(db, held)
    assert (row.state, row.letters, row.started_at) == ("timeout", "c", None)


async def test_a_cancelled_run_frees_its_slot(db: Tenant) -> None:
    await publish(db, node("a"), concurrency=1)
    first, second = await start(db, 2)
    await runs.cancel(db, first)
    await tick(db)
    assert await states(db, [first, second]) == ["cancelled", "running"]
    assert await letters(db, second) == "a"


async def test_concurrent_starts_and_promotions_never_exceed_the_limit(
    db: Tenant, database: str, conn: Connection, clock: Clock
) -> None:
    await publish(db, node("a"), concurrency=3)
    units = [await Tenant.open(DatabaseOptions(url=database, size=2, notify=False)) for _ in range(4)]
    worker = await ManualWorker.registered(db)
    seen = 0
    for _ in range(12):
        await asyncio.gather(
            *(begin(each) for each in units for _ in range(2)),
            *(sweep.PendingRuns(each).start() for each in units),
        )
        running = await conn.fetchval(RUNNING)
        assert running <= 3
        seen = max(seen, running)
        claimed = await worker.take(2)
        await asyncio.gather(
            *(worker.end(job) for job in claimed), *(sweep.PendingRuns(each).start() for each in units)
        )
        assert await conn.fetchval(RUNNING) <= 3
    await worker.play()
    assert seen == 3
    assert await conn.fetchval("select count(*) from windlass.run where state <> 'completed'") == 0
    for each in units:
        await each.close()


async def test_limits_of_two_workflows_are_independent(db: Tenant) -> None:
    await publish(db, node("a"), concurrency=1)
    await publish(db, node("a"), name="v", concurrency=1)
    ids = [await begin(db), await begin(db, name="v"), await begin(db), await begin(db, name="v")]
    assert await states(db, ids) == ["running", "running", "pending", "pending"]
    await (await ManualWorker.registered(db)).play()
    assert await states(db, ids) == ["completed"] * 4


async def test_many_workflows_at_their_limit_do_not_hide_others(db: Tenant) -> None:
    names = [f"full-{n}" for n in range(12)]
    for name in names:
        await publish(db, node("a"), name=name, concurrency=1)
        await run_start.start(db, name, [RunSpec()] * 2)
    await publish(db, node("a"), name="free", concurrency=1)
    [first, second] = await run_start.start(db, "free", [RunSpec()] * 2)
    await runs.cancel(db, first)
    held = sweep.PendingRuns(db, batch=2)
    for _ in range(7):  # each call looks at the next two workflows
        await held.start()
    assert await state(db, second) == "running"
