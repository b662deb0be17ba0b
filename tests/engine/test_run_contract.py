"""Seed 004 as testable statements: the rows T of its contract that concern the engine. State names are Windlass's:
completed for success, leased for dispatched and running."""

import asyncio
from typing import Any

import pytest

from tests.engine.fake_services import deploy
from tests.engine.harness import (
    LEASE,
    Fails,
    ManualWorker,
    begin,
    events_of,
    letters,
    node,
    publish,
    reasons,
    report,
    state,
    tick,
)
from windlass.core.runs.run import RunState
from windlass.core.workflows.step import Foreach, Parallel
from windlass.engine import upkeep
from windlass.engine.database import Tenant
from windlass.engine.jobs import control as jobs
from windlass.engine.runs import control as runs
from windlass.errors import Conflict
from windlass.store.postgres.pool import DatabaseOptions
from windlass.testing import Clock

pytestmark = pytest.mark.usefixtures("an_hour_later")

Connection = Any


# Runs


async def test_t1_a_held_run_is_pending_until_it_starts(db: Tenant, worker: ManualWorker) -> None:
    await publish(db, node("a"), concurrency=1)
    _, run = await begin(db), await begin(db)
    assert await state(db, run) == "pending"
    await worker.play()
    assert await events_of(db, run) == ["pending", "running", "completed"]


async def test_t2_a_run_whose_steps_all_succeed_completes(db: Tenant, worker: ManualWorker) -> None:
    run = await begin(db, node("a"), node("b", "a"), node("c", "a"))
    await worker.play()
    row = await runs.get(db, run)
    assert (row.state, row.letters) == ("completed", "sss")
    assert row.finished_at is not None


async def test_t3_a_permanently_failed_step_fails_the_run(db: Tenant, worker: ManualWorker) -> None:
    run = await begin(db, node("a"), node("b"))
    await worker.play({"a": Fails()})
    row = await runs.get(db, run)
    assert (row.state, row.letters) == ("failed", "fs")
    assert row.finished_at is not None
    assert await reasons(db, run, "a") == ["boom"]


async def test_t4_a_run_continues_while_any_step_is_running(db: Tenant, worker: ManualWorker) -> None:
    run = await begin(db, node("a"), node("b"))
    by_step = {worker.step(job): job for job in await worker.take()}
    await worker.end(by_step["a"], Fails())
    assert (await state(db, run), await letters(db, run)) == ("running", "fa")
    assert (await runs.get(db, run)).finished_at is None
    await worker.end(by_step["b"])
    assert await state(db, run) == "failed"


async def test_t5_a_running_run_can_be_cancelled(db: Tenant) -> None:
    run = await begin(db, node("a"))
    await runs.cancel(db, run)
    assert await state(db, run) == "cancelled"


@pytest.mark.parametrize("end", ["completed", "failed", "cancelled"])
async def test_t6_an_ended_run_stays_ended(db: Tenant, worker: ManualWorker, end: str) -> None:
    run = await begin(db, node("a"))
    if end == "cancelled":
        await runs.cancel(db, run)
    await worker.play({"a": Fails() if end == "failed" else 1})
    assert await state(db, run) == end
    before = await runs.get(db, run)
    with pytest.raises(
        Conflict, match=f"run {run} is {end} and cannot be cancelled: only pending and running runs can be"
    ):
        await runs.cancel(db, run)
    await worker.play()
    assert await runs.get(db, run) == before


# Steps


async def test_t7_every_step_waits_at_first_and_t8_only_roots_are_dispatched(db: Tenant, worker: ManualWorker) -> None:
    run = await begin(db, node("a"), node("b", "a"), node("c", "a", "b"))
    assert await letters(db, run) == "a.."
    await worker.end(await worker.take_one("a"))
    assert await letters(db, run) == "sa."
    await worker.end(await worker.take_one("b"))
    assert await letters(db, run) == "ssa"


async def test_t8_a_step_waits_for_every_upstream(db: Tenant, worker: ManualWorker) -> None:
    run = await begin(db, node("a"), node("b"), node("c", "a", "b"))
    first, second = await worker.take()
    await worker.end(first)
    assert await letters(db, run) == "sa."
    assert await worker.take() == []
    await worker.end(second)
    await worker.take_one("c")


async def test_t11_a_succeeded_step_keeps_its_output(db: Tenant, worker: ManualWorker) -> None:
    run = await begin(db, node("a"))
    await worker.play({"a": {"n": 1}})
    assert await runs.output(db, run) == {"n": 1}


async def test_t12_and_t13_a_failed_attempt_is_retried_with_an_incremented_number(
    db: Tenant, worker: ManualWorker
) -> None:
    run = await begin(db, node("a", max_attempts=3))
    for number in (1, 2):
        job = await worker.take_one("a")
        assert job.number == number
        await worker.end(job, Fails(f"boom {number}"))
        assert await letters(db, run) == "a"
    job = await worker.take_one("a")
    assert (job.number, (await jobs.get(db, job.id)).last_error) == (3, "boom 2")
    await worker.end(job)
    assert await state(db, run) == "completed"


async def test_t14_the_last_attempt_fails_the_step_and_keeps_its_error(db: Tenant, worker: ManualWorker) -> None:
    run = await begin(db, node("a", max_attempts=3))
    await worker.play({"a": lambda job: Fails(f"boom {job.number}")})
    assert worker.seen == ["a"] * 3
    assert (await state(db, run), await reasons(db, run, "a")) == ("failed", ["boom 3"])
    job = (await runs.view(db, run)).jobs[0]
    assert (job.attempts, job.last_error) == (3, "boom 3")


async def test_t15_a_failure_skips_dependent_steps_unless_on_failure_is_run(db: Tenant, worker: ManualWorker) -> None:
    await deploy(
        db,
        a={"job": "test.a.v1", "max_retries": 1},
        b={"job": "test.b.v1", "depends_on": ["a"]},
        c={"job": "test.c.v1", "depends_on": ["a"], "on_failure": "run"},
    )
    run = await begin(db)
    await worker.play({"a": Fails()})
    assert await letters(db, run) == "fks"
    assert await reasons(db, run, "b") == ["needs a to succeed, but it failed"]
    assert await state(db, run) == "failed"


async def test_t17_a_lost_lease_uses_up_an_attempt_and_the_last_one_fails_the_step(
    db: Tenant, worker: ManualWorker, clock: Clock
) -> None:
    run = await begin(db, node("a", max_attempts=2), node("b", "a"))
    for _ in range(2):
        await worker.take_one("a")
        clock.move(LEASE * 2)
        await upkeep.release_expired(db)
    await tick(db)
    assert (await state(db, run), await letters(db, run)) == ("failed", "fk")
    assert await reasons(db, run, "a") == ["lease lost: w1 fell silent"]


async def test_t18_a_step_that_exceeds_its_timeout_is_timed_out(db: Tenant, worker: ManualWorker) -> None:
    run = await begin(db, node("a"), node("b", "a"), node("c", "a:failure"))
    await worker.play({"a": Fails("timed out after 1 s", type="Timeout")})
    assert await letters(db, run) == "tks"


async def test_t23_two_processes_never_dispatch_a_step_twice(db: Tenant, database: str, conn: Connection) -> None:
    await publish(db, node("a"), node("b", "a"), node("c", "a"), node("d", "b", "c"))
    ids = [await begin(db) for _ in range(20)]
    others = [await Tenant.open(DatabaseOptions(url=database, notify=False)) for _ in range(2)]
    players = [await ManualWorker.registered(each, f"w{n}") for n, each in enumerate([db, *others])]
    await asyncio.gather(*(worker.play() for worker in players))
    await players[0].play()
    assert {await state(db, id_) for id_ in ids} == {RunState.COMPLETED}
    assert await conn.fetchval("select count(*) from workflow.workflow_run") == 80
    events = "select count(*) from workflow.workflow_event where event_type = $1"
    assert [await conn.fetchval(events, word) for word in ("created", "leased", "succeeded")] == [80, 80, 80]
    for each in others:
        await each.close()


# Parallel


async def test_t29_parallel_four_creates_four_instances(db: Tenant, worker: ManualWorker) -> None:
    run = await begin(db, node("a", fan_out=Parallel(4)))
    assert [(job.item, job.items) for job in await worker.take()] == [(0, 4), (1, 4), (2, 4), (3, 4)]
    assert await letters(db, run) == "a"


async def test_t30_parallel_with_a_path_creates_as_many_instances_as_its_value(
    db: Tenant, worker: ManualWorker
) -> None:
    run = await begin(db, node("discover"), node("process", "discover", fan_out=Parallel("discover.count")))
    assert await letters(db, run) == "a."
    await worker.end(await worker.take_one("discover"), {"count": 10})
    assert sorted((job.item, job.items) for job in await worker.take()) == [(n, 10) for n in range(10)]


async def test_t31_foreach_creates_one_instance_for_each_item(db: Tenant, worker: ManualWorker) -> None:
    files = ["a.csv", "b.csv", "c.csv"]
    await begin(db, node("discover"), node("process", "discover", fan_out=Foreach("discover.files")))
    await worker.end(await worker.take_one("discover"), {"files": files})
    claimed = sorted(await worker.take(), key=lambda job: job.item or 0)
    assert [(job.item, job.items, job.payload) for job in claimed] == [
        (n, 3, f'{{"item": "{name}"}}') for n, name in enumerate(files)
    ]


async def test_t32_concurrency_four_never_has_more_than_four_live_instances(
    db: Tenant, worker: ManualWorker, conn: Connection
) -> None:
    live = "select count(*) from workflow.workflow_run where status in ('pending', 'leased')"
    run = await begin(db, node("a", fan_out=Parallel(11), concurrency=4))
    done = 0
    while claimed := await worker.take(3):
        assert await conn.fetchval(live) <= 4
        await worker.send(*[report(job, None) for job in claimed])
        done += len(claimed)
    assert (done, await state(db, run)) == (11, "completed")
