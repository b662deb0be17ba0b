"""Workers that fall silent past their lease and come back: what they report then is refused."""

from pathlib import Path
from typing import Any

from tests.chaos.harness import Crew, Inbox, eventually

WRITERS = """select count(*) from pg_stat_activity
 where datname = current_database() and state = 'idle in transaction' and backend_xid is not null"""


async def started(inbox: Inbox, job: Any) -> None:
    async def has_effect() -> bool:
        return bool(await inbox.effects_of(job))

    await eventually(has_effect, "the job was running", every=0.01)


async def succeeded(inbox: Inbox, job: Any) -> None:
    async def look() -> bool:
        return await inbox.job(job) == ("succeeded",)

    await eventually(look, "the job had succeeded")


async def assert_second_wins(inbox: Inbox, job: Any) -> None:
    """Everything that is recorded is the second worker's."""
    assert await inbox.job(job, "status, result ->> 'worker', lost, leased_by") == ("succeeded", "second", 1, None)
    assert await inbox.effects_of(job) == [(1, "zombie"), (2, "second")]
    assert await inbox.events_of(job) == ["created", "leased", "retried", "leased", "succeeded"]


async def test_a_worker_stopped_past_its_lease_is_refused_when_it_comes_back(inbox: Inbox, tmp_path: Path) -> None:
    with Crew(inbox.url, tmp_path) as crew:
        (job,) = await inbox.submit("chaos.slow.v1", 1, {"seconds": 2, "again": 0.1})
        zombie = crew.start("zombie", lease=1)
        await started(inbox, job)
        zombie.freeze()
        crew.start("second", lease=1)
        await succeeded(inbox, job)
        zombie.thaw()
        # Whichever it notices first: that its report is not taken, or that the job is no longer its own.
        await eventually(lambda: refused_or_told(zombie), "the zombie learnt of its loss")
        (more,) = await inbox.submit("chaos.slow.v1", 1, {"seconds": 0})
        await succeeded(inbox, more)
        await assert_second_wins(inbox, job)
        assert zombie.alive


async def refused_or_told(worker: Any) -> bool:
    return "was refused" in worker.output() or "told to stop" in worker.output()


async def test_the_report_of_a_handler_that_blocked_its_worker_past_the_lease_is_refused(
    inbox: Inbox, tmp_path: Path
) -> None:
    with Crew(inbox.url, tmp_path) as crew:
        (job,) = await inbox.submit("chaos.block.v1", 1, {"seconds": 12})
        zombie = crew.start("zombie", lease=1)
        await started(inbox, job)
        crew.start("second", lease=1)
        await succeeded(inbox, job)
        await zombie.says(f"the outcome of {job} was refused")
        await assert_second_wins(inbox, job)


async def test_a_worker_stopped_inside_a_transaction_does_not_keep_its_jobs_from_others(
    inbox: Inbox, tmp_path: Path
) -> None:
    count = 6000
    with Crew(inbox.url, tmp_path) as crew:
        zombie = crew.start("zombie", lease=1)
        await inbox.working([zombie])
        await inbox.submit("chaos.noop.v1", count)

        async def caught() -> bool:
            """A stopped client inside a transaction: its locks stay."""
            zombie.freeze()
            if await inbox.value(WRITERS):
                return True
            zombie.thaw()
            return False

        await eventually(caught, "the zombie was stopped inside a transaction", every=0.005)
        assert not await inbox.settled(), "it was too quick to be caught at work"
        second = crew.start("second", lease=1)
        await inbox.drained(within=45)
        zombie.thaw()
        await inbox.submit("chaos.noop.v1", count)
        await inbox.drained(within=45)
        await inbox.assert_each_succeeded_once(2 * count)
        assert zombie.alive
        assert second.alive
