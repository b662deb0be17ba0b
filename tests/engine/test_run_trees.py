"""The number of runs in a tree is limited, however deep or wide the tree is."""

from typing import Any

import pytest

from tests.engine.harness import begin, letters, node, publish, reasons, state, tick
from windlass.core.workflows.step import ChildAction, Parallel
from windlass.engine.database import Tenant
from windlass.engine.runs import sweep

Connection = Any
AGAIN = node("again", action=ChildAction("bomb", {}), fan_out=Parallel(8))


@pytest.fixture
async def db(db: Tenant) -> Tenant:
    db.tree_limit = 20
    return db


async def grow(db: Tenant) -> None:
    while await sweep.PendingRuns(db).start() + await sweep.sweep_runs(db):
        pass


async def live(conn: Connection) -> int:
    count: int = await conn.fetchval("select count(*) from windlass.run where state in ('pending', 'running')")
    return count


async def test_a_recursive_workflow_stops_growing_at_the_limit(db: Tenant, conn: Connection) -> None:
    await publish(db, AGAIN, name="bomb")
    run = await begin(db, node("top", action=ChildAction("bomb", {})))
    most = 0
    for _ in range(100):
        moved = await sweep.PendingRuns(db, batch=2).start() + await sweep.sweep_runs(db)
        most = max(most, await live(conn))
        if not moved:
            break
    assert most <= 1 + db.tree_limit
    assert await state(db, run) == "failed"
    told = await conn.fetchval("select reason from windlass.event where reason like '%live descendants%' limit 1")
    assert told == (
        f"run {run} would have more than 20 live descendants: lower the concurrency of the step, "
        "or raise WINDLASS_TREE_LIMIT"
    )


async def test_each_tree_has_its_own_count(db: Tenant, conn: Connection) -> None:
    await publish(db, node("x"), name="leaf")
    wide = node("wide", action=ChildAction("leaf", {}), fan_out=Parallel(15))
    first, second = await begin(db, wide), await begin(db, wide)
    await grow(db)
    assert [await letters(db, run) for run in (first, second)] == ["a", "a"]
    roots = await conn.fetch("select root_id, count(*) from windlass.run where root_id is not null group by 1")
    assert {row[0]: row[1] for row in roots} == {first: 15, second: 15}


async def test_a_fan_out_wider_than_the_limit_fails_its_step_with_the_reason(db: Tenant) -> None:
    await publish(db, node("x"), name="leaf")
    run = await begin(db, node("wide", action=ChildAction("leaf", {}), fan_out=Parallel(21)))
    await tick(db)
    assert (await state(db, run), await letters(db, run)) == ("failed", "f")
    assert any("more than 20 live descendants" in reason for reason in await reasons(db, run, "wide"))


async def test_a_recursive_workflow_with_a_concurrency_limit_fails_instead_of_deadlocking(
    db: Tenant, conn: Connection
) -> None:
    await publish(db, node("y", action=ChildAction("limited", {})), name="between")
    await publish(db, node("x", action=ChildAction("between", {})), name="limited", concurrency=1)
    run = await begin(db, name="limited")
    await grow(db)
    assert await state(db, run) == "failed"
    below = await conn.fetchval("select id from windlass.run where parent_id = $1", run)
    assert await reasons(db, below, "y") == [
        "workflow 'limited' has a concurrency of 1, and this run and its ancestors use it up: "
        "a child run would deadlock"
    ]
