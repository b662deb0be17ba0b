"""Indexes on large tables are created outside of transactions, during concurrent writes."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from tests.runtime.conftest import eventually
from windlass.store.postgres import migrate
from windlass.store.postgres.migrate import Migration

Connection = Any
SQL = """-- May run before the new code: yes (an index).
-- Outside a transaction
-- For a test; this semicolon ends nothing.

create unique index concurrently if not exists big_n on windlass.big (n);
"""
INDEX = Migration(9999, "big_index", SQL)
VALID = "select indisvalid from pg_index where indexrelid = to_regclass('windlass.big_n')"


@pytest.fixture
async def other(database: str) -> AsyncIterator[Connection]:
    conn = await asyncpg.connect(database)
    yield conn
    await conn.close()


@pytest.fixture(autouse=True)
async def big_table(conn: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    await conn.execute("create table windlass.big (n int)")
    known = [*migrate.migrations(), INDEX]
    monkeypatch.setattr(migrate, "migrations", lambda: known)


async def test_writes_continue_while_a_migration_creates_an_index(
    database: str, conn: Connection, other: Connection
) -> None:
    migrating = await asyncpg.connect(database)
    slow = other.transaction()
    await slow.start()
    await other.execute("insert into windlass.big values (1)")
    task = asyncio.create_task(migrate.migrate(migrating))
    waits = "select exists (select from pg_stat_activity where pid = $1 and wait_event_type = 'Lock')"
    await eventually(lambda: conn.fetchval(waits, migrating.get_server_pid()))
    await conn.execute("set lock_timeout = '5s'")
    await conn.execute("insert into windlass.big values (2)")
    assert not task.done()
    await slow.commit()
    assert await task == [INDEX]
    assert await conn.fetchval(VALID) is True
    await migrating.close()


async def test_an_invalid_index_is_created_again(conn: Connection) -> None:
    await conn.execute("insert into windlass.big values (1), (1)")
    with pytest.raises(asyncpg.UniqueViolationError):
        await migrate.migrate(conn)
    assert await conn.fetchval(VALID) is False
    assert 9999 not in await migrate.applied(conn)
    await conn.execute("truncate windlass.big")
    assert await migrate.migrate(conn) == [INDEX]
    assert await conn.fetchval(VALID) is True


async def test_of_two_concurrent_processes_one_creates_the_index(conn: Connection, other: Connection) -> None:
    applied = await asyncio.gather(migrate.migrate(conn), migrate.migrate(other))
    assert sorted(applied, key=len) == [[], [INDEX]]
    assert await conn.fetchval(VALID) is True
