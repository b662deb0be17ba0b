"""kill -9 at every line of a handler that sleeps, waits for messages and runs, and writes rows in transactions."""

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tests.chaos.harness import Crew, Inbox, dice, eventually
from tests.chaos.waitload import BOOKED, CALLS, CHILD, LINES, SCHEMA
from tests.keys import KEYS
from windlass import Windlass
from windlass.core.json_value import decode
from windlass.engine import messages
from windlass.settings import Settings


async def test_a_handler_that_is_killed_while_it_waits_resumes(inbox: Inbox, tmp_path: Path) -> None:
    with dice() as rng:
        await killed_at(inbox, tmp_path, [[line] for line in rng.sample(range(1, LINES + 1), 5)], within=120)


@pytest.mark.soak
async def test_a_thousand_kills_at_every_line_lose_and_repeat_nothing(inbox: Inbox, tmp_path: Path) -> None:
    with dice() as rng:
        every = [[line] for line in range(1, LINES + 1)]
        more = [sorted(rng.sample(range(1, LINES + 1), 18)) for _ in range((1000 - LINES) // 18 + 1)]
        await killed_at(inbox, tmp_path, every + more, within=1700)


async def killed_at(inbox: Inbox, folder: Path, deaths: list[list[int]], *, within: float) -> None:
    """Run a job for each list of lines, whose process is killed once at each of its lines."""
    await inbox.execute(SCHEMA)
    async with Windlass(inbox.url, settings=Settings(notify=False, master_keys=KEYS)) as app:
        await app.deploy(CHILD)
        db = await app.open()
        ids = [await app.submit("chaos.wait.v1", {"lines": lines}, max_attempts=1000) for lines in deaths]
        for id_ in ids:
            await messages.signal(db, id_, "paid", payload=7)
            await messages.publish(db, "signed", key=str(id_), payload="x")
    with Crew(inbox.url, folder, app="tests.chaos.waitload:app") as crew:
        worker = crew.start("ann", lease=1, concurrency=10)

        async def ended() -> bool:
            nonlocal worker
            if not worker.alive:
                worker = crew.start("ann", lease=1, concurrency=10)
            return bool(
                await inbox.value(
                    "select count(*) = 0 from workflow.workflow_run where status in ('pending', 'leased')"
                )
            )

        await eventually(ended, "all jobs ended", within=within)
    assert await inbox.value("select count(*) from deaths") == sum(map(len, deaths)), "a line was never reached"
    await assert_nothing_lost_or_repeated(inbox, ids)


async def assert_nothing_lost_or_repeated(inbox: Inbox, ids: list[UUID]) -> None:
    """Each job has seen the results that are recorded, its rows are there once, and its runs were started once."""
    rows = await inbox.fetch("select id, status, result from workflow.workflow_run where type = 'chaos.wait.v1'")
    recorded: dict[UUID, dict[str, Any]] = {id_: {} for id_ in ids}
    for job, name, state in await inbox.fetch("select job_id, name, state::text from windlass.checkpoint"):
        recorded[job][name] = decode(state)
    booked = dict(await inbox.fetch("select job_id, array_agg(step order by step) from booked group by job_id"))
    for id_, status, text in rows:
        assert status == "succeeded", f"{id_} is {status}"
        result = decode(text)
        seen = result["results"]
        assert result["lines"] == LINES
        assert len(recorded[id_]) == CALLS
        assert booked[id_] == [f"book-{n}" for n in range(1, BOOKED + 1)]
        assert (seen["paid"], seen["signed"], seen["child"], seen["job"]) == (7, "x", 21, 21)
        steps = {name: value for name, value in recorded[id_].items() if name in seen}
        assert steps == {name: seen[name] for name in steps}
    assert len(rows) == len(ids)
    assert await inbox.value("select count(*) from windlass.run") == 2 * len(ids)
    again = "select count(*) from (select job_id, step from calls group by 1, 2 having count(*) > 1) as twice"
    deaths = await inbox.value("select count(*) from deaths")
    assert await inbox.value(again) <= deaths * 10, "steps were called again without a kill"
