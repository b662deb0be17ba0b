"""Sub-workflows stopped or done again: cancel travels down, a retry starts new children, nobody is confused."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.engine.playing import Fails, Player, begin, letters, node, publish, reasons, state, tick
from windlass.core.step import ChildAction, Parallel, Step
from windlass.engine import runs, strays
from windlass.engine.unit import Unit
from windlass.testing import Clock

Connection = Any


@pytest.fixture
async def player(unit: Unit) -> Player:
    return await Player.hello(unit)


def child(name: str = "sub", *needs: str, workflow: str = "kid", **more: Any) -> Step:
    return node(name, *needs, action=ChildAction(workflow), **more)


async def below(conn: Connection, run: UUID) -> list[UUID]:
    """The runs below this one, by age and item."""
    rows = await conn.fetch("select id from windlass.run where parent_id = $1 order by parent_round, parent_item", run)
    return [row["id"] for row in rows]


# Cancel


async def test_cancel_travels_down_to_the_grandchildren(unit: Unit, player: Player, conn: Connection) -> None:
    await publish(unit, node("x"), node("y", "x"), name="grandkid")
    await publish(unit, child(workflow="grandkid"), name="kid")
    run = await begin(unit, child(), node("b", "sub"))
    await tick(unit)
    await tick(unit)
    [kid] = await below(conn, run)
    [grandkid] = await below(conn, kid)
    await runs.cancel(unit, run, reason="enough")
    while await tick(unit):
        pass
    assert [await state(unit, each) for each in (run, kid, grandkid)] == ["cancelled"] * 3
    assert [await letters(unit, each) for each in (run, kid, grandkid)] == ["cc", "c", "cc"]
    assert await reasons(unit, kid) == ["enough"]
    assert await conn.fetchval("select count(*) from windlass.notice") == 0
    assert await player.take() == []


async def test_a_child_that_has_not_begun_is_cancelled_too(unit: Unit, conn: Connection) -> None:
    await publish(unit, node("x"), name="kid")
    run = await begin(unit, child())
    await runs.cancel(unit, run)
    await tick(unit)
    [kid] = await below(conn, run)
    row = await runs.get(unit, kid)
    assert (row.state, row.letters, row.started_at) == ("cancelled", "c", None)
    await tick(unit)
    assert await letters(unit, run) == "c"


async def test_expiry_travels_down_too(unit: Unit, conn: Connection, clock: Clock) -> None:
    await publish(unit, node("x"), name="kid")
    run = await begin(unit, child(), max_duration=timedelta(minutes=1))
    await tick(unit)
    clock.move(timedelta(minutes=2))
    while await tick(unit):
        pass
    [kid] = await below(conn, run)
    assert (await state(unit, run), await state(unit, kid)) == ("timeout", "cancelled")
    assert await reasons(unit, kid) == ["the run's time was over"]


@pytest.mark.parametrize("cancel_first", [True, False])
async def test_a_child_begun_in_the_moment_of_the_cancel_is_cancelled_with_the_rest(
    unit: Unit, player: Player, conn: Connection, cancel_first: bool
) -> None:
    """One child's end frees a slot, and the word to stop comes in the same moment."""
    await publish(unit, node("x"), name="kid")
    await publish(unit, child(fan_out=Parallel(3), concurrency=1), name="middle")
    run = await begin(unit, child(workflow="middle"))
    await tick(unit)
    await tick(unit)
    [middle] = await below(conn, run)
    job = await player.take_one("x")
    if cancel_first:
        await runs.cancel(unit, run)
        await player.end(job)
    else:
        await player.end(job)
        await runs.cancel(unit, run)
    while await tick(unit):
        pass
    assert {await state(unit, each) for each in (run, middle)} == {"cancelled"}
    assert await conn.fetchval("select count(*) from windlass.run where state in ('pending', 'running')") == 0
    assert await letters(unit, middle) == "c"


# Again


async def test_a_retry_of_the_parent_starts_a_new_child(unit: Unit, player: Player, conn: Connection) -> None:
    await publish(unit, node("x"), name="kid")
    run = await begin(unit, child(), node("b", "sub"))
    await player.play({"x": Fails()})
    assert await letters(unit, run) == "fk"
    await runs.retry(unit, run)
    await player.play({"x": "new"})
    old, new = await below(conn, run)
    assert [await state(unit, each) for each in (run, old, new)] == ["completed", "failed", "completed"]
    assert await letters(unit, run) == "ss"


@pytest.mark.parametrize("window", [None, 1])
async def test_a_retry_starts_new_children_only_for_the_bad_ones(
    unit: Unit, player: Player, conn: Connection, window: int | None
) -> None:
    await publish(unit, node("x"), name="kid")
    run = await begin(unit, child(fan_out=Parallel(4), concurrency=window))
    count = iter(range(10))
    await player.play({"x": lambda _: Fails() if next(count) in (1, 2) else "old"})
    assert await reasons(unit, run, "sub") == ["2 of 4 instances failed"]
    assert len(await below(conn, run)) == 4
    await runs.retry(unit, run)
    await player.play({"x": "new"})
    assert await state(unit, run) == "completed"
    assert len(await below(conn, run)) == 6
    assert sorted(await runs.output(unit, run)) == ["new", "new", "old", "old"]


async def test_a_rerun_starts_all_children_anew(unit: Unit, player: Player, conn: Connection) -> None:
    await publish(unit, node("x"), name="kid")
    run = await begin(unit, node("a"), child("sub", "a", fan_out=Parallel("a")))
    await player.play({"a": 3, "x": "old"})
    await runs.rerun(unit, run, "a")
    await player.play({"a": 2, "x": "new"})
    assert (await state(unit, run), await runs.output(unit, run)) == ("completed", ["new", "new"])
    await runs.rerun(unit, run, "a")
    await player.play({"a": 0})
    assert await runs.output(unit, run) == []


async def test_a_retried_child_does_not_confuse_its_failed_parent(unit: Unit, player: Player, conn: Connection) -> None:
    await publish(unit, node("x"), name="kid")
    run = await begin(unit, child(), node("b", "sub"))
    await player.play({"x": Fails()})
    before = await runs.get(unit, run)
    [kid] = await below(conn, run)
    await runs.retry(unit, kid)
    await player.play()
    assert await state(unit, kid) == "completed"
    assert await runs.get(unit, run) == before


async def test_a_retried_child_is_not_counted_twice(unit: Unit, player: Player, conn: Connection) -> None:
    await publish(unit, node("x"), name="kid")
    run = await begin(unit, child(fan_out=Parallel(2)))
    await tick(unit)
    first, second = await player.take()
    await player.end(first, Fails(for_good=True))
    await tick(unit)
    assert first.run_id is not None
    await runs.retry(unit, first.run_id)
    await player.end((await player.take())[0])
    await tick(unit)
    assert (await state(unit, run), await letters(unit, run)) == ("running", "a")  # the second one is under way
    await player.end(second)
    await tick(unit)
    assert (await state(unit, run), await reasons(unit, run, "sub")) == ("failed", ["1 of 2 instances failed"])


async def test_a_retry_while_the_child_is_told_to_stop_starts_it_anew(
    unit: Unit, player: Player, conn: Connection, clock: Clock
) -> None:
    """The parent's time was over, its child was asked to stop, and the parent was retried before the child ended."""
    await publish(unit, node("x"), name="kid")
    run = await begin(unit, child(), max_duration=timedelta(minutes=1))
    await tick(unit)
    clock.move(timedelta(minutes=2))
    await strays.expire(unit)
    assert (await state(unit, run), await letters(unit, run)) == ("timeout", "a")
    await runs.retry(unit, run)
    await tick(unit)  # the child hears that it is to stop
    await player.play()
    assert (await state(unit, run), await letters(unit, run)) == ("completed", "s")
    assert [await state(unit, kid) for kid in await below(conn, run)] == ["cancelled", "completed"]


async def test_a_retry_while_some_children_are_told_to_stop_starts_those_anew(
    unit: Unit, player: Player, conn: Connection, clock: Clock
) -> None:
    await publish(unit, node("x"), name="kid")
    run = await begin(unit, child(fan_out=Parallel(3)), max_duration=timedelta(minutes=1))
    await tick(unit)
    first, *_ = await player.take()
    await player.end(first)
    await tick(unit)
    clock.move(timedelta(minutes=2))
    await strays.expire(unit)
    await runs.retry(unit, run)
    await tick(unit)
    await player.play()
    assert (await state(unit, run), await letters(unit, run)) == ("completed", "s")
    assert (await runs.get(unit, run)).fans["0"][:5] == [3, 3, 3, 0, 0]


async def test_a_child_told_to_stop_is_not_started_anew_for_a_run_that_was_cancelled_meanwhile(
    unit: Unit, player: Player, conn: Connection, clock: Clock
) -> None:
    await publish(unit, node("x"), name="kid")
    run = await begin(unit, child(), max_duration=timedelta(minutes=1))
    await tick(unit)
    clock.move(timedelta(minutes=2))
    await strays.expire(unit)
    await runs.retry(unit, run)
    await runs.cancel(unit, run)
    await tick(unit)
    await player.play()
    assert (await state(unit, run), await letters(unit, run)) == ("cancelled", "c")
    assert len(await below(conn, run)) == 1


async def test_an_old_childs_end_does_not_end_the_new_child(unit: Unit, player: Player, conn: Connection) -> None:
    await publish(unit, node("x"), name="kid")
    run = await begin(unit, child())
    await player.play({"x": Fails()})
    [old] = await below(conn, run)
    await runs.retry(unit, old)
    late = await player.take_one("x")
    await runs.retry(unit, run)
    await player.end(late)
    await tick(unit)
    assert (await state(unit, run), await letters(unit, run)) == ("running", "a")
    await player.play()
    assert await state(unit, run) == "completed"
