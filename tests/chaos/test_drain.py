"""SIGTERM: a worker finishes or releases its jobs and exits."""

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.harness import Crew, Inbox, dice, eventually
from tests.chaos.servers import own_server
from windlass.engine.database import prepare
from windlass.store.postgres.pool import DatabaseOptions


async def running(inbox: Inbox, count: int) -> None:
    async def begun() -> bool:
        return bool(await inbox.value("select count(*) from effects") >= count)

    await eventually(begun, f"{count} jobs were running", every=0.01)


async def assert_handed_back(inbox: Inbox, job: Any) -> None:
    columns = "status, attempt, lost, leased_by, last_error"
    assert await inbox.job(job, columns) == ("pending", 0, 0, None, None)


async def test_a_draining_worker_finishes_what_runs_and_claims_nothing_new(inbox: Inbox, tmp_path: Path) -> None:
    with Crew(inbox.url, tmp_path) as crew:
        jobs = await inbox.submit("chaos.slow.v1", 5, {"seconds": 1.5})
        worker = crew.start("ann", grace=20)
        await running(inbox, 5)
        worker.terminate()
        await worker.says("draining: 5 jobs are running")
        (late,) = await inbox.submit("chaos.slow.v1", 1, {"seconds": 0})
        assert await worker.ended(within=15) == 0
        assert [await inbox.job(job, "status, claim_no") for job in jobs] == [("succeeded", 1)] * 5
        assert await inbox.job(late, "status, claim_no") == ("pending", 0)
        assert await inbox.fetch("select id, state from windlass.worker") == [("ann", "stopped")]


async def test_a_job_longer_than_the_grace_is_handed_back_uncharged_and_finished_by_another_worker(
    inbox: Inbox, tmp_path: Path
) -> None:
    with Crew(inbox.url, tmp_path) as crew:
        (job,) = await inbox.submit("chaos.slow.v1", 1, {"seconds": 600, "again": 0}, max_attempts=1)
        worker = crew.start("ann", grace=0.5)
        await running(inbox, 1)
        worker.terminate()
        assert await worker.ended(within=15) == 0
        await assert_handed_back(inbox, job)
        crew.start("bob")
        await inbox.drained(within=15)
        assert await inbox.job(job, "status, attempt, lost, result ->> 'worker'") == ("succeeded", 0, 0, "bob")


async def test_a_second_signal_hands_jobs_back_immediately(inbox: Inbox, tmp_path: Path) -> None:
    with Crew(inbox.url, tmp_path) as crew:
        (job,) = await inbox.submit("chaos.slow.v1", 1, {"seconds": 600})
        worker = crew.start("ann", grace=600)
        await running(inbox, 1)
        worker.terminate()
        await worker.says("draining")
        worker.terminate()
        assert await worker.ended(within=15) == 128 + signal.SIGTERM
        await assert_handed_back(inbox, job)


async def test_a_thread_that_does_not_stop_does_not_keep_the_process_alive(inbox: Inbox, tmp_path: Path) -> None:
    with Crew(inbox.url, tmp_path) as crew:
        (job,) = await inbox.submit("chaos.stubborn.v1", 1, {"seconds": 600})
        worker = crew.start("ann", grace=0.5)
        await worker.says("a thread is busy")
        worker.terminate()
        assert await worker.ended(within=15) == 0
        await assert_handed_back(inbox, job)


async def test_a_worker_stopped_while_it_starts_leaves_no_job_leased(inbox: Inbox, tmp_path: Path) -> None:
    with Crew(inbox.url, tmp_path) as crew:
        (job,) = await inbox.submit("chaos.stubborn.v1", 1, {"seconds": 600})
        worker = crew.start("ann", grace=1)
        await worker.says("worker ann serves", every=0.001)  # said just before it registers
        worker.terminate()
        assert await worker.ended(within=15) == 0
        await assert_handed_back(inbox, job)


async def assert_drains_clean(inbox: Inbox, folder: Path, *, count: int, rounds: int, grace: float) -> None:
    """Jobs start and end continuously, so the signal arrives while claims and reports are in flight."""
    with dice() as rng, Crew(inbox.url, folder) as crew:
        await inbox.submit("chaos.slow.v1", count, {"seconds": 0.02}, max_attempts=1)
        for _ in range(rounds):
            after = await inbox.count("succeeded") + rng.randrange(1, count // rounds // 2)

            async def far_enough(after: int = after) -> bool:
                return await inbox.count("succeeded") >= after

            worker = crew.start("ann", grace=grace, concurrency=20)
            await eventually(far_enough, f"{after} jobs had succeeded", every=0.005)
            worker.terminate()
            assert await worker.ended(within=15) == 0
            assert await inbox.count("leased") == 0, "a worker that exited cleanly left a job leased"
        crew.start("bob")
        await inbox.drained(within=60)
        await inbox.assert_each_succeeded_once(count)


@pytest.mark.parametrize("grace", [5, 0], ids=["with grace", "without grace"])
async def test_a_worker_stopped_under_load_leaves_no_job_leased(grace: float, inbox: Inbox, tmp_path: Path) -> None:
    await assert_drains_clean(inbox, tmp_path, count=600, rounds=3, grace=grace)


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("grace", [5, 0], ids=["with grace", "without grace"])
async def test_a_hundred_drains_under_load_leave_no_job_leased(grace: float, inbox: Inbox, tmp_path: Path) -> None:
    await assert_drains_clean(inbox, tmp_path, count=40_000, rounds=100, grace=grace)


async def test_a_drain_without_the_database_logs_the_jobs_still_leased_and_exits_with_code_5(
    tmp_path: Path,
) -> None:
    with own_server() as server:
        await prepare(DatabaseOptions(url=server.url))
        async with Inbox.open(server.url) as inbox:
            await inbox.prepare()
            with Crew(server.url, tmp_path) as crew:
                jobs = await inbox.submit("chaos.slow.v1", 3, {"seconds": 600})
                worker = crew.start("ann", grace=0.5)
                await running(inbox, 3)
                await asyncio.to_thread(server.stop)
                worker.terminate()
                assert await worker.ended(within=40) == 5
                said = worker.output()
                assert "3 jobs could neither be reported nor released" in said
                assert all(str(job) in said for job in jobs)
                await asyncio.to_thread(server.start)
