"""Postgres restarts in the middle of runs: all of them end as designed, and no attempt is charged."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.chaos.harness import Crew, WorkerProcess, dice, eventually
from tests.chaos.runs import FLAKY, MIXED, RUNLOAD, Runs
from tests.chaos.servers import Server, own_server
from windlass.engine.database import prepare
from windlass.store.postgres.pool import DatabaseOptions

# What a worker logs when an outage begins, and when it ends.
MISSED, RECOVERED = "operations that need it wait and retry", "the database is available again"
WITHOUT_FLAKY = tuple(design for design in MIXED if design is not FLAKY)
CHARGED = """select id, type, attempt, errors from workflow.workflow_run
  where attempt > 0 and type not in ('chaos.fail.v1', 'chaos.odd.v1')"""
# Both times are from the same clock, so the speed of the machine does not change the result.
ENDED_AFTER_RESTART = """select count(*) from windlass.run
  where parent_id is null and finished_at > pg_postmaster_start_time()"""


@asynccontextmanager
async def busy(folder: Path, count: int) -> AsyncIterator[tuple[Server, Runs, list[WorkerProcess]]]:
    """Start a separate Postgres with runs and three workers."""
    with own_server() as server:
        await prepare(DatabaseOptions(url=server.url))
        async with Runs.open(server.url) as runs:
            await runs.prepare()
            await runs.start_mixed(count, WITHOUT_FLAKY)
            with Crew(server.url, folder, app=RUNLOAD) as crew:
                staff = [crew.start(name, lease=3, concurrency=10) for name in ("ann", "bob", "cid")]
                await runs.working(staff)
                yield server, runs, staff
                crew.assert_calm()


async def break_down(
    server: Server, runs: Runs, staff: list[WorkerProcess], how: Callable[[Server], None], *, after: int
) -> None:
    """Wait until `after` runs have ended; stop the server until every worker has noticed; start it again.

    A worker reports an outage when it begins, so one that has not yet reported the end of the last outage would not
    report the next one.
    """

    async def far_enough() -> bool:
        return await runs.ended() >= after

    async def recovered() -> bool:
        return all(worker.output().count(RECOVERED) == worker.output().count(MISSED) for worker in staff)

    async def missed() -> bool:
        return all(worker.output().count(MISSED) > noticed[worker.id] for worker in staff)

    await eventually(recovered, "every worker had recovered from the last outage")
    await eventually(far_enough, f"{after} runs had ended", within=60, every=0.01)
    noticed = {worker.id: worker.output().count(MISSED) for worker in staff}
    await asyncio.to_thread(how, server)
    await eventually(missed, "every worker had missed the database")
    await asyncio.to_thread(server.start)


async def assert_unharmed(runs: Runs, staff: list[WorkerProcess], count: int, *, within: float) -> None:
    await runs.all_quiet(within=within)
    await runs.assert_as_designed(*WITHOUT_FLAKY, roots=count)
    assert await runs.fetch(CHARGED) == [], "an attempt was charged for the outage of the database"
    assert all(worker.alive for worker in staff)


@pytest.mark.parametrize("how", [Server.stop, Server.crash], ids=["stopped", "killed"])
async def test_runs_survive_a_restart_of_postgres(how: Callable[[Server], None], tmp_path: Path) -> None:
    count = 200
    with dice() as rng:
        async with busy(tmp_path, count) as (server, runs, staff):
            for started in range(count, 6 * count, count):
                await break_down(server, runs, staff, how, after=started - count + rng.randrange(count // 2))
                await assert_unharmed(runs, staff, started, within=60)
                if await runs.value(ENDED_AFTER_RESTART):
                    return
                await runs.start_mixed(count, WITHOUT_FLAKY)  # all had ended before: fast workers, or a slow stop
            raise AssertionError("every run had ended before each of the restarts")


@pytest.mark.soak
@pytest.mark.timeout(900)
async def test_runs_survive_repeated_restarts_of_postgres(tmp_path: Path) -> None:
    count, rounds = 5000, 10
    with dice() as rng:
        async with busy(tmp_path, count) as (server, runs, staff):
            for after in sorted(rng.sample(range(count * 3 // 4), rounds)):
                await break_down(server, runs, staff, rng.choice([Server.stop, Server.crash]), after=after)
            await assert_unharmed(runs, staff, count, within=300)
