"""Postgres stops under load and restarts: workers survive, no job is lost, none is recorded twice."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.chaos.harness import Crew, Inbox, WorkerProcess, dice, eventually
from tests.chaos.servers import Server, own_server
from windlass.engine.database import prepare
from windlass.store.postgres.pool import DatabaseOptions

MISSED = "the database did not answer"


@asynccontextmanager
async def busy(
    folder: Path, count: int, *, lease: float = 3
) -> AsyncIterator[tuple[Server, Inbox, list[WorkerProcess]]]:
    """Start a separate Postgres with a load of jobs and three workers."""
    with own_server() as server:
        await prepare(DatabaseOptions(url=server.url))
        async with Inbox.open(server.url) as inbox:
            await inbox.prepare()
            await inbox.submit("chaos.slow.v1", count // 2, {"seconds": 0.1}, max_attempts=50)
            await inbox.submit("chaos.record.v1", count // 2, max_attempts=50)
            with Crew(server.url, folder) as crew:
                staff = [crew.start(name, lease=lease, concurrency=20) for name in ("ann", "bob", "cid")]
                await inbox.working(staff)
                yield server, inbox, staff


async def break_down(
    server: Server, inbox: Inbox, staff: list[WorkerProcess], how: Callable[[Server], None], *, after: int
) -> None:
    """Wait until `after` jobs have succeeded; stop the server until every worker has noticed; start it again."""

    async def far_enough() -> bool:
        return await inbox.count("succeeded") >= after

    async def missed() -> bool:
        return all(worker.output().count(MISSED) > noticed[worker.id] for worker in staff)

    await eventually(far_enough, f"{after} jobs had succeeded", within=60, every=0.01)
    noticed = {worker.id: worker.output().count(MISSED) for worker in staff}
    await asyncio.to_thread(how, server)
    await eventually(missed, "every worker had missed the database")
    await asyncio.to_thread(server.start)


async def assert_unharmed(inbox: Inbox, staff: list[WorkerProcess], count: int, *, within: float) -> None:
    await inbox.drained(within=within)
    await inbox.assert_each_succeeded_once(count)
    assert all(worker.alive for worker in staff)


@pytest.mark.parametrize("how", [Server.stop, Server.crash], ids=["stopped", "killed"])
async def test_a_restart_of_postgres_under_load_loses_no_job(how: Callable[[Server], None], tmp_path: Path) -> None:
    count = 1000
    with dice() as rng:
        async with busy(tmp_path, count) as (server, inbox, staff):
            await break_down(server, inbox, staff, how, after=rng.randrange(count // 2))
            await assert_unharmed(inbox, staff, count, within=60)


async def test_a_running_job_survives_a_restart_of_postgres(tmp_path: Path) -> None:
    """The job is not started again: its worker keeps it."""
    async with busy(tmp_path, 0, lease=10) as (server, inbox, staff):
        (job,) = await inbox.submit("chaos.slow.v1", 1, {"seconds": 4})

        async def running() -> bool:
            return bool(await inbox.effects_of(job))

        await eventually(running, "the job was running")
        await break_down(server, inbox, staff, Server.stop, after=0)
        await assert_unharmed(inbox, staff, 1, within=30)
        assert await inbox.job(job, "attempt, lost, claim_no") == (0, 0, 1)


async def test_a_postgres_frozen_for_longer_than_a_lease_expires_no_lease(tmp_path: Path) -> None:
    """A frozen machine or a promoted standby: the server did not restart, and every lease has passed its end."""
    lease, count = 3, 10
    async with busy(tmp_path, 0, lease=lease) as (server, inbox, staff):
        jobs = await inbox.submit("chaos.slow.v1", count, {"seconds": 15}, max_attempts=1)

        async def running() -> bool:
            up = "select pg_postmaster_start_time() < now() - interval '6 seconds'"
            return bool(await inbox.value("select count(*) from effects") == count and await inbox.value(up))

        await eventually(running, "all jobs were running on a server that had been up for a while")
        await asyncio.to_thread(server.freeze)
        until = time.monotonic() + 2 * lease
        try:
            await eventually(lambda: _past(until), "all leases were over")
        finally:
            await asyncio.to_thread(server.thaw)
        await assert_unharmed(inbox, staff, count, within=40)
        assert {await inbox.job(job, "attempt, lost, claim_no") for job in jobs} == {(0, 0, 1)}


async def _past(moment: float) -> bool:
    return time.monotonic() > moment


@pytest.mark.soak
@pytest.mark.timeout(900)
async def test_repeated_failures_of_postgres_lose_no_job(tmp_path: Path) -> None:
    count, rounds = 20_000, 10
    with dice() as rng:
        async with busy(tmp_path, count) as (server, inbox, staff):
            for after in sorted(rng.sample(range(count * 3 // 4), rounds)):
                await break_down(server, inbox, staff, rng.choice([Server.stop, Server.crash]), after=after)
            await assert_unharmed(inbox, staff, count, within=300)
