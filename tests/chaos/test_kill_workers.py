"""kill -9 of workers under load, and jobs that kill their worker."""

import random
import time
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.harness import Crew, Inbox, WorkerProcess, dice, eventually

NAMES = ("ann", "bob", "cid")


async def kill_one(inbox: Inbox, crew: Crew, staff: list[WorkerProcess], rng: random.Random, *, after: int) -> None:
    """Wait until `after` jobs have succeeded, then kill a random worker and start a replacement."""

    async def far_enough() -> bool:
        return await inbox.count("succeeded") >= after

    await eventually(far_enough, f"{after} jobs had succeeded", within=60, every=0.01)
    victim = rng.randrange(len(staff))
    staff[victim].kill()
    staff[victim] = crew.start(NAMES[victim], lease=2, concurrency=20)


async def test_workers_killed_at_random_moments_lose_no_job_and_record_none_twice(inbox: Inbox, tmp_path: Path) -> None:
    each, kills = 400, 5
    with dice() as rng, Crew(inbox.url, tmp_path) as crew:
        for type_, payload in (("chaos.slow.v1", {"seconds": 0.1}), ("chaos.record.v1", None), ("chaos.noop.v1", None)):
            await inbox.submit(type_, each, payload, max_attempts=50)
        staff = [crew.start(name, lease=2, concurrency=20) for name in NAMES]
        for after in sorted(rng.sample(range(each * 2), kills)):
            await kill_one(inbox, crew, staff, rng, after=after)
        await inbox.drained(within=60)
        await inbox.assert_each_succeeded_once(each * 3)
        assert await inbox.value("select sum(lost) from workflow.workflow_run") > 0, "no worker was killed with a job"


@pytest.mark.soak
@pytest.mark.timeout(900)
async def test_a_minute_of_random_kills_loses_no_job_and_records_none_twice(inbox: Inbox, tmp_path: Path) -> None:
    count = 20_000
    with dice() as rng, Crew(inbox.url, tmp_path) as crew:
        await inbox.submit("chaos.slow.v1", count // 2, {"seconds": 0.2}, max_attempts=1000)
        await inbox.submit("chaos.record.v1", count // 2, max_attempts=1000)
        staff = [crew.start(name, lease=2, concurrency=20) for name in NAMES]
        until = time.monotonic() + 60
        while time.monotonic() < until and not await inbox.settled():
            done = await inbox.count("succeeded")
            await kill_one(inbox, crew, staff, rng, after=min(count, done + rng.randrange(count // 50)))
        await inbox.drained(within=300)
        await inbox.assert_each_succeeded_once(count)


async def staffed_until_drained(inbox: Inbox, crew: Crew, *, within: float) -> None:
    """Keep two workers running, replacing dead ones, until every job has ended."""
    staff: dict[str, WorkerProcess] = {}

    async def settled() -> bool:
        for name in NAMES[:2]:
            if name not in staff or not staff[name].alive:
                staff[name] = crew.start(name, lease=1)
        return await inbox.settled()

    await eventually(settled, "every job had ended", within=within, every=0.1)


async def drain_with_poison(inbox: Inbox, folder: Path, *, neighbours_attempts: int) -> Any:
    """Run a job that kills its worker among other jobs; return its id."""
    with Crew(inbox.url, folder) as crew:
        # A worker that is never killed recovers expired leases: no wait until the term of a dead leader ends.
        await inbox.working([crew.start("keeper", prefix="chaos.noop.%")])
        await inbox.submit("chaos.record.v1", 20, max_attempts=neighbours_attempts)
        (poison,) = await inbox.submit("chaos.poison.v1", 1, max_attempts=3)
        await inbox.submit("chaos.record.v1", 20, max_attempts=neighbours_attempts)
        await staffed_until_drained(inbox, crew, within=90)
        assert await inbox.statuses() == {"failed": 1, "succeeded": 40}
        return poison


async def test_a_job_that_repeatedly_kills_its_worker_fails_and_the_other_jobs_succeed(
    inbox: Inbox, tmp_path: Path
) -> None:
    poison = await drain_with_poison(inbox, tmp_path, neighbours_attempts=50)
    assert await inbox.job(poison, "status, attempt, lost") == ("failed", 0, 3)
    assert [fence for fence, _ in await inbox.effects_of(poison)] == [1, 2, 3]
    assert (await inbox.events_of(poison))[-1] == "failed"


async def test_a_job_that_kills_its_worker_does_not_use_up_the_attempts_of_other_jobs(
    inbox: Inbox, tmp_path: Path
) -> None:
    poison = await drain_with_poison(inbox, tmp_path, neighbours_attempts=3)
    assert await inbox.job(poison) == ("failed",)


@pytest.mark.exclusive
async def test_a_dead_recovery_leader_is_replaced_within_its_lease(inbox: Inbox, tmp_path: Path) -> None:
    with Crew(inbox.url, tmp_path) as crew:
        first = crew.start("first", lease=3)
        await inbox.working([first])
        (job,) = await inbox.submit("chaos.slow.v1", 1, {"seconds": 600, "again": 0})

        async def running() -> bool:
            return bool(await inbox.effects_of(job))

        async def in_charge() -> bool:
            return bool(
                await inbox.value("select true from windlass.term where duty = 'recovery' and holder = 'first'")
            )

        await eventually(running, "the job was running")
        await eventually(in_charge, "the first worker was in charge")
        second = crew.start("second", lease=3)
        await inbox.working([second])
        died = await inbox.value("select clock_timestamp()")
        first.kill()
        await inbox.drained(within=20)
        trail = "select created_at from workflow.workflow_event where workflow_id = $1 and event_type = 'retried'"
        silence = (await inbox.value(trail, job) - died).total_seconds()
        assert silence < 5, "its lease, and two rounds of a busy machine"


@pytest.mark.exclusive
async def test_healthy_suspect_jobs_are_not_run_one_by_one(inbox: Inbox, tmp_path: Path) -> None:
    count = 60
    with Crew(inbox.url, tmp_path) as crew:
        await inbox.submit("chaos.slow.v1", count, {"seconds": 0.5}, max_attempts=3)
        await inbox.execute("update workflow.workflow_run set lost = 2, alone = true")
        crew.start("ann", lease=2)
        await inbox.drained(within=60)
        took = await inbox.value("select extract(epoch from max(at) - min(at)) from effects")
        assert took < count * 0.5 / 3, "one by one they take half a minute"
        assert await inbox.statuses() == {"succeeded": count}
