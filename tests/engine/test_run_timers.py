"""Sleeping steps: they end on time whichever process restarts meanwhile, and leave no timer."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from tests.engine.harness import ManualWorker, begin, letters, node, state, tick
from tests.keys import KEYS
from windlass.core.workflows.step import SleepAction
from windlass.engine.database import Tenant
from windlass.engine.runs import control as runs
from windlass.engine.runs import sweep
from windlass.runtime.loops.background import Timers
from windlass.store.postgres.pool import DatabaseOptions
from windlass.testing import Clock

Connection = Any
HOUR = timedelta(hours=1)
TINY = timedelta(microseconds=1)


@pytest.fixture
async def db(db: Tenant, clock: Clock) -> Tenant:
    clock.move(timedelta())  # freezes the clock
    return db


def nap(name: str = "s", *needs: str, of: timedelta = HOUR) -> Any:
    return node(name, *needs, action=SleepAction(of))


async def rows(conn: Connection) -> int:
    count: int = await conn.fetchval("select count(*) from windlass.timer")
    return count


async def test_a_sleep_ends_exactly_at_its_due_time(db: Tenant, conn: Connection, clock: Clock) -> None:
    run = await begin(db, nap(), node("b", "s"))
    assert await sweep.next_due(db) == (None, HOUR, timedelta(days=30))
    clock.move(HOUR - TINY)
    assert (await sweep.wake(db), await letters(db, run)) == (0, "a.")
    assert (await sweep.next_due(db))[1] == TINY
    clock.move(TINY)
    assert (await sweep.wake(db), await letters(db, run)) == (1, "sa")
    assert (await rows(conn), await sweep.wake(db)) == (0, 0)


async def test_a_sleep_counts_from_the_moment_it_begins(db: Tenant, clock: Clock) -> None:
    run = await begin(db, node("a"), nap("s", "a"))
    clock.move(HOUR * 5)
    worker = await ManualWorker.registered(db)
    await worker.end(await worker.take_one("a"))
    clock.move(HOUR - TINY)
    assert (await sweep.wake(db), await letters(db, run)) == (0, "sa")
    clock.move(TINY)
    await sweep.wake(db)
    assert await state(db, run) == "completed"


async def test_sequential_and_parallel_sleeps_end_at_their_due_times(db: Tenant, clock: Clock) -> None:
    run = await begin(db, nap("s"), nap("t", "s", of=HOUR * 2), nap("u", of=HOUR * 3), node("b", "t", "u"))
    seen = []
    for _ in range(4):
        seen.append(await letters(db, run))
        clock.move(HOUR)
        await sweep.wake(db)
    assert seen == ["a.a.", "saa.", "saa.", "sssa"]


async def test_a_tick_of_the_timer_loop_ends_due_sleeps_and_returns_the_time_until_the_next(
    db: Tenant, clock: Clock
) -> None:
    run = await begin(db, nap(of=timedelta(milliseconds=400)))
    timers = Timers(db)
    assert await timers.tick() == timedelta(milliseconds=400)
    clock.move(timedelta(milliseconds=400))
    assert await timers.tick() == timedelta()
    assert await state(db, run) == "completed"
    assert await timers.tick() == timers.options.every


async def test_the_timer_loop_expires_runs_that_exceed_their_max_duration(db: Tenant, clock: Clock) -> None:
    run = await begin(db, node("a"), max_duration=timedelta(milliseconds=300))
    timers = Timers(db)
    assert await timers.tick() == timedelta(milliseconds=300)
    clock.move(timedelta(milliseconds=300))
    assert await timers.tick() == timedelta()
    assert await state(db, run) == "timeout"


async def test_a_sleep_survives_a_restart_of_the_process(database: str, conn: Connection, clock: Clock) -> None:
    clock.move(timedelta())
    first = await Tenant.open(DatabaseOptions(url=database, clock=clock.now), keys=KEYS)
    run = await begin(first, nap(), node("b", "s"))
    await first.close()
    clock.move(HOUR * 100)  # no process was running when it ended
    second = await Tenant.open(DatabaseOptions(url=database, clock=clock.now), keys=KEYS)
    assert await sweep.wake(second) == 1
    assert await letters(second, run) == "sa"
    await second.close()


@pytest.mark.parametrize("how", ["cancel", "expiry"])
async def test_a_stopped_sleep_leaves_no_timer(db: Tenant, conn: Connection, clock: Clock, how: str) -> None:
    run = await begin(db, nap(), nap("t", "s"), nap("u"), max_duration=timedelta(minutes=1))
    assert await rows(conn) == 2
    if how == "cancel":
        await runs.cancel(db, run)
    else:
        clock.move(timedelta(minutes=1))
        await sweep.expire(db)
    assert (await letters(db, run), await rows(conn)) == ("ccc", 0)
    clock.move(HOUR * 10)
    assert await tick(db) == 0


async def test_a_rerun_sleep_has_its_full_duration_again(db: Tenant, conn: Connection, clock: Clock) -> None:
    run = await begin(db, nap(), node("b", "s"))
    clock.move(HOUR)
    await (await ManualWorker.registered(db)).play()
    await runs.rerun(db, run, "s")
    assert (await letters(db, run), await rows(conn)) == ("a.", 1)
    clock.move(HOUR - TINY)
    assert await sweep.wake(db) == 0
    clock.move(TINY)
    assert await sweep.wake(db) == 1


async def test_concurrent_timer_loops_end_a_sleep_once(
    db: Tenant, database: str, clock: Clock, conn: Connection
) -> None:
    ids = [await begin(db, nap(), node("b", "s"))] + [await begin(db) for _ in range(20)]
    clock.move(HOUR)
    others = [await Tenant.open(DatabaseOptions(url=database, clock=clock.now), keys=KEYS) for _ in range(3)]
    await asyncio.gather(*(sweep.wake(each) for each in [db, *others]))
    while await sweep.wake(db):
        pass
    assert {await letters(db, id_) for id_ in ids} == {"sa"}
    assert await conn.fetchval("select count(*) from workflow.workflow_run") == 21
    for each in others:
        await each.close()


async def test_a_sleep_of_a_run_locked_by_another_session_ends_in_a_later_tick(
    db: Tenant, conn: Connection, clock: Clock
) -> None:
    run = await begin(db, nap())
    clock.move(HOUR)
    async with conn.transaction():
        await conn.execute("select from windlass.run where id = $1 for update", run)
        assert (await sweep.wake(db), await rows(conn)) == (0, 1)
    assert await sweep.wake(db) == 1
