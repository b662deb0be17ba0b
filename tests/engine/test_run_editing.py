"""Workflows change under live runs: those go on as if nothing had happened. And the trail of the living is kept."""

from datetime import timedelta
from typing import Any

import pytest

from tests.engine.playing import Fails, Player, begin, letters, node, publish, state, tick
from windlass.core.step import ChildAction, Foreach, HookAction, Parallel, SleepAction
from windlass.engine import outputs, runs, starts, upkeep, workflows
from windlass.engine.starts import RunSpec
from windlass.engine.unit import Unit
from windlass.errors import NotFound
from windlass.testing import Clock

Connection = Any
MONTH = timedelta(days=30)
TABLES = [
    "workflow.workflow_run",
    *(f"windlass.{name}" for name in ("run", "item", "event", "timer", "notice", "hook")),
]


@pytest.fixture
async def player(unit: Unit) -> Player:
    return await Player.hello(unit)


@pytest.mark.parametrize("how", ["edit", "disable", "delete", "replace"])
async def test_c2_28_a_hundred_live_runs_finish_on_their_version(unit: Unit, player: Player, how: str) -> None:
    await publish(unit, node("a"), node("b", "a"), node("c", "b"))
    ids = await starts.start(unit, "w", [RunSpec()] * 100)
    for job in (await player.take())[:50]:
        await player.end(job)  # some are at the first step, some at the second
    if how == "edit":
        await publish(unit, node("c"), node("other", "c"))
    elif how == "disable":
        await workflows.enable(unit, "w", False)
    else:
        await workflows.delete(unit, "w")
        if how == "replace":
            await publish(unit, node("x"))
    await player.play()
    left = [id_ for id_ in ids if await state(unit, id_) != "completed"]
    assert len(left) == 50  # whose first step is still in our hands
    assert {await letters(unit, id_) for id_ in left} == {"a.."}
    assert {(await runs.get(unit, id_)).version for id_ in ids} == {1}


async def test_a_retry_of_an_old_run_uses_its_own_version(unit: Unit, player: Player) -> None:
    run = await begin(unit, node("a"), node("b", "a"))
    await player.play({"a": Fails()})
    await publish(unit, node("z"))
    await workflows.delete(unit, "w")
    await runs.retry(unit, run)
    await player.play()
    assert (await state(unit, run), await letters(unit, run)) == ("completed", "ss")


async def test_a_child_starts_on_what_is_live_when_it_starts(unit: Unit, player: Player) -> None:
    await publish(unit, node("old"), name="kid")
    run = await begin(unit, node("a"), node("sub", "a", action=ChildAction("kid")))
    await publish(unit, node("new"), name="kid")
    await player.play()
    assert (await state(unit, run), player.seen) == ("completed", ["a", "new"])


# What is kept


async def counts(conn: Connection) -> dict[str, int]:
    return {table.split(".")[1]: await conn.fetchval(f"select count(*) from {table}") for table in TABLES}


async def test_an_old_finished_run_goes_with_all_that_hangs_on_it(
    unit: Unit, player: Player, conn: Connection, clock: Clock
) -> None:
    run = await begin(unit, node("a"), node("b", "a", fan_out=Foreach("a")), node("h", "a", action=HookAction()))
    await player.play({"a": [1, 2, 3]})
    await runs.cancel(unit, run)
    assert await upkeep.prune(unit, age=MONTH) == 0
    assert (await counts(conn))["item"] == 3
    clock.move(MONTH + timedelta(days=1))
    while await upkeep.prune(unit, age=MONTH):
        pass
    assert set((await counts(conn)).values()) == {0}


async def test_a_live_run_keeps_its_jobs_however_old(
    unit: Unit, player: Player, conn: Connection, clock: Clock
) -> None:
    run = await begin(
        unit,
        node("a"),
        node("b", "a", fan_out=Foreach("a")),
        node("s", "b", action=SleepAction(timedelta(days=100))),
        node("c", "s"),
        max_duration=timedelta(days=1000),
    )
    await player.play({"a": [1, 2]})
    before = await counts(conn)
    clock.move(timedelta(days=90))
    while await upkeep.prune(unit, age=MONTH):
        pass
    assert await counts(conn) == before
    clock.move(timedelta(days=90))
    await player.play()
    assert await state(unit, run) == "completed"


async def test_a_run_that_ended_lately_keeps_its_old_jobs(unit: Unit, player: Player, clock: Clock) -> None:
    """It may be retried, and what succeeded long ago is needed then."""
    run = await begin(
        unit,
        node("a"),
        node("s", "a", action=SleepAction(timedelta(days=50))),
        node("b", "a", "s"),
        max_duration=timedelta(days=1000),
    )
    await player.play()
    clock.move(timedelta(days=50))
    await player.play({"b": Fails()})
    while await upkeep.prune(unit, age=MONTH):
        pass
    await runs.retry(unit, run)
    job = await player.take_one("b")
    assert (await outputs.of_needs(unit, [job]))[job.id]["a"] == "a"


async def test_a_live_run_keeps_the_runs_below_it(unit: Unit, player: Player, conn: Connection, clock: Clock) -> None:
    """Their outputs are its own."""
    await publish(unit, node("x"), name="grandkid")
    await publish(unit, node("sub", action=ChildAction("grandkid")), name="kid")
    nap = node("s", "sub", action=SleepAction(timedelta(days=50)))
    run = await begin(unit, node("sub", action=ChildAction("kid")), nap, node("b", "s", "sub"))
    await conn.execute("update windlass.run set expires_at = now() + interval '1000 days'")
    await player.play({"x": 42})
    clock.move(timedelta(days=50))
    while await upkeep.prune(unit, age=MONTH):
        pass
    await tick(unit)
    job = await player.take_one("b")
    assert (await outputs.of_needs(unit, [job]))[job.id]["sub"] == 42
    await player.end(job)
    assert await state(unit, run) == "completed"


async def test_a_pruned_run_is_unknown_and_its_key_is_free(unit: Unit, player: Player, clock: Clock) -> None:
    run = await begin(unit, node("a", fan_out=Parallel(0)), idempotency_key="k")
    clock.move(MONTH * 2)
    await upkeep.prune(unit, age=MONTH)
    with pytest.raises(NotFound):
        await runs.get(unit, run)
    assert await begin(unit, idempotency_key="k") != run


async def test_a_child_that_outlives_its_pruned_parent_disturbs_nobody(
    unit: Unit, player: Player, conn: Connection, clock: Clock
) -> None:
    await publish(unit, node("x"), name="kid")
    await begin(unit, node("sub", action=ChildAction("kid")), name="w")
    await tick(unit)
    job = await player.take_one("x")
    await conn.execute("update windlass.run set state = 'failed', finished_at = now() where parent_id is null")
    clock.move(MONTH * 2)
    await conn.execute("update windlass.run set expires_at = now() + interval '1000 days'")
    while await upkeep.prune(unit, age=MONTH):
        pass
    await player.end(job)
    assert await tick(unit) == 0
    assert (await counts(conn))["notice"] == 0  # there is nobody who would ever take it


async def test_the_trail_of_a_live_run_is_kept_however_old(
    unit: Unit, player: Player, conn: Connection, clock: Clock
) -> None:
    week = "select count(*) from pg_inherits where inhparent = 'workflow.workflow_event'::regclass"
    run = await begin(unit, node("a"), node("s", "a", action=SleepAction(timedelta(days=80))), max_duration=MONTH * 30)
    await player.play()
    lines = await conn.fetchval("select count(*) from workflow.workflow_event")
    clock.move(timedelta(days=70))
    await upkeep.tend(unit, age=MONTH)
    assert await conn.fetchval("select count(*) from workflow.workflow_event") == lines
    before = await conn.fetchval(week)
    clock.move(timedelta(days=20))
    await player.play()
    assert await state(unit, run) == "completed"
    await upkeep.tend(unit, age=MONTH)
    assert await conn.fetchval(week) < before + 3
    assert await conn.fetchval("select count(*) from workflow.workflow_event") < lines
