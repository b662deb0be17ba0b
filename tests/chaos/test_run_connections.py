"""The same mixed runs with every kind of connection: with notifications, without, and through a pooler."""

from pathlib import Path

from tests.chaos.harness import Crew
from tests.chaos.runs import MIXED, RUNLOAD, Runs
from tests.chaos.servers import pgbouncer
from tests.chaos.test_three_workers import needs_pgbouncer

COUNT = 3 * len(MIXED)


async def finish(runs: Runs, crew: Crew) -> None:
    workers = [crew.start(name) for name in ("ann", "bob")]
    await runs.working(workers)
    await runs.start_mixed(COUNT)
    await runs.all_quiet(within=45)
    await runs.assert_as_designed(*MIXED, roots=COUNT)
    assert all(worker.alive for worker in workers)
    crew.assert_calm()


async def test_mixed_runs_end_as_designed(runs: Runs, tmp_path: Path) -> None:
    with Crew(runs.url, tmp_path, app=RUNLOAD) as crew:
        await finish(runs, crew)


async def test_mixed_runs_end_as_designed_without_notifications(runs: Runs, tmp_path: Path) -> None:
    with Crew(runs.url, tmp_path, app=RUNLOAD, environ={"WINDLASS_NOTIFY": "off"}) as crew:
        await finish(runs, crew)


@needs_pgbouncer
async def test_mixed_runs_end_as_designed_through_pgbouncer(runs: Runs, tmp_path: Path) -> None:
    async with pgbouncer(runs.url) as url:
        environ = {"WINDLASS_POOLER": "on", "CHAOS_EFFECTS_URL": runs.url}
        with Crew(url, tmp_path, app=RUNLOAD, environ=environ) as crew:
            await finish(runs, crew)
