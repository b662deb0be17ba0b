"""kill -9 in the middle of handlers with durable steps: they resume after their last finished step."""

from collections import defaultdict
from pathlib import Path
from typing import Any

from tests.chaos.harness import Crew, Inbox, dice, eventually
from tests.chaos.stepload import STEPS

CALLS = """create table calls (
  id bigint generated always as identity, job_id uuid not null, step int not null, fence int not null)"""


async def test_a_killed_handler_resumes_after_its_last_finished_step(inbox: Inbox, tmp_path: Path) -> None:
    await inbox.execute(CALLS)
    jobs, kills = 40, 4
    with dice() as rng, Crew(inbox.url, tmp_path, app="tests.chaos.stepload:app") as crew:
        ids = await inbox.submit("chaos.steps.v1", jobs, {"pause": 0.05}, max_attempts=100)
        worker = crew.start("ann", lease=1, concurrency=10)
        for after in sorted(rng.sample(range(20, jobs * STEPS * 3 // 4), kills)):

            async def far_enough(after: int = after) -> bool:
                return bool(await inbox.value("select count(*) from windlass.checkpoint") >= after)

            await eventually(far_enough, f"{after} steps were recorded", within=60, every=0.01)
            worker.kill()
            worker = crew.start("ann", lease=1, concurrency=10)
        await inbox.drained(within=60)
        await assert_resumed(inbox, ids)
        assert await inbox.value("select sum(lost) from workflow.workflow_run") > 0, "no worker was killed with a job"


async def assert_resumed(inbox: Inbox, ids: list[Any]) -> None:
    """Each step was recorded once, its result is the one the job ended with, and no finished step was called again: of
    each step only the last call counts, and the steps behind it were called under the same fence or a later one."""
    recorded = dict(
        await inbox.fetch(
            "select job_id, jsonb_agg(state order by name)::text from windlass.checkpoint group by job_id"
        )
    )
    results = dict(await inbox.fetch("select id, (result -> 'given')::text from workflow.workflow_run"))
    assert recorded.keys() == set(ids)
    assert results == recorded
    calls: dict[Any, list[tuple[int, int]]] = defaultdict(list)
    for job, step, fence in await inbox.fetch("select job_id, step, fence from calls order by id"):
        calls[job].append((step, fence))
    for job in ids:
        steps = [step for step, _ in calls[job]]
        assert steps == sorted(steps), f"{job}: a finished step was done again: {calls[job]}"
        # A step is called again only by another attempt: the one before was killed between its effect and its record.
        assert len(set(calls[job])) == len(calls[job])
