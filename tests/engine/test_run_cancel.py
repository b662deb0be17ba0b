"""Cancel: what waits ends at once, who works for the run is asked to stop, and what really became of it is recorded."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from tests.engine.playing import LEASE, Fails, Player, begin, events_of, letters, node, reasons, state, tick
from windlass.core.outcome import Cancelled
from windlass.core.step import Parallel, SleepAction
from windlass.engine import jobs, runs, strays, upkeep, work
from windlass.engine.unit import Unit
from windlass.errors import Conflict, Invalid, NotFound
from windlass.testing import Clock

Connection = Any


@pytest.fixture
async def unit(unit: Unit, clock: Clock) -> Unit:
    """An hour from now: the server has been up for long, so leases may run out."""
    clock.move(timedelta(hours=1))
    return unit


@pytest.fixture
async def player(unit: Unit) -> Player:
    return await Player.hello(unit)


async def test_what_nobody_holds_ends_at_once(unit: Unit, player: Player, conn: Connection) -> None:
    run = await begin(unit, node("a"), node("b", "a"), node("s", action=SleepAction(timedelta(hours=1))))
    await runs.cancel(unit, run, reason="enough")
    row = await runs.get(unit, run)
    assert (row.state, row.letters) == ("cancelled", "ccc")
    assert row.finished_at is not None
    assert await reasons(unit, run) == ["enough"]
    assert await events_of(unit, run) == ["running", "cancelled"]
    assert await player.take() == []
    assert await conn.fetchval("select count(*) from windlass.timer") == 0
    [job] = (await runs.view(unit, run)).jobs.values()
    assert job.status == "cancelled"
    last = (await jobs.events(unit, job.id))[-1]
    assert (last.event_type, last.data) == ("cancelled", {"reason": "enough"})


async def test_a_holder_of_ours_is_asked_to_stop_and_keeps_its_row(unit: Unit, player: Player) -> None:
    run = await begin(unit, node("a"), node("b", "a"))
    job = await player.take_one("a")
    await runs.cancel(unit, run)
    assert (await state(unit, run), await letters(unit, run)) == ("cancelled", "ac")
    assert await work.heartbeat(unit, [job.fence], worker="w1", lease=LEASE) == [(*job.fence, True, True)]
    assert (await jobs.get(unit, job.id)).status == "leased"


@pytest.mark.parametrize(
    ("ending", "letter", "status"),
    [
        ({"n": 1}, "s", "succeeded"),
        (Fails(), "f", "failed"),  # with attempts left: never retried
        (Fails(for_good=True), "f", "failed"),
        (Fails(type="Timeout"), "t", "failed"),
        (Cancelled(), "c", "cancelled"),
    ],
)
async def test_the_real_outcome_is_recorded_and_advances_nothing(
    unit: Unit, player: Player, ending: Any, letter: str, status: str
) -> None:
    run = await begin(unit, node("a", max_attempts=5), node("b", "a:complete"))
    job = await player.take_one("a")
    await runs.cancel(unit, run)
    assert await player.end(job, ending)
    assert (await state(unit, run), await letters(unit, run)) == ("cancelled", letter + "c")
    assert (await jobs.get(unit, job.id)).status == status
    assert await player.take() == []


async def test_a_holder_that_falls_silent_is_not_replaced(unit: Unit, player: Player, clock: Clock) -> None:
    run = await begin(unit, node("a", max_attempts=5))
    job = await player.take_one("a")
    await runs.cancel(unit, run)
    clock.move(LEASE * 2)
    await upkeep.release_expired(unit)
    await tick(unit)
    assert (await letters(unit, run), (await jobs.get(unit, job.id)).status) == ("c", "cancelled")
    assert await player.take() == []


async def test_a_foreign_holder_reads_cancelled_and_its_late_word_changes_nothing(
    unit: Unit, player: Player, conn: Connection
) -> None:
    run = await begin(unit, node("a"))
    await conn.execute(
        "update workflow.workflow_run set status = 'leased', leased_by = 'go-1', lease_until = now() + interval '1 day'"
    )
    await runs.cancel(unit, run)
    row = await conn.fetchrow("select status, leased_by, settled from workflow.workflow_run")
    assert tuple(row) == ("cancelled", None, True)
    await conn.execute("update workflow.workflow_run set status = 'succeeded', result = '1' where status = 'leased'")
    await conn.execute("update workflow.workflow_run set status = 'succeeded', result = '1'")
    await tick(unit)
    assert (await letters(unit, run), await state(unit, run)) == ("c", "cancelled")
    assert await conn.fetchval("select status from workflow.workflow_run") == "cancelled"


async def test_a_second_cancel_is_a_conflict(unit: Unit, player: Player) -> None:
    run = await begin(unit, node("a"))
    await player.take()
    await runs.cancel(unit, run)
    before = await runs.get(unit, run)
    with pytest.raises(Conflict, match="is cancelled and cannot be cancelled: only pending and running runs can be"):
        await runs.cancel(unit, run)
    assert await runs.get(unit, run) == before


async def test_a_cancelled_run_never_revives(unit: Unit, player: Player) -> None:
    run = await begin(unit, node("a"))
    await runs.cancel(unit, run)
    with pytest.raises(Conflict, match="cannot be retried: only failed and timeout runs can be"):
        await runs.retry(unit, run)
    with pytest.raises(Conflict, match="cannot be rerun: only completed, failed and timeout runs can be"):
        await runs.rerun(unit, run, "a")


async def test_instances_of_a_fan_out_end_each_in_its_way(unit: Unit, player: Player) -> None:
    run = await begin(unit, node("a", fan_out=Parallel(10), concurrency=4), node("b", "a"))
    first, second = await player.take(2)
    await runs.cancel(unit, run)
    assert await letters(unit, run) == "ac"
    await player.end(first)
    await player.end(second, Fails())
    assert await letters(unit, run) == "fc"
    assert await reasons(unit, run, "a") == ["1 of 10 instances failed"]
    assert len(await runs.instances(unit, run, "a")) == 4  # no slot was filled again


async def test_a_fan_out_nobody_holds_is_cancelled_in_numbers(unit: Unit) -> None:
    run = await begin(unit, node("a", fan_out=Parallel(3)))
    await runs.cancel(unit, run)
    assert (await letters(unit, run), await reasons(unit, run, "a")) == ("c", ["3 of 3 instances were cancelled"])


async def test_a_late_end_does_not_touch_the_time_of_the_end(unit: Unit, player: Player, clock: Clock) -> None:
    run = await begin(unit, node("a"))
    job = await player.take_one("a")
    await runs.cancel(unit, run)
    before = (await runs.get(unit, run)).finished_at
    clock.move(timedelta(seconds=20))
    await player.end(job)
    assert (await runs.get(unit, run)).finished_at == before
    assert await events_of(unit, run) == ["running", "cancelled"]


async def test_a_reason_that_cannot_be_kept_is_refused(unit: Unit) -> None:
    run = await begin(unit, node("a"))
    with pytest.raises(Invalid, match="reason"):
        await runs.cancel(unit, run, reason="x" * 10_000)
    assert await state(unit, run) == "running"


async def test_an_unknown_run_is_not_found(unit: Unit) -> None:
    for steer in (runs.cancel, runs.retry):
        with pytest.raises(NotFound, match="no run"):
            await steer(unit, uuid4())


# Expiry takes the same path


async def test_a_run_whose_time_is_over_ends_as_timeout(unit: Unit, player: Player, clock: Clock) -> None:
    steps = node("a"), node("h"), node("b", "a"), node("s", action=SleepAction(timedelta(days=1)))
    run = await begin(unit, *steps, max_duration=timedelta(hours=1))
    held = next(job for job in await player.take(2) if player.step(job) == "h")
    clock.move(timedelta(minutes=59))
    assert await strays.expire(unit) == 0
    clock.move(timedelta(minutes=1))
    assert await strays.expire(unit) == 1
    row = await runs.get(unit, run)
    assert (row.state, row.letters) == ("timeout", "aacc")
    assert await reasons(unit, run) == ["the run exceeded its max_duration"]
    assert await work.held(unit, [held.fence], worker="w1") == [(*held.fence, True, False)]
    await player.end(held)
    assert (await state(unit, run), (await letters(unit, run))[1]) == ("timeout", "s")
    assert await strays.expire(unit) == 0


async def test_what_waited_when_the_time_was_over_says_so(unit: Unit, clock: Clock) -> None:
    run = await begin(unit, node("a"), max_duration=timedelta(hours=1))
    clock.move(timedelta(hours=2))
    await strays.expire(unit)
    assert await reasons(unit, run, "a") == ["the run's time was over"]
