"""A workflow's limit on runs at a time: the others are pending, and begin in order as places become free."""

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

from tests.engine.playing import Player, begin, letters, node, publish, state, tick
from windlass.engine import runs, starts, strays, workflows
from windlass.engine.starts import RunSpec
from windlass.engine.unit import Unit
from windlass.store.pool import DatabaseOptions
from windlass.testing import Clock

Connection = Any
RUNNING = "select count(*) from windlass.run where state = 'running'"


async def start(unit: Unit, count: int) -> list[UUID]:
    """One after the other: their order is plain."""
    return [await begin(unit) for _ in range(count)]


async def states(unit: Unit, ids: list[UUID]) -> list[str]:
    return [await state(unit, id_) for id_ in ids]


async def test_a_run_beyond_the_limit_is_pending_and_has_not_started(unit: Unit, conn: Connection) -> None:
    await publish(unit, node("a"), concurrency=1)
    first, second = await start(unit, 2)
    row = await runs.get(unit, second)
    assert (row.state, row.letters, row.started_at) == ("pending", ".", None)
    assert await state(unit, first) == "running"
    assert await conn.fetchval("select count(*) from workflow.workflow_run") == 1
    assert await tick(unit) == 0


async def test_a_batch_fills_the_places_there_are(unit: Unit) -> None:
    await publish(unit, node("a"), concurrency=3)
    await starts.start(unit, "w", [RunSpec()] * 2)
    ids = await starts.start(unit, "w", [RunSpec()] * 4)
    assert await states(unit, ids) == ["running", "pending", "pending", "pending"]


async def test_pending_runs_begin_in_the_order_of_their_start(unit: Unit) -> None:
    await publish(unit, node("a"), concurrency=1)
    ids = await start(unit, 4)
    player = await Player.hello(unit)
    for n in range(4):
        assert await states(unit, ids) == ["completed"] * n + ["running"] + ["pending"] * (3 - n)
        await player.end(await player.take_one("a"))
        await tick(unit)
    assert (await runs.get(unit, ids[3])).started_at is not None


async def test_runs_of_one_batch_begin_in_its_order(unit: Unit) -> None:
    await publish(unit, node("a"), concurrency=1)
    ids = await starts.start(unit, "w", [RunSpec()] * 6)
    player = await Player.hello(unit)
    begun = []
    for _ in ids:
        job = await player.take_one("a")
        begun.append(job.run_id)
        await player.end(job)
        await tick(unit)
    assert begun == ids


async def test_nobody_overtakes_those_who_wait(unit: Unit) -> None:
    await publish(unit, node("a"), concurrency=1)
    first, second = await start(unit, 2)
    player = await Player.hello(unit)
    await player.end(await player.take_one("a"))
    [third] = await start(unit, 1)  # a place is free, but somebody waits for it
    await tick(unit)
    assert await states(unit, [first, second, third]) == ["completed", "running", "pending"]


async def test_a_higher_limit_of_a_new_version_lets_old_runs_begin_on_their_version(unit: Unit) -> None:
    await publish(unit, node("a"), concurrency=1)
    ids = await start(unit, 5)
    await publish(unit, node("a"), node("b"), concurrency=3)
    await tick(unit)
    assert await states(unit, ids) == ["running"] * 3 + ["pending"] * 2
    assert {(await runs.get(unit, id_)).version for id_ in ids} == {1}
    await publish(unit, node("a"), node("b"))
    await tick(unit)
    assert await states(unit, ids) == ["running"] * 5


async def test_a_lower_limit_stops_nobody_and_lets_nobody_in(unit: Unit) -> None:
    await publish(unit, node("a"), concurrency=3)
    ids = await start(unit, 4)
    await publish(unit, node("a"), concurrency=1)
    player = await Player.hello(unit)
    for left in (2, 1):
        job = (await player.take(1))[0]
        await player.end(job)
        await tick(unit)
        assert (await states(unit, ids)).count("running") == left
        assert await state(unit, ids[3]) == "pending"
    await player.end((await player.take(1))[0])
    await tick(unit)
    assert await states(unit, ids) == ["completed"] * 3 + ["running"]


async def test_disabling_or_deleting_the_workflow_lets_pending_runs_go_on(unit: Unit) -> None:
    await publish(unit, node("a"), concurrency=1)
    ids = await start(unit, 3)
    await workflows.enable(unit, "w", False)
    player = await Player.hello(unit)
    await player.end(await player.take_one("a"))
    await tick(unit)
    await workflows.delete(unit, "w")
    await player.play()
    assert await states(unit, ids) == ["completed"] * 3


async def test_a_cancelled_pending_run_ends_at_once_and_never_begins(unit: Unit) -> None:
    await publish(unit, node("a"), node("b", "a"), concurrency=1)
    first, second, third = await start(unit, 3)
    await runs.cancel(unit, second)
    row = await runs.get(unit, second)
    assert (row.state, row.letters, row.started_at) == ("cancelled", "cc", None)
    assert row.finished_at is not None
    await (await Player.hello(unit)).play()
    assert await states(unit, [first, second, third]) == ["completed", "cancelled", "completed"]


async def test_a_pending_run_whose_time_is_over_ends_as_timeout(unit: Unit, clock: Clock) -> None:
    await publish(unit, node("a"), concurrency=1)
    await start(unit, 1)
    held = await begin(unit, max_duration=timedelta(minutes=1))
    clock.move(timedelta(minutes=2))
    assert await strays.expire(unit) == 1
    row = await runs.get(unit, held)
    assert (row.state, row.letters, row.started_at) == ("timeout", "c", None)


async def test_a_cancelled_run_makes_room(unit: Unit) -> None:
    await publish(unit, node("a"), concurrency=1)
    first, second = await start(unit, 2)
    await runs.cancel(unit, first)
    await tick(unit)
    assert await states(unit, [first, second]) == ["cancelled", "running"]
    assert await letters(unit, second) == "a"


async def test_processes_that_start_and_promote_at_once_never_exceed_the_limit(
    unit: Unit, database: str, conn: Connection, clock: Clock
) -> None:
    await publish(unit, node("a"), concurrency=3)
    units = [await Unit.open(DatabaseOptions(url=database, size=2, notify=False)) for _ in range(4)]
    player = await Player.hello(unit)
    seen = 0
    for _ in range(12):
        await asyncio.gather(
            *(begin(each) for each in units for _ in range(2)),
            *(strays.begin_held(each) for each in units),
        )
        running = await conn.fetchval(RUNNING)
        assert running <= 3
        seen = max(seen, running)
        claimed = await player.take(2)
        await asyncio.gather(*(player.end(job) for job in claimed), *(strays.begin_held(each) for each in units))
        assert await conn.fetchval(RUNNING) <= 3
    await player.play()
    assert seen == 3
    assert await conn.fetchval("select count(*) from windlass.run where state <> 'completed'") == 0
    for each in units:
        await each.close()


async def test_limits_of_two_workflows_are_apart(unit: Unit) -> None:
    await publish(unit, node("a"), concurrency=1)
    await publish(unit, node("a"), name="v", concurrency=1)
    ids = [await begin(unit), await begin(unit, name="v"), await begin(unit), await begin(unit, name="v")]
    assert await states(unit, ids) == ["running", "running", "pending", "pending"]
    await (await Player.hello(unit)).play()
    assert await states(unit, ids) == ["completed"] * 4
