"""Failed instances: the others continue, the step reports how many failed, and a retry repeats only those."""

from collections import Counter
from typing import Any

import pytest

from tests.engine.harness import Fails, ManualWorker, begin, letters, node, reasons, report, state, tick
from windlass.core.jobs.job import Claimed, Failed
from windlass.core.json_value import decode
from windlass.core.workflows.step import Foreach, Parallel
from windlass.engine.database import Tenant
from windlass.engine.runs import control as runs

Connection = Any


def bad(*items: int) -> Any:
    """Instances with these numbers fail; the others return their number."""
    return lambda job: Fails(f"boom {job.item}") if job.item in items else job.item


class AttemptCounter:
    """Counts the attempts of each instance."""

    def __init__(self, *bad: int) -> None:
        self.bad, self.tried = set(bad), Counter[int]()

    def __call__(self, job: Claimed) -> Any:
        assert job.item is not None
        self.tried[job.item] += 1
        return Fails() if job.item in self.bad else [job.item, self.tried[job.item]]


async def test_c2_24_a_failed_instance_does_not_stop_the_others_and_skips_dependent_steps(
    db: Tenant, worker: ManualWorker
) -> None:
    run = await begin(db, node("b", fan_out=Parallel(5)), node("c", "b"))
    counter = AttemptCounter(1, 3)
    await worker.play({"b": counter})
    assert (await state(db, run), await letters(db, run)) == ("failed", "fk")
    assert counter.tried == Counter(range(5))
    assert await reasons(db, run, "b") == ["2 of 5 instances failed"]
    assert await reasons(db, run, "c") == ["needs b to succeed, but it failed"]


async def test_a_failed_instance_frees_its_slot_in_the_window(db: Tenant, worker: ManualWorker) -> None:
    run = await begin(db, node("b", fan_out=Parallel(7), concurrency=2))
    counter = AttemptCounter(0, 1, 6)
    await worker.play({"b": counter})
    assert counter.tried == Counter(range(7))
    assert await reasons(db, run, "b") == ["3 of 7 instances failed"]


async def test_attempts_are_counted_for_each_instance(db: Tenant, worker: ManualWorker) -> None:
    run = await begin(db, node("b", fan_out=Parallel(3), max_attempts=2))
    counter = AttemptCounter(1)
    await worker.play({"b": counter})
    assert counter.tried == Counter({0: 1, 1: 2, 2: 1})
    assert await state(db, run) == "failed"


async def test_a_timed_out_instance_counts_as_a_failed_one(db: Tenant, worker: ManualWorker) -> None:
    run = await begin(db, node("b", fan_out=Parallel(2)))
    await worker.play({"b": lambda job: Failed({"type": "Timeout", "message": "x"}) if job.item else 1})
    assert (await letters(db, run), await reasons(db, run, "b")) == ("f", ["1 of 2 instances failed"])


async def test_the_page_of_instances_shows_which_failed_and_their_errors(db: Tenant, worker: ManualWorker) -> None:
    run = await begin(db, node("b", fan_out=Parallel(5)))
    await worker.play({"b": bad(3)})
    page = await runs.instances(db, run, "b", after=2, limit=2)
    assert [(one.item, one.status, one.result, one.last_error) for one in page] == [
        (3, "failed", None, "boom 3"),
        (4, "succeeded", 4, None),
    ]


# Retry


@pytest.mark.parametrize("window", [None, 1, 2, 10])
async def test_a_retry_repeats_only_the_failed_instances(db: Tenant, worker: ManualWorker, window: int | None) -> None:
    run = await begin(db, node("b", fan_out=Parallel(6), concurrency=window), node("c", "b"))
    counter = AttemptCounter(1, 2, 5)
    await worker.play({"b": counter})
    await runs.retry(db, run)
    counter.bad = {2}
    await worker.play({"b": counter})
    assert counter.tried == Counter({0: 1, 1: 2, 2: 2, 3: 1, 4: 1, 5: 2})
    assert (await letters(db, run), (await reasons(db, run, "b"))[-1]) == ("fk", "1 of 6 instances failed")
    await runs.retry(db, run)
    counter.bad = set()
    await worker.play({"b": counter})
    assert await state(db, run) == "completed"
    assert counter.tried[2] == 3
    assert (await runs.instances(db, run, "b"))[2].result == [2, 3]
    assert (await runs.instances(db, run, "b"))[0].result == [0, 1]


async def test_a_retry_respects_the_window(db: Tenant, worker: ManualWorker, conn: Connection) -> None:
    run = await begin(db, node("b", fan_out=Parallel(6), concurrency=2))
    await worker.play({"b": Fails()})
    await runs.retry(db, run)
    for _ in range(3):
        claimed = await worker.take()
        assert len(claimed) == 2
        for job in claimed:
            await worker.end(job)
    assert await state(db, run) == "completed"


async def test_a_retry_resets_the_attempts_and_keeps_the_errors(db: Tenant, worker: ManualWorker) -> None:
    run = await begin(db, node("b", fan_out=Parallel(1), max_attempts=2))
    await worker.play({"b": Fails("old")})
    await runs.retry(db, run)
    job = await worker.take_one("b")
    assert (job.number, job.max_attempts) == (1, 2)
    await worker.end(job, Fails("new"))
    [one] = await runs.instances(db, run, "b")
    assert [error["message"] for error in one.errors] == ["old", "old", "new"]


async def test_instances_are_created_again_when_their_source_is_rerun(db: Tenant, worker: ManualWorker) -> None:
    run = await begin(db, node("a"), node("b", "a", fan_out=Foreach("a")), node("c", "b", fan_out=Foreach("b")))
    item = lambda job: decode(job.payload)["item"]  # noqa: E731
    await worker.play({"a": [1, 2, 3, 4], "b": item, "c": item})
    assert await runs.output(db, run) == [1, 2, 3, 4]
    await runs.rerun(db, run, "a")
    await worker.play({"a": [7, 8], "b": item, "c": item})
    assert await runs.output(db, run) == [7, 8]
    assert [one.result for one in await runs.instances(db, run, "b")] == [7, 8]
    await runs.rerun(db, run, "a")
    await worker.play({"a": [], "b": item, "c": item})
    assert await runs.output(db, run) == []
    await runs.rerun(db, run, "a")
    await worker.play({"a": [1, 2, 3], "b": item, "c": item})
    assert await runs.output(db, run) == [1, 2, 3]


async def test_a_failure_that_was_not_applied_before_a_retry_is_applied_after_it(
    db: Tenant, worker: ManualWorker, conn: Connection
) -> None:
    """One failure was applied to the run; another, recorded by plain SQL, was not applied before the retry."""
    run = await begin(db, node("b", fan_out=Parallel(3)), node("z"))
    by_item = {job.item: job for job in await worker.take() if worker.step(job) == "b"}
    await worker.end(by_item[1], Fails())
    await conn.execute("update windlass.run set expires_at = now() - interval '1 s'")
    await tick(db)
    assert await state(db, run) == "timeout"
    await conn.execute("update workflow.workflow_run set status = 'failed' where step = 0 and item = 0")
    await runs.retry(db, run)
    [again] = await worker.take()
    assert again.item == 1
    await tick(db)
    await worker.end(again)
    await worker.end(by_item[2])
    assert (await letters(db, run))[0] == "f"
    assert (await reasons(db, run, "b"))[-1] == "1 of 3 instances failed"


async def test_an_instance_that_keeps_running_during_a_retry_and_fails_is_not_repeated(
    db: Tenant, worker: ManualWorker, conn: Connection
) -> None:
    """One failed before the retry and waits for a slot; the one that frees the slot by failing is not repeated."""
    run = await begin(db, node("b", fan_out=Parallel(3), concurrency=2))
    by_item = {job.item: job for job in await worker.take()}
    await worker.end(by_item[1], Fails())
    by_item |= {job.item: job for job in await worker.take()}
    await conn.execute("update windlass.run set expires_at = now() - interval '1 s'")
    await tick(db)
    await runs.retry(db, run)
    assert await worker.take() == []
    await worker.end(by_item[0], Fails())
    assert [job.item for job in await worker.take()] == [1]


async def test_two_reports_about_one_instance_in_one_turn_count_once(db: Tenant, worker: ManualWorker) -> None:
    """The worker lost the job and claimed it again; both reports come in one turn, and the fence accepts one."""
    run = await begin(db, node("b", fan_out=Parallel(3)))
    stale, other, _ = await worker.take()
    fresh = stale._replace(claim_no=stale.claim_no + 1)
    async with db.begin() as conn:
        await conn.execute("update workflow.workflow_run set claim_no = claim_no + 1 where id = $1", stale.id)
    assert await worker.send(report(stale, 1), report(fresh, 1), report(other, 1)) == {fresh.id, other.id}
    assert await letters(db, run) == "a"  # the third is under way
