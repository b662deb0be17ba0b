"""Three worker processes on one inbox: each job has exactly one success."""

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import pytest

from tests.chaos.harness import Crew, Inbox, WorkerProcess
from tests.chaos.servers import PGBOUNCER, pgbouncer
from windlass.engine.database import prepare
from windlass.store.postgres.pool import DatabaseOptions

MOST_ROUNDS = 20
SOME = 3000  # jobs
needs_pgbouncer = pytest.mark.skipif(  # where CI is set they fail
    PGBOUNCER is None and not os.environ.get("CI"), reason="PgBouncer is not installed: apt-get install pgbouncer"
)


async def drain_with_three(inbox: Inbox, crew: Crew, count: int) -> None:
    workers = [crew.start(name) for name in ("ann", "bob", "cid")]
    await inbox.working(workers)
    total = 0
    for _ in range(MOST_ROUNDS):  # two may be done before the third looks: then there is more, until all took part
        total += await drain(inbox, workers, count)
        claims = await claims_of(inbox)
        if len(claims) == len(workers):
            break
    await inbox.assert_each_succeeded_once(total)
    assert claims.keys() == {"ann", "bob", "cid"}
    assert sum(claims.values()) == total, "a job was claimed twice although no worker missed its heartbeats"
    assert all(worker.alive for worker in workers)


async def drain(inbox: Inbox, workers: Sequence[WorkerProcess], count: int) -> int:
    for worker in workers:  # so that the three begin at the same moment
        worker.freeze()
    await inbox.submit("chaos.noop.v1", count)
    for worker in workers:
        worker.thaw()
    await inbox.drained(within=30 + count / 500)
    return count


async def claims_of(inbox: Inbox) -> dict[str, int]:
    return dict(
        await inbox.fetch("select actor, count(*) from workflow.workflow_event where event_type = 'leased' group by 1")
    )


async def test_each_job_succeeds_exactly_once(inbox: Inbox, tmp_path: Path) -> None:
    with Crew(inbox.url, tmp_path) as crew:
        await drain_with_three(inbox, crew, SOME)


async def test_each_job_succeeds_exactly_once_without_notifications(inbox: Inbox, tmp_path: Path) -> None:
    with Crew(inbox.url, tmp_path, environ={"WINDLASS_NOTIFY": "off"}) as crew:
        await drain_with_three(inbox, crew, SOME)


@needs_pgbouncer
async def test_each_job_succeeds_exactly_once_through_pgbouncer(inbox: Inbox, tmp_path: Path) -> None:
    async with pgbouncer(inbox.url) as url:
        with Crew(url, tmp_path, environ={"WINDLASS_POOLER": "on"}) as crew:
            await drain_with_three(inbox, crew, SOME)


@needs_pgbouncer
async def test_workers_that_start_concurrently_behind_pgbouncer_migrate_the_database_once(
    server: str, tmp_path: Path
) -> None:
    async with empty_database(server) as empty, pgbouncer(empty.url) as url:
        with Crew(url, tmp_path, environ={"WINDLASS_POOLER": "on"}) as crew:
            await empty.working([crew.start(f"w{n}") for n in range(5)])
        assert await prepare(DatabaseOptions(url=empty.url)) == []
        left = await empty.value("select count(*) from pg_locks where locktype = 'advisory'")
        assert left == 0, "the lock of the migrations was left behind in a connection of the pooler"


@asynccontextmanager
async def empty_database(server: str) -> AsyncIterator[Inbox]:
    name = f"windlass_empty_{uuid4().hex[:12]}"
    async with Inbox.open(server) as admin:
        await admin.execute(f"create database {name}")
        try:
            async with Inbox.open(urlunsplit(urlsplit(server)._replace(path=f"/{name}"))) as empty:
                yield empty
        finally:
            await admin.execute(f"drop database {name} with (force)")


@pytest.mark.soak
@pytest.mark.timeout(600)
async def test_each_of_100000_jobs_succeeds_exactly_once(inbox: Inbox, tmp_path: Path) -> None:
    with Crew(inbox.url, tmp_path) as crew:
        await drain_with_three(inbox, crew, 100_000)
