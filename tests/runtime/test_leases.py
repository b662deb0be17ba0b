"""A worker keeps the leases of its jobs whatever blocks it, and survives the loss of leases."""

import asyncio
import logging
import threading
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from tests.runtime.conftest import Working, eventually
from windlass import Context, Windlass
from windlass.engine.workers import registry as workers
from windlass.engine.workers import turn
from windlass.runtime.metrics import loop_blocked_total
from windlass.runtime.worker import heartbeat
from windlass.settings import Settings

Connection = Any
LEASE = timedelta(seconds=1)  # extended every third of a second
TAKE_BACK = """update workflow.workflow_run set status = 'pending', lost = lost + 1, alone = $2
                where id = $1 and status = 'leased' returning true"""
ENDS = """select min(coalesce(l.until, j.lease_until)), count(*)
            from workflow.workflow_run j left join windlass.worker_lease l on l.id = j.worker_lease
           where j.id = any($1) and j.status = 'leased'"""


@pytest.fixture(autouse=True)
async def old_server(conn: Connection) -> None:
    """Leases are not taken back in the first five seconds of a server."""
    await eventually(lambda: conn.fetchval("select pg_postmaster_start_time() < now() - interval '5.1 seconds'"))


@asynccontextmanager
async def locked(database: str, statement: str, *values: Any) -> AsyncIterator[None]:
    """Lock rows in another session, whose transaction stays open."""
    session: Connection = await asyncpg.connect(database)
    transaction = session.transaction()
    await transaction.start()
    await session.execute(statement, *values)
    try:
        yield
    finally:
        await transaction.rollback()
        await session.close()


async def outlast_their_leases(conn: Connection, *ids: UUID) -> None:
    """Wait until the leases of these jobs have been extended well beyond their present ends."""
    first, _ = await conn.fetchrow(ENDS, ids)

    async def look() -> bool:
        end, held = await conn.fetchrow(ENDS, ids)
        return held == len(ids) and bool(end > first + 2 * LEASE)

    await eventually(look)


async def ended(app: Windlass, id_: UUID, status: str = "succeeded") -> None:
    async def look() -> bool:
        return (await app.get(id_)).status == status

    await eventually(look)


@pytest.mark.parametrize("suspect", [False, True], ids=["plain", "suspect"])
async def test_a_job_taken_back_while_it_runs_is_run_again_by_the_same_worker(
    app: Windlass, conn: Connection, working: Working, suspect: bool
) -> None:
    running, most, starts = Counter[UUID](), 0, Counter[UUID]()
    release = asyncio.Event()

    @app.job("a.b.v1", concurrency=2)
    async def handle(ctx: Context) -> int:
        nonlocal most
        running[ctx.id] += 1
        most = max(most, running[ctx.id])
        starts[ctx.id] += 1
        try:
            if ctx.fence == 1:
                await asyncio.Event().wait()
            await release.wait()
        finally:
            running[ctx.id] -= 1
        return ctx.fence

    first = await app.submit("a.b.v1")
    async with working(app):
        await eventually(lambda: _is(starts[first] == 1))
        assert await conn.fetchval(TAKE_BACK, first, suspect)
        await eventually(lambda: _is(starts[first] == 2))
        release.set()
        await ended(app, first)
        assert ((await app.get(first)).result, most) == (2, 1)
        # Neither its slot nor its place among the suspects is gone.
        for _ in range(2):
            id_ = await app.submit("a.b.v1")
            await eventually(partial(_counted, starts, id_))
            assert await conn.fetchval(TAKE_BACK, id_, suspect)
            await ended(app, id_)


@pytest.mark.parametrize("is_handed_over", [False, True], ids=["of the process", "of each job"])
async def test_a_locked_job_row_expires_no_lease_of_other_jobs(
    app: Windlass, database: str, conn: Connection, working: Working, is_handed_over: bool
) -> None:
    starts, release = Counter[int](), asyncio.Event()

    @app.job("a.b.v1", max_attempts=10)
    async def handle(n: int) -> None:
        starts[n] += 1
        await release.wait()

    ids = [await app.submit("a.b.v1", {"n": n}) for n in range(3)]
    async with working(app, lease=LEASE, is_handed_over=is_handed_over):
        await eventually(lambda: _is(len(starts) == 3))
        async with locked(database, "select from workflow.workflow_run where id = $1 for update", ids[0]):
            await outlast_their_leases(conn, *ids[1:])
            assert starts == {0: 1, 1: 1, 2: 1}
        release.set()
        for id_ in ids:
            await ended(app, id_)
    assert (starts[1], starts[2]) == (1, 1)
    assert [(await app.get(id_)).lost for id_ in ids[1:]] == [0, 0]


async def test_a_handler_that_blocks_the_event_loop_expires_no_lease_and_is_logged(
    app: Windlass, database: str, working: Working, caplog: pytest.LogCaptureFixture
) -> None:
    calm: list[UUID] = []
    started, release = asyncio.Event(), asyncio.Event()

    @app.job("calm.job.v1")
    async def calm_job() -> None:
        started.set()
        await release.wait()

    @app.job("blocking.job.v1")
    async def blocking_job(ctx: Context) -> None:
        async def watch() -> None:
            conn = await asyncpg.connect(database)
            await outlast_their_leases(conn, *calm, ctx.id)
            await conn.close()

        watcher = threading.Thread(target=lambda: asyncio.run(watch()))
        watcher.start()
        watcher.join()  # as any blocking call would

    calm.append(await app.submit("calm.job.v1", max_attempts=1))
    with caplog.at_level(logging.WARNING, logger="windlass.worker"):
        async with working(app, id="w", lease=LEASE):
            await started.wait()
            blocking = await app.submit("blocking.job.v1", max_attempts=1)
            await ended(app, blocking)
            release.set()
            await ended(app, calm[0])
    [warning] = [record for record in caplog.records if "blocked" in record.getMessage()]
    text = warning.getMessage()
    for words in (f"the handler of blocking.job.v1 (job {blocking})", "watcher.join()", "asyncio.to_thread"):
        assert words in text
    assert loop_blocked_total.labels("blocking.job.v1", "w")._value.get() == 1


async def test_heartbeats_need_no_connection_of_the_pool(database: str, conn: Connection, working: Working) -> None:
    async with Windlass(database, settings=Settings(pool_size=2)) as app:
        db, started, release = await app.open(), asyncio.Event(), asyncio.Event()

        @app.job("a.b.v1")
        async def handle() -> None:
            started.set()
            await release.wait()

        id_ = await app.submit("a.b.v1", max_attempts=1)
        async with working(app, lease=LEASE):
            await started.wait()
            taken = [await db.pool.acquire() for _ in range(2)]
            await outlast_their_leases(conn, id_)
            for one in taken:
                await db.pool.release(one)
            release.set()
            await ended(app, id_)


async def test_a_report_that_waits_for_a_locked_run_keeps_its_lease(
    app: Windlass, database: str, conn: Connection, working: Working
) -> None:
    done: list[int] = []
    is_locked = asyncio.Event()

    @app.job("step.one.v1")
    async def one(ctx: Context) -> None:
        await is_locked.wait()
        done.append(ctx.attempt)

    flow = app.workflow("w")
    flow.step("one", one)
    async with working(app, lease=LEASE):
        run = await app.start("w")
        async with locked(database, "select from windlass.run where id = $1 for update", run.id):
            is_locked.set()
            await eventually(lambda: _is(bool(done)))
            [job] = (await app.list()).jobs
            await outlast_their_leases(conn, job.id)
        await run.wait(timeout=15)
    assert (done, (await app.get(job.id)).lost) == ([1], 0)


async def test_heartbeats_reconnect_after_the_server_terminates_their_connection(
    app: Windlass, conn: Connection, working: Working
) -> None:
    started, release = asyncio.Event(), asyncio.Event()

    @app.job("a.b.v1")
    async def handle() -> None:
        started.set()
        await release.wait()

    id_ = await app.submit("a.b.v1", max_attempts=1)
    async with working(app, lease=LEASE):
        await started.wait()
        await outlast_their_leases(conn, id_)
        await conn.execute("""select pg_terminate_backend(pid) from pg_stat_activity
                               where datname = current_database() and pid <> pg_backend_pid()""")
        await outlast_their_leases(conn, id_)
        release.set()
        await ended(app, id_)


async def _counted(counter: Counter[UUID], id_: UUID) -> bool:
    return counter[id_] > 0


async def _is(value: bool) -> bool:
    return value


async def test_a_locked_run_delays_only_the_report_that_needs_it(
    app: Windlass, conn: Connection, database: str, working: Working
) -> None:
    """A session that is idle in transaction keeps one run locked: all other jobs of the worker continue."""

    @app.job("step.a.v1")
    async def step(ctx: Context) -> int:
        return 1

    @app.job("plain.b.v1")
    async def plain(ctx: Context, n: int) -> int:
        return n

    album = app.workflow("album")
    album.step("a", step)
    run = await app.start("album")
    hold = "select from windlass.run where id = $1 for update"
    async with locked(database, hold, run.id), working(app, lease=timedelta(seconds=30)):
        ids = [await app.submit("plain.b.v1", {"n": n}) for n in range(30)]
        for id_ in ids:
            await ended(app, id_)
        assert await conn.fetchval("select state from windlass.run") == "running"
    async with working(app):
        await asyncio.wait_for(run.ended(), 60)
    assert await conn.fetchval("select state from windlass.run") == "completed"


async def test_a_claim_whose_response_was_lost_is_released_and_run_while_its_worker_is_alive(
    app: Windlass, conn: Connection, working: Working, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quiet worker does not adopt orphans: it releases the jobs under its lease that it does not run."""
    monkeypatch.setattr(heartbeat, "UNKNOWN_AFTER", timedelta())
    db, done = await app.open(), []

    @app.job("a.b.v1")
    async def handle(ctx: Context) -> None:
        done.append(ctx.attempt)

    async with working(app, id="w", lease=LEASE):
        lease = await eventually(lambda: conn.fetchval("select id from windlass.worker_lease"))
        await eventually(lambda: conn.fetchval("select true from windlass.worker"))  # it registers after that
        await workers.direct(db, "w", "quiet")
        await eventually(lambda: conn.fetchval("select true from windlass.worker where state = 'draining'"))
        id_ = await app.submit("a.b.v1")
        lanes = [(replace(lane, seq=0), 1) for lane in await turn.look(db, ["default"])]
        request = turn.Turn(worker="w", lease=LEASE, worker_lease=lease, lanes=lanes, count=1)
        assert [job.id for job in (await turn.turn(db, request))[0]] == [id_]
        await ended(app, id_, "pending")
        await workers.direct(db, "w", None)
        await ended(app, id_)
    assert (done, await conn.fetchval("select count(*) from windlass.worker_lease")) == ([2], 0)
