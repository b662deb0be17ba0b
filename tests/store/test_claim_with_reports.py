"""A claim that also records successes of its worker, with one statement."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from windlass.core.jobs.job import Claimed, Success
from windlass.engine.database import Tenant
from windlass.engine.workers import turn as worker_turn
from windlass.engine.workers.turn import Lane, Turn
from windlass.errors import Unavailable
from windlass.store import claims
from windlass.store.postgres.pool import DatabaseOptions

Connection = Any
LEASE = timedelta(seconds=30)
LANE = Lane("default", "a.b.v1", 100, 0)
INSERT = """insert into workflow.workflow_run (type, payload, queue)
  select 'a.b.v1', '{}', 'default' from generate_series(1, $1)"""


async def claim(conn: Connection, count: int, *successes: Success) -> tuple[list[Claimed], set[UUID]]:
    return await claims.claim(conn, [(LANE, count)], count=count, worker="w1", lease=LEASE, successes=successes)


@pytest.fixture
async def held(conn: Connection) -> list[Claimed]:
    """Three jobs that w1 has claimed, and two that wait."""
    await conn.execute(INSERT, 5)
    return (await claim(conn, 3))[0]


async def test_a_claim_also_records_successes(conn: Connection, held: list[Claimed]) -> None:
    claimed, recorded = await claim(conn, 9, *(Success(job, f'"{n}"') for n, job in enumerate(held)))
    assert recorded == {job.id for job in held}
    assert [job.seq for job in claimed] == sorted(job.seq for job in claimed)
    assert len(claimed) == 2
    rows = await conn.fetch("select status, result, leased_by from workflow.workflow_run order by seq")
    assert [tuple(row) for row in rows] == [
        ("succeeded", '"0"', None),
        ("succeeded", '"1"', None),
        ("succeeded", '"2"', None),
        ("leased", None, "w1"),
        ("leased", None, "w1"),
    ]
    trail = "select array_agg(event_type order by id) from workflow.workflow_event where workflow_id = $1"
    assert await conn.fetchval(trail, held[0].id) == ["created", "leased", "succeeded"]
    assert await conn.fetchval(trail, claimed[0].id) == ["created", "leased"]


async def test_only_the_report_with_a_stale_fence_is_rejected(conn: Connection, held: list[Claimed]) -> None:
    stale = held[1]._replace(claim_no=7)
    claimed, recorded = await claim(conn, 1, *(Success(job, "1") for job in (held[0], stale, held[2])))
    assert recorded == {held[0].id, held[2].id}
    assert len(claimed) == 1
    assert await conn.fetchval("select status from workflow.workflow_run where id = $1", stale.id) == "leased"


async def test_a_claim_skips_a_report_on_a_locked_row(database: str, conn: Connection, held: list[Claimed]) -> None:
    other = await asyncpg.connect(database)
    async with other.transaction():
        await other.execute("select from workflow.workflow_run where id = $1 for update", held[0].id)
        claimed, recorded = await asyncio.wait_for(claim(conn, 9, *(Success(job, "1") for job in held)), 10)
    await other.close()
    assert recorded == {job.id for job in held[1:]}
    assert len(claimed) == 2


class Session:
    """A worker's turn that reports on three jobs and claims two, while another session has locked the first."""

    def __init__(self, database: str, conn: Connection) -> None:
        self.database, self.conn, self.failed = database, conn, False

    async def __aenter__(self) -> "Session":
        await self.conn.execute(INSERT, 5)
        self.db = await Tenant.open(DatabaseOptions(url=self.database, size=2, notify=False))
        first = Turn(worker="w1", lease=LEASE, lanes=[(LANE, 3)], count=3, claim_failed=self.claim_failed)
        # After the first turn it is known that the org has no limits.
        self.held, _ = await worker_turn.turn(self.db, first)
        stale = self.held[2]._replace(claim_no=7)
        reports = [Success(job, "1") for job in (self.held[0], self.held[1], stale)]
        self.other = await asyncpg.connect(self.database)
        self.locking = self.other.transaction()
        await self.locking.start()
        await self.other.execute("select from workflow.workflow_run where id = $1 for update", self.held[0].id)
        self.turning = asyncio.create_task(worker_turn.turn(self.db, replace(first, reports=reports)))
        while not await self.waiting():
            assert not self.turning.done()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.other.close()
        await self.db.close()

    def claim_failed(self) -> None:
        self.failed = True

    async def waiting(self) -> list[int]:
        """Return the backend pids of sessions that wait for a lock."""
        rows = await self.conn.fetch(
            "select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
        )
        return [row["pid"] for row in rows]

    async def leased(self) -> int:
        count: int = await self.conn.fetchval("select count(*) from workflow.workflow_run where status = 'leased'")
        return count


async def test_a_turn_records_the_reports_that_its_claim_skipped(database: str, conn: Connection) -> None:
    """One report waits for the lock; another is rejected permanently."""
    async with Session(database, conn) as session:
        assert await session.leased() == 4, "the claim is committed before the turn waits for that report"
        await session.locking.rollback()
        claimed, recorded = await session.turning
        assert recorded == {session.held[0].id, session.held[1].id}
        assert len(claimed) == 2
        assert await session.leased() == 3  # the two and the one of the stale report
        assert not session.failed


async def test_a_connection_lost_after_the_claim_calls_claim_failed(database: str, conn: Connection) -> None:
    async with Session(database, conn) as session:
        [pid] = await session.waiting()
        await conn.execute("select pg_terminate_backend($1)", pid)
        with pytest.raises(Unavailable):
            await session.turning
        assert session.failed
        await session.locking.rollback()
