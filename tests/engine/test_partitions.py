"""Weekly partitions of the trail are created and dropped during reads and writes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from windlass.engine import upkeep
from windlass.engine.database import Tenant
from windlass.runtime.loops.upkeep import LeaseRecovery, Upkeep

pytestmark = pytest.mark.usefixtures("this_week")

Connection = Any
MONTH = timedelta(days=30)
WEEKS = """select relname from pg_inherits join pg_class on oid = inhrelid
 where inhparent = 'workflow.workflow_event'::regclass and relname ~ '_[0-9]{8}$' order by 1"""
WRITE = "insert into workflow.workflow_event (workflow_id, event_type) values (gen_random_uuid(), 'heartbeat')"


@pytest.fixture
async def other(database: str) -> AsyncIterator[Connection]:
    conn = await asyncpg.connect(database)
    yield conn
    await conn.close()


async def weeks(conn: Connection) -> list[str]:
    return [row[0] for row in await conn.fetch(WEEKS)]


@asynccontextmanager
async def writing(conn: Connection) -> AsyncIterator[None]:
    """Write events continuously; a writer that waits for a lock for longer than a second gets an error."""
    over = asyncio.Event()

    async def write() -> None:
        await conn.execute("set lock_timeout = '1s'")
        while not over.is_set():
            await conn.execute(WRITE)

    task = asyncio.create_task(write())
    try:
        yield
    finally:
        over.set()
        await task


async def test_a_partition_that_a_reader_keeps_from_being_dropped_does_not_block_writers(
    db: Tenant, conn: Connection, other: Connection
) -> None:
    old = await conn.fetchval("select windlass.make_event_partition(windlass.now() - interval '100 days')")
    reading = conn.transaction(isolation="repeatable_read")
    await reading.start()
    await conn.execute("select 1 from workflow.workflow_event limit 1")  # as pg_dump does
    async with writing(other):
        recovery = LeaseRecovery(db, "me")
        loop = Upkeep(db, recovery)
        for _ in range(3):
            await recovery.tick()
            await loop.tick()
        await upkeep.tend(db, age=MONTH)
    assert old in await weeks(other)
    await reading.rollback()
    await upkeep.tend(db, age=MONTH)
    assert old not in await weeks(other)


async def test_a_partition_is_created_while_a_transaction_with_writes_to_the_trail_is_open(
    db: Tenant, conn: Connection, other: Connection
) -> None:
    before = await weeks(conn)
    await conn.execute(f"drop table workflow.{before[-1]}")
    async with conn.transaction():
        await conn.execute(WRITE)
        await upkeep.tend(db, age=MONTH)
        assert await weeks(other) == before
    checks = "select count(*) from pg_constraint where conrelid = $1::text::regclass and contype = 'c'"
    counts = {await conn.fetchval(checks, f"workflow.{name}") for name in await weeks(conn)}
    assert len(counts) == 1  # the temporary constraint that makes the attachment fast is dropped


async def test_events_in_the_default_partition_move_to_the_partition_of_their_week(
    db: Tenant, conn: Connection
) -> None:
    week = (await weeks(conn))[0]
    await conn.execute(f"drop table workflow.{week}")
    await conn.execute(WRITE)
    assert await conn.fetchval("select count(*) from workflow.workflow_event_default") > 0
    await upkeep.tend(db, age=MONTH)
    assert await conn.fetchval("select count(*) from workflow.workflow_event_default") == 0
    assert await conn.fetchval(f"select count(*) from workflow.{week}") > 0
