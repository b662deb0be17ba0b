"""Rows of C2 (gaps of seed 004 and their resolutions) that no other file tests; the number is in the name.

Elsewhere: 7 to 10, 20 and 21 in test_run_hangs, 22 and 24 in test_run_fan_out*, 17 and 27 in test_run_retry, 14 (as
DESIGN has it) in test_run_cancel, 25 in test_run_outputs, 28 in test_run_editing.
"""

from datetime import timedelta
from typing import Any

import pytest

from tests.engine.fake_services import deploy
from tests.engine.harness import LEASE, Fails, ManualWorker, begin, events_of, letters, node, publish, state, tick
from windlass.core.definition.parser import parse
from windlass.core.jobs.job import Failed, after
from windlass.core.workflows.step import Parallel
from windlass.engine import upkeep
from windlass.engine.database import Tenant
from windlass.engine.jobs import control as jobs
from windlass.engine.runs import control as runs
from windlass.engine.workers import turn
from windlass.engine.workers.turn import Turn
from windlass.errors import InvalidWorkflow
from windlass.testing import Clock

pytestmark = pytest.mark.usefixtures("an_hour_later")

Connection = Any


async def test_c2_1_a_held_run_starts_in_one_transition_that_sets_its_start_time_once(
    db: Tenant, worker: ManualWorker, clock: Clock
) -> None:
    await publish(db, node("a"), concurrency=1)
    first, second = await begin(db), await begin(db)
    clock.move(timedelta(minutes=1))
    await runs.cancel(db, first)
    await tick(db)
    started = (await runs.get(db, second)).started_at
    assert started == clock.now()
    clock.move(timedelta(seconds=5))
    await worker.play({"a": Fails()})
    await runs.retry(db, second)
    assert (await runs.get(db, second)).started_at == started


async def test_c2_3_a_step_that_is_not_ready_has_no_job(db: Tenant, conn: Connection) -> None:
    await begin(db, node("a"), node("b", "a"), node("c", "b"))
    rows = await conn.fetch("select step from workflow.workflow_run")
    assert [row["step"] for row in rows] == [0]


@pytest.mark.parametrize(
    ("words", "executions"),
    [
        ({"max_retries": 0}, 1),
        ({"max_retries": 1}, 1),
        ({"max_retries": 3}, 3),
        ({"max_attempts": 3}, 3),
        ({"retries": 3}, 4),
        ({}, 3),
    ],
)
async def test_c2_5_a_failing_step_is_executed_as_often_as_its_retry_settings_allow(
    db: Tenant, worker: ManualWorker, words: dict[str, int], executions: int
) -> None:
    await deploy(db, a={"job": "test.a.v1", **words})
    run = await begin(db)
    await worker.play({"a": Fails()})
    assert (len(worker.seen), await state(db, run)) == (executions, "failed")


async def test_c2_6_failures_timeouts_and_lost_leases_count_against_the_same_attempts(
    db: Tenant, worker: ManualWorker, clock: Clock
) -> None:
    run = await begin(db, node("a", max_attempts=4))
    await worker.end(await worker.take_one("a"), Fails())
    await worker.end(await worker.take_one("a"), Fails(type="Timeout"))
    await worker.take_one("a")
    clock.move(LEASE * 2)
    await upkeep.release_expired(db)
    await tick(db)
    assert await letters(db, run) == "a"
    job = await worker.take_one("a")
    assert job.number == 4
    await worker.end(job, Fails("the last"))
    assert (await letters(db, run), await state(db, run)) == ("f", "failed")


async def test_c2_11_only_a_waiting_step_can_be_skipped(db: Tenant, worker: ManualWorker) -> None:
    """b began because of a; that c fails later does not skip it."""
    run = await begin(db, node("a"), node("c"), node("b", "a"), node("d", "b", "c"))
    by_step = {worker.step(job): job for job in await worker.take()}
    await worker.end(by_step["a"])
    await worker.end(by_step["c"], Fails())
    assert await letters(db, run) == "sfa."
    await worker.end(await worker.take_one("b"))
    assert await letters(db, run) == "sfsk"


async def test_c2_13_independent_branches_continue_after_a_failure(db: Tenant, worker: ManualWorker) -> None:
    run = await begin(db, node("a"), node("x"), node("y", "x"), node("z", "y"))
    await worker.play({"a": Fails()})
    assert (await letters(db, run), await state(db, run)) == ("fsss", "failed")


async def test_c2_18_a_step_is_retried_after_seconds_or_as_its_retry_policy_defines(
    db: Tenant, worker: ManualWorker, clock: Clock
) -> None:
    await deploy(
        db,
        a={"job": "test.a.v1", "max_attempts": 2},
        b={"job": "test.b.v1", "max_attempts": 2, "retry": {"kind": "constant", "base": 3600, "jitter": 0}},
    )
    await begin(db)
    for job in await worker.take():
        await worker.send(after(job, Failed({"type": "E", "message": "x"}), None, 0.0))
    clock.move(timedelta(seconds=1))
    await upkeep.become_due(db)
    assert [worker.step(job) for job in await worker.take()] == ["a"]
    clock.move(timedelta(hours=1))
    await upkeep.become_due(db)
    assert [worker.step(job) for job in await worker.take()] == ["b"]


@pytest.mark.parametrize(
    ("tasks", "path"),
    [
        ({"a": {"job": "x"}, "b": {"job": "x", "foreach": "a.files"}}, "tasks.b.foreach"),  # no dependency
        ({"b": {"job": "x", "foreach": "input", "parallel": 2}}, "tasks.b.foreach"),
        ({"b": {"job": "x", "parallel": 2, "concurrency": 0}}, "tasks.b.concurrency"),
        ({"b": {"job": "x", "parallel": -1}}, "tasks.b.parallel"),
        ({"b": {"job": "x", "concurrency": 2}}, "tasks.b.concurrency"),
        ({}, "tasks"),  # C2 29
        ({"b": {"job": "x", "depends_on": ["nobody"]}}, "tasks.b.needs"),  # C2 34
        ({"a": {"job": "x", "depends_on": ["b"]}, "b": {"job": "x", "depends_on": ["a"]}}, "tasks.a.needs"),
    ],
)
def test_c2_23_29_and_34_an_invalid_definition_is_refused_with_its_path(tasks: Any, path: str) -> None:
    with pytest.raises(InvalidWorkflow) as refusal:
        parse({"name": "w", "tasks": tasks})
    assert path in [where for where, _ in refusal.value.errors]


async def test_c2_26_the_concurrency_window_applies_to_one_step_of_one_run(db: Tenant, worker: ManualWorker) -> None:
    fans = node("a", fan_out=Parallel(5), concurrency=2), node("b", fan_out=Parallel(5), concurrency=1)
    await begin(db, *fans)
    await begin(db)
    taken = [worker.step(job) for job in await worker.take()]
    assert (taken.count("a"), taken.count("b")) == (4, 2)


async def test_c2_30_log_lines_are_kept_for_each_instance_and_attempt(
    db: Tenant, worker: ManualWorker, clock: Clock
) -> None:
    run = await begin(db, node("a", fan_out=Parallel(2), max_attempts=2))
    moment = clock.now()
    assert moment is not None
    for _ in range(2):
        claimed = await worker.take()
        lines = [(job.id, 0, job.number, 1, moment, "INFO", f"{job.item}/{job.number}") for job in claimed]
        await turn.turn(db, Turn(worker="w1", lease=LEASE, lines=lines))
        for job in claimed:
            await worker.end(job, Fails())
    page = await runs.instances(db, run, "a")
    kept = [[line.message for line in await jobs.logs(db, one.job_id)] for one in page]
    assert kept == [["0/1", "0/2"], ["1/1", "1/2"]]


async def test_c2_33_the_timeout_of_a_step_applies_to_each_attempt(db: Tenant, worker: ManualWorker) -> None:
    await begin(db, node("a", timeout=timedelta(seconds=7), max_attempts=2))
    job = await worker.take_one("a")
    assert job.timeout == timedelta(seconds=7)
    await worker.end(job, Fails(type="Timeout"))
    assert (await worker.take_one("a")).timeout == timedelta(seconds=7)


async def test_d2_1_a_handled_failure_completes_and_an_unhandled_one_fails(db: Tenant, worker: ManualWorker) -> None:
    """DESIGN 5 over C2 12: a handler on a `failure` edge handles it, a finalizer does not."""
    handled = await begin(db, node("a"), node("b", "a"), node("c", "a:failure"))
    await worker.play({"a": Fails()})
    finalized = await begin(db, node("a"), node("b", "a"), node("z", final=True), name="v")
    await worker.play({"a": Fails()})
    assert (await state(db, handled), await letters(db, handled)) == ("completed", "fks")
    assert (await state(db, finalized), await letters(db, finalized)) == ("failed", "fks")
    assert await events_of(db, handled) == ["running", "completed"]
