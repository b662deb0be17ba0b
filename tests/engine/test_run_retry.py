"""Retry and rerun: what is done again, what is kept, and that nobody is confused by reports of an earlier round."""

from datetime import timedelta
from typing import Any

import pytest

from tests.engine.playing import LEASE, Fails, Player, begin, events_of, letters, node, reasons, state, tick
from windlass.core.outcome import Cancelled
from windlass.core.step import Foreach, SleepAction
from windlass.engine import jobs, outputs, runs, strays, upkeep
from windlass.engine.unit import Unit
from windlass.errors import Conflict, Invalid
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


async def test_c2_27_failed_and_skipped_steps_are_done_again_and_successes_kept(unit: Unit, player: Player) -> None:
    run = await begin(unit, node("a"), node("b", "a"), node("c", "b"), node("d", "c"))
    await player.play({"b": Fails()})
    assert await letters(unit, run) == "sfkk"
    player.seen.clear()
    await runs.retry(unit, run)
    row = await runs.get(unit, run)
    assert (row.state, row.letters, row.round, row.finished_at) == ("running", "sa..", 1, None)
    await player.play()
    assert (await state(unit, run), await letters(unit, run)) == ("completed", "ssss")
    assert player.seen == ["b", "c", "d"]


async def test_the_trail_links_both_rounds(unit: Unit, player: Player) -> None:
    run = await begin(unit, node("a"))
    await player.play({"a": Fails()})
    await runs.retry(unit, run)
    await player.play()
    assert await events_of(unit, run) == ["running", "failed", "retried", "running", "completed"]
    assert await reasons(unit, run) == ["step a failed and no step handled it", "what failed is done again"]


async def test_attempts_are_counted_afresh_and_errors_kept(unit: Unit, player: Player) -> None:
    run = await begin(unit, node("a", max_attempts=2))
    await player.play({"a": Fails("old")})
    await runs.retry(unit, run)
    job = await player.take_one("a")
    assert (job.number, job.attempt, job.lost) == (1, 0, 0)
    await player.end(job, Fails("new"))
    await player.play()
    assert await state(unit, run) == "completed"
    errors = (await jobs.get(unit, job.id)).errors
    assert [error["message"] for error in errors] == ["old", "old", "new"]


async def test_c2_17_what_an_earlier_round_left_on_the_job_is_cleared(unit: Unit, player: Player) -> None:
    run = await begin(unit, node("a"))
    await player.play({"a": Fails()})
    await runs.retry(unit, run)
    [job] = (await runs.view(unit, run)).jobs.values()
    whole = await jobs.get(unit, job.id)
    assert (whole.status, whole.result, whole.last_error, whole.attempt) == ("pending", None, None, 0)


async def test_a_run_may_be_retried_again_and_again(unit: Unit, player: Player) -> None:
    run = await begin(unit, node("a"), node("b", "a"))
    for _ in range(3):
        await player.play({"a": Fails()})
        assert await letters(unit, run) == "fk"
        await runs.retry(unit, run)
    await player.play()
    assert (await runs.get(unit, run)).round == 3
    assert await state(unit, run) == "completed"


async def test_a_retry_that_fails_at_once_is_told_as_a_new_end(unit: Unit, player: Player, clock: Clock) -> None:
    """Nothing needs a worker: the run is failed before and after, and yet it ran in between."""
    run = await begin(unit, node("b", fan_out=Foreach("input")), input="no list")
    before = await runs.get(unit, run)
    clock.move(timedelta(minutes=1))
    await runs.retry(unit, run)
    row = await runs.get(unit, run)
    assert row.state == "failed"
    assert before.finished_at is not None
    assert row.finished_at == before.finished_at + timedelta(minutes=1)
    assert (await events_of(unit, run))[-2:] == ["retried", "failed"]


@pytest.mark.parametrize("how", ["running", "completed", "cancelled"])
async def test_only_failed_and_timed_out_runs_can_be_retried(unit: Unit, player: Player, how: str) -> None:
    run = await begin(unit, node("a"))
    if how == "completed":
        await player.play()
    elif how == "cancelled":
        await runs.cancel(unit, run)
    with pytest.raises(
        Conflict, match=f"run {run} is {how} and cannot be retried: only failed and timeout runs can be"
    ):
        await runs.retry(unit, run)
    assert (await runs.get(unit, run)).round == 0


# After the time was over


async def expired(unit: Unit, clock: Clock) -> None:
    clock.move(timedelta(days=31))
    assert await strays.expire(unit) == 1


async def test_a_timed_out_run_goes_on_where_it_was_and_has_its_time_afresh(
    unit: Unit, player: Player, clock: Clock
) -> None:
    run = await begin(unit, node("a"), node("b", "a"), node("s", "b", action=SleepAction(timedelta(days=40))))
    await player.end(await player.take_one("a"))
    await expired(unit, clock)
    assert await letters(unit, run) == "scc"
    await runs.retry(unit, run)
    assert await strays.expire(unit) == 0
    await player.play()
    assert (await state(unit, run), await letters(unit, run)) == ("running", "ssa")


async def test_a_retry_keeps_the_time_the_run_was_given(unit: Unit, clock: Clock) -> None:
    run = await begin(unit, node("a"), max_duration=timedelta(minutes=5))
    clock.move(timedelta(minutes=6))
    await strays.expire(unit)
    await runs.retry(unit, run)
    row = await runs.get(unit, run)
    assert row.expires_at - (clock.now() or row.created_at) == timedelta(minutes=5)


async def test_who_still_works_for_a_retried_run_may_go_on(unit: Unit, player: Player, clock: Clock) -> None:
    run = await begin(unit, node("a"), node("b", "a"), max_duration=timedelta(seconds=10))
    job = await player.take_one("a")
    clock.move(timedelta(seconds=11))
    await strays.expire(unit)
    assert (await jobs.get(unit, job.id)).status == "leased"
    await runs.retry(unit, run)
    assert await letters(unit, run) == "a."
    assert await player.take() == []
    await player.end(job)
    assert await letters(unit, run) == "sa"
    await player.play()
    assert await state(unit, run) == "completed"


# Reports of an earlier round


async def test_a_report_of_an_earlier_round_is_refused(unit: Unit, player: Player, clock: Clock) -> None:
    run = await begin(unit, node("a", max_attempts=1), node("b", "a"))
    zombie = await player.take_one("a")
    clock.move(LEASE * 2)
    await upkeep.release_expired(unit)
    await tick(unit)
    assert await state(unit, run) == "failed"
    await runs.retry(unit, run)
    assert not await player.end(zombie, "from the grave")
    assert await letters(unit, run) == "a."
    fresh = await player.take_one("a")
    assert fresh.claim_no > zombie.claim_no
    assert not await player.end(zombie, "from the grave")
    assert await player.end(fresh, "alive")
    await player.play()
    assert (await jobs.get(unit, fresh.id)).result == "alive"


async def test_saying_a_thing_twice_changes_nothing(unit: Unit, player: Player) -> None:
    run = await begin(unit, node("a"), node("b", "a"), node("c", "a"))
    job = await player.take_one("a")
    assert await player.end(job)
    before = await runs.view(unit, run)
    assert not await player.end(job)
    assert not await player.end(job, Fails())
    assert await runs.view(unit, run) == before


# Rerun


async def test_a_rerun_does_a_step_and_all_after_it_again_and_keeps_the_rest(unit: Unit, player: Player) -> None:
    steps = node("a"), node("b", "a"), node("c", "b"), node("d", "a"), node("e", "c", "d")
    run = await begin(unit, *steps)
    await player.play()
    player.seen.clear()
    await runs.rerun(unit, run, "b")
    assert (await state(unit, run), await letters(unit, run)) == ("running", "sa.s.")
    await player.play({"e": "again"})
    assert player.seen == ["b", "c", "e"]
    assert (await state(unit, run), await runs.output(unit, run)) == ("completed", "again")
    assert await events_of(unit, run) == ["running", "completed", "rerun", "running", "completed"]
    assert await reasons(unit, run) == ["from step b"]


async def test_a_rerun_may_have_another_input(unit: Unit, player: Player) -> None:
    run = await begin(unit, node("b", fan_out=Foreach("input.files")), node("c", "b"), input={"files": [1, 2]})
    await player.play()
    await runs.rerun(unit, run, "b", input_={"files": [1, 2, 3]}, with_input=True)
    await player.play()
    assert (await runs.get(unit, run)).input == {"files": [1, 2, 3]}
    assert player.seen.count("b") == 2 + 3
    await runs.rerun(unit, run, "c")
    assert (await runs.get(unit, run)).input == {"files": [1, 2, 3]}


async def test_null_is_an_input_too(unit: Unit, player: Player) -> None:
    run = await begin(unit, node("a"), input={"n": 1})
    await player.play()
    await runs.rerun(unit, run, "a", input_=None, with_input=True)
    assert (await runs.get(unit, run)).input is None


async def test_a_failed_run_can_be_rerun_from_a_step_that_succeeded(unit: Unit, player: Player) -> None:
    run = await begin(unit, node("a"), node("b", "a"))
    await player.play({"b": Fails()})
    await runs.rerun(unit, run, "a")
    assert await letters(unit, run) == "a."
    await player.play()
    assert await state(unit, run) == "completed"


async def test_the_final_step_follows_every_rerun(unit: Unit, player: Player) -> None:
    run = await begin(unit, node("a"), node("b"), node("z", final=True))
    await player.play()
    player.seen.clear()
    await runs.rerun(unit, run, "a")
    await player.play()
    assert player.seen == ["a", "z"]


async def test_a_step_that_is_skipped_this_time_gives_nothing(unit: Unit, player: Player) -> None:
    """What it gave in the earlier round is history."""
    run = await begin(unit, node("a"), node("b", "a"), node("c", "a:complete", "b:complete"))
    await player.play({"b": "old"})
    await runs.rerun(unit, run, "a")
    await player.end(await player.take_one("a"), Fails(for_good=True))
    job = await player.take_one("c")
    assert await letters(unit, run) == "fka"
    assert (await outputs.of_needs(unit, [job]))[job.id] == {"a": None, "b": None}


async def test_an_unknown_step_is_refused_with_the_steps_there_are(unit: Unit, player: Player) -> None:
    run = await begin(unit, node("a"), node("b"))
    await player.play()
    with pytest.raises(Invalid, match="workflow 'w' has no step 'x': it has a, b"):
        await runs.rerun(unit, run, "x")
    assert (await runs.get(unit, run)).round == 0


async def test_a_handler_that_stops_after_its_run_was_retried_is_done_again(
    unit: Unit, player: Player, clock: Clock
) -> None:
    """The run ran out of time, its handler was asked to stop, and the run was retried before the handler had ended."""
    run = await begin(unit, node("a", max_attempts=1), max_duration=timedelta(minutes=1))
    job = await player.take_one("a")
    clock.move(timedelta(minutes=2))
    await tick(unit)
    assert (await state(unit, run), await letters(unit, run)) == ("timeout", "a")
    await runs.retry(unit, run)
    assert await player.end(job, Cancelled())
    assert (await state(unit, run), await letters(unit, run)) == ("running", "a")
    await player.play()
    assert (await state(unit, run), player.seen) == ("completed", ["a", "a"])
