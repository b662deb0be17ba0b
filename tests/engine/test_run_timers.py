"""Sleeping steps: they end exactly, whoever restarts meanwhile, and leave nothing behind."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from tests.engine.playing import Player, begin, letters, node, state, tick
from windlass.core.step import SleepAction
from windlass.engine import runs, strays
from windlass.engine.unit import Unit
from windlass.runtime.timers import Timers
from windlass.store.pool import DatabaseOptions
from windlass.testing import Clock

Connection = Any
HOUR = timedelta(hours=1)
TINY = timedelta(microseconds=1)


@pytest.fixture
async def unit(unit: Unit, clock: Clock) -> Unit:
    clock.move(timedelta())  # time stands still
    return unit


def nap(name: str = "s", *needs: str, of: timedelta = HOUR) -> Any:
    return node(name, *needs, action=SleepAction(of))


async def rows(conn: Connection) -> int:
    count: int = await conn.fetchval("select count(*) from windlass.timer")
    return count


async def test_a_sleep_ends_exactly_when_it_should(unit: Unit, conn: Connection, clock: Clock) -> None:
    run = await begin(unit, nap(), node("b", "s"))
    assert await strays.next_due(unit) == (None, HOUR, timedelta(days=30))
    clock.move(HOUR - TINY)
    assert (await strays.wake(unit), await letters(unit, run)) == (0, "a.")
    assert (await strays.next_due(unit))[1] == TINY
    clock.move(TINY)
    assert (await strays.wake(unit), await letters(unit, run)) == (1, "sa")
    assert (await rows(conn), await strays.wake(unit)) == (0, 0)


async def test_a_sleep_counts_from_the_moment_it_begins(unit: Unit, clock: Clock) -> None:
    run = await begin(unit, node("a"), nap("s", "a"))
    clock.move(HOUR * 5)
    player = await Player.hello(unit)
    await player.end(await player.take_one("a"))
    clock.move(HOUR - TINY)
    assert (await strays.wake(unit), await letters(unit, run)) == (0, "sa")
    clock.move(TINY)
    await strays.wake(unit)
    assert await state(unit, run) == "completed"


async def test_sleeps_in_a_row_and_side_by_side(unit: Unit, clock: Clock) -> None:
    run = await begin(unit, nap("s"), nap("t", "s", of=HOUR * 2), nap("u", of=HOUR * 3), node("b", "t", "u"))
    seen = []
    for _ in range(4):
        seen.append(await letters(unit, run))
        clock.move(HOUR)
        await strays.wake(unit)
    assert seen == ["a.a.", "saa.", "saa.", "sssa"]


async def test_the_loop_says_how_long_it_may_sleep_and_does_what_is_due(unit: Unit, clock: Clock) -> None:
    run = await begin(unit, nap(of=timedelta(milliseconds=400)))
    timers = Timers(unit)
    assert await timers.tick() == timedelta(milliseconds=400)
    clock.move(timedelta(milliseconds=400))
    assert await timers.tick() == timedelta()
    assert await state(unit, run) == "completed"
    assert await timers.tick() == timers.options.every


async def test_the_loop_ends_runs_whose_time_is_over(unit: Unit, clock: Clock) -> None:
    run = await begin(unit, node("a"), max_duration=timedelta(milliseconds=300))
    timers = Timers(unit)
    assert await timers.tick() == timedelta(milliseconds=300)
    clock.move(timedelta(milliseconds=300))
    assert await timers.tick() == timedelta()
    assert await state(unit, run) == "timeout"


async def test_a_sleep_survives_the_process_that_began_it(database: str, conn: Connection, clock: Clock) -> None:
    clock.move(timedelta())
    first = await Unit.open(DatabaseOptions(url=database, clock=clock.now))
    run = await begin(first, nap(), node("b", "s"))
    await first.close()
    clock.move(HOUR * 100)  # nobody was there when it ended
    second = await Unit.open(DatabaseOptions(url=database, clock=clock.now))
    assert await strays.wake(second) == 1
    assert await letters(second, run) == "sa"
    await second.close()


@pytest.mark.parametrize("how", ["cancel", "expiry"])
async def test_a_stopped_sleep_leaves_no_timer(unit: Unit, conn: Connection, clock: Clock, how: str) -> None:
    run = await begin(unit, nap(), nap("t", "s"), nap("u"), max_duration=timedelta(minutes=1))
    assert await rows(conn) == 2
    if how == "cancel":
        await runs.cancel(unit, run)
    else:
        clock.move(timedelta(minutes=1))
        await strays.expire(unit)
    assert (await letters(unit, run), await rows(conn)) == ("ccc", 0)
    clock.move(HOUR * 10)
    assert await tick(unit) == 0


async def test_a_sleep_that_is_done_again_has_its_whole_time(unit: Unit, conn: Connection, clock: Clock) -> None:
    run = await begin(unit, nap(), node("b", "s"))
    clock.move(HOUR)
    await (await Player.hello(unit)).play()
    await runs.rerun(unit, run, "s")
    assert (await letters(unit, run), await rows(conn)) == ("a.", 1)
    clock.move(HOUR - TINY)
    assert await strays.wake(unit) == 0
    clock.move(TINY)
    assert await strays.wake(unit) == 1


async def test_two_loops_at_once_end_a_sleep_once(unit: Unit, database: str, clock: Clock, conn: Connection) -> None:
    ids = [await begin(unit, nap(), node("b", "s"))] + [await begin(unit) for _ in range(20)]
    clock.move(HOUR)
    others = [await Unit.open(DatabaseOptions(url=database, clock=clock.now)) for _ in range(3)]
    await asyncio.gather(*(strays.wake(each) for each in [unit, *others]))
    while await strays.wake(unit):
        pass
    assert {await letters(unit, id_) for id_ in ids} == {"sa"}
    assert await conn.fetchval("select count(*) from workflow.workflow_run") == 21
    for each in others:
        await each.close()


async def test_a_run_that_somebody_works_on_wakes_a_moment_later(unit: Unit, conn: Connection, clock: Clock) -> None:
    run = await begin(unit, nap())
    clock.move(HOUR)
    async with conn.transaction():
        await conn.execute("select from windlass.run where id = $1 for update", run)
        assert (await strays.wake(unit), await rows(conn)) == (0, 1)
    assert await strays.wake(unit) == 1
