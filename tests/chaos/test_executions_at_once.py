"""The limit of concurrent executions of an org holds whichever process is killed, and every job ends."""

import random
from pathlib import Path

import pytest

from tests.chaos.harness import Crew, Inbox, WorkerProcess, dice, eventually
from windlass import Windlass
from windlass.settings import Settings

NAMES = ("ann", "bob", "cid")
LIMIT = 4
# A claim sees the ends that it counts before it writes its own events, so the order of ids is the order of both.
TRAIL = """select e.event_type from workflow.workflow_event e join workflow.workflow_run j on j.id = e.workflow_id
            where j.org = 'acme' and e.event_type in ('leased', 'succeeded', 'failed', 'retried', 'cancelled')
            order by e.id"""


async def prepared(inbox: Inbox, jobs: int) -> None:
    await inbox.execute("insert into windlass.plan (name, executions_at_once) values ('small', $1)", LIMIT)
    await inbox.execute("insert into windlass.org (name, plan) values ('acme', 'small')")
    async with Windlass(inbox.url, settings=Settings(notify=False), org="acme") as app:
        await app.submit_many([app.spec("chaos.slow.v1", {"seconds": 0.02}, max_attempts=1000)] * jobs)


async def peak(inbox: Inbox) -> int:
    """Return the highest number of concurrent executions."""
    running = most = 0
    for (word,) in await inbox.fetch(TRAIL):
        running += 1 if word == "leased" else -1
        most = max(most, running)
    assert running == 0
    return most


async def kill_and_replace(
    inbox: Inbox, crew: Crew, staff: list[WorkerProcess], rng: random.Random, *, after: int
) -> None:
    async def far_enough() -> bool:
        return await inbox.count("succeeded") >= after

    await eventually(far_enough, f"{after} jobs had succeeded", within=120, every=0.02)
    victim = rng.randrange(len(staff))
    staff[victim].kill()
    staff[victim] = crew.start(NAMES[victim], lease=1, concurrency=20)


async def killed(inbox: Inbox, folder: Path, *, jobs: int, kills: int) -> None:
    await prepared(inbox, jobs)
    with dice() as rng, Crew(inbox.url, folder) as crew:
        staff = [crew.start(name, lease=1, concurrency=20) for name in NAMES]
        for after in sorted(rng.sample(range(jobs * 4 // 5), kills)):
            await kill_and_replace(inbox, crew, staff, rng, after=after)
        await inbox.drained(within=120)
        await inbox.assert_each_succeeded_once(jobs)
        assert await peak(inbox) == LIMIT


async def test_workers_never_exceed_the_concurrency_limit_while_they_are_killed(inbox: Inbox, tmp_path: Path) -> None:
    await killed(inbox, tmp_path, jobs=300, kills=5)


@pytest.mark.soak
@pytest.mark.timeout(900)
async def test_workers_never_exceed_the_concurrency_limit_during_fifty_kills(inbox: Inbox, tmp_path: Path) -> None:
    await killed(inbox, tmp_path, jobs=3000, kills=50)
