"""A tree of runs has a limit, however deep and wide it would like to grow."""

from typing import Any

import pytest

from tests.engine.playing import begin, letters, node, publish, reasons, state, tick
from windlass.core.step import ChildAction, Parallel
from windlass.engine import strays
from windlass.engine.unit import Unit

Connection = Any
AGAIN = node("again", action=ChildAction("bomb", {}), fan_out=Parallel(8))


@pytest.fixture
async def unit(unit: Unit) -> Unit:
    unit.tree_limit = 20
    return unit


async def grow(unit: Unit) -> None:
    while await strays.begin_held(unit) + await strays.settle_strays(unit):
        pass


async def live(conn: Connection) -> int:
    count: int = await conn.fetchval("select count(*) from windlass.run where state in ('pending', 'running')")
    return count


async def test_a_workflow_that_runs_itself_stops_growing_at_the_limit(unit: Unit, conn: Connection) -> None:
    await publish(unit, AGAIN, name="bomb")
    run = await begin(unit, node("top", action=ChildAction("bomb", {})))
    most = 0
    for _ in range(100):
        moved = await strays.begin_held(unit, batch=2) + await strays.settle_strays(unit)
        most = max(most, await live(conn))
        if not moved:
            break
    assert most <= 1 + unit.tree_limit
    assert await state(unit, run) == "failed"
    told = await conn.fetchval("select reason from windlass.event where reason like '%live runs below it%' limit 1")
    assert told == (
        f"run {run} would have more than 20 live runs below it: start fewer at a time (concurrency), "
        "or raise WINDLASS_TREE_LIMIT"
    )


async def test_each_tree_is_counted_by_itself(unit: Unit, conn: Connection) -> None:
    await publish(unit, node("x"), name="leaf")
    wide = node("wide", action=ChildAction("leaf", {}), fan_out=Parallel(15))
    first, second = await begin(unit, wide), await begin(unit, wide)
    await grow(unit)
    assert [await letters(unit, run) for run in (first, second)] == ["a", "a"]
    roots = await conn.fetch("select root_id, count(*) from windlass.run where root_id is not null group by 1")
    assert {row[0]: row[1] for row in roots} == {first: 15, second: 15}


async def test_a_step_that_is_too_wide_fails_and_says_so(unit: Unit) -> None:
    await publish(unit, node("x"), name="leaf")
    run = await begin(unit, node("wide", action=ChildAction("leaf", {}), fan_out=Parallel(21)))
    await tick(unit)
    assert (await state(unit, run), await letters(unit, run)) == ("failed", "f")
    assert any("more than 20 live runs below it" in reason for reason in await reasons(unit, run, "wide"))


async def test_a_limited_workflow_that_runs_itself_fails_instead_of_waiting_for_itself(
    unit: Unit, conn: Connection
) -> None:
    await publish(unit, node("y", action=ChildAction("limited", {})), name="between")
    await publish(unit, node("x", action=ChildAction("between", {})), name="limited", concurrency=1)
    run = await begin(unit, name="limited")
    await grow(unit)
    assert await state(unit, run) == "failed"
    below = await conn.fetchval("select id from windlass.run where parent_id = $1", run)
    assert await reasons(unit, below, "y") == [
        "workflow 'limited' has a concurrency of 1, and the runs above this step use it up: "
        "a run below them would wait for itself"
    ]
