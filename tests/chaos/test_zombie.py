"""Workers that are suspended beyond their lease and resume: their late reports are rejected."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.chaos.harness import Crew, Inbox, WorkerProcess, eventually

WRITERS = """select count(*) from pg_stat_activity
 where datname = current_database() and state = 'idle in transaction' and backend_xid is not null"""


@dataclass(frozen=True)
class Scene:
    job: Any
    zombie: WorkerProcess
    second: WorkerProcess

    async def zombie_learnt(self) -> bool:
        return any(words in self.zombie.output() for words in ("was refused", "stopping its handler"))


async def started(inbox: Inbox, job: Any) -> None:
    async def has_effect() -> bool:
        return bool(await inbox.effects_of(job))

    await eventually(has_effect, "the job was running", every=0.01)


async def succeeded(inbox: Inbox, job: Any) -> None:
    async def look() -> bool:
        return await inbox.job(job) == ("succeeded",)

    await eventually(look, "the job had succeeded")


async def assert_second_wins(inbox: Inbox, job: Any) -> None:
    """Check that only the second worker's execution is recorded."""
    assert await inbox.job(job, "status, result ->> 'worker', lost, leased_by") == ("succeeded", "second", 1, None)
    assert await inbox.effects_of(job) == [(1, "zombie"), (2, "second")]
    assert await inbox.events_of(job) == ["created", "leased", "retried", "leased", "succeeded"]


@asynccontextmanager
async def zombie_running(inbox: Inbox, folder: Path, type_: str, **payload: float) -> AsyncIterator[Scene]:
    """One worker runs the job; another, started before it and therefore the recovery leader, is frozen."""
    with Crew(inbox.url, folder) as crew:
        second = crew.start("second", lease=1)
        await inbox.working([second])
        second.freeze()
        (job,) = await inbox.submit(type_, 1, payload)
        zombie = crew.start("zombie", lease=1)
        await started(inbox, job)
        yield Scene(job, zombie, second)


async def test_reports_of_a_worker_suspended_past_its_lease_are_rejected(inbox: Inbox, tmp_path: Path) -> None:
    async with zombie_running(inbox, tmp_path, "chaos.slow.v1", seconds=2, again=0.1) as scene:
        scene.zombie.freeze()
        scene.second.thaw()
        await succeeded(inbox, scene.job)
        scene.zombie.thaw()
        # Whichever it notices first: that its report is rejected, or that it no longer holds the lease.
        await eventually(scene.zombie_learnt, "the zombie noticed the loss of its lease")
        await assert_second_wins(inbox, scene.job)
        assert scene.zombie.alive


async def test_a_handler_that_blocks_its_worker_past_the_lease_keeps_its_job_and_is_logged(
    inbox: Inbox, tmp_path: Path
) -> None:
    async with zombie_running(inbox, tmp_path, "chaos.block.v1", seconds=6) as scene:
        scene.second.thaw()
        await succeeded(inbox, scene.job)
        assert await inbox.job(scene.job, "result ->> 'worker', lost, claim_no") == ("zombie", 0, 1)
        assert await inbox.effects_of(scene.job) == [(1, "zombie")]
        await scene.zombie.says(f"by the handler of chaos.block.v1 (job {scene.job})")


async def test_jobs_of_a_worker_suspended_inside_a_transaction_are_run_by_another_worker(
    inbox: Inbox, tmp_path: Path
) -> None:
    count, more = 3000, 500
    with Crew(inbox.url, tmp_path) as crew:
        zombie = crew.start("zombie", lease=1)
        await inbox.working([zombie])
        await inbox.submit("chaos.log.v1", count)

        async def caught() -> bool:
            """Freeze the zombie; return whether it is inside a transaction, whose locks then remain."""
            zombie.freeze()
            if await inbox.value(WRITERS):
                return True
            zombie.thaw()
            return False

        await eventually(caught, "the zombie was stopped inside a transaction", every=0.005)
        assert not await inbox.settled(), "all jobs had ended before the zombie was frozen"
        second = crew.start("second", lease=1)
        await inbox.drained(within=60)
        zombie.thaw()
        await inbox.submit("chaos.noop.v1", more)
        await inbox.drained(within=60)
        await inbox.assert_each_succeeded_once(count + more)
        assert zombie.alive
        assert second.alive
