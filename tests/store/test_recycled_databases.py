"""A recycled database is equivalent to a fresh one."""

from typing import Any

import asyncpg
import pytest

from windlass.testing import Databases
from windlass.testing.kit import KEPT

SUBMIT = "insert into workflow.workflow_run (type, payload) values ('mail.send@v1', '{}') returning seq"


async def test_a_recycled_database_has_no_rows_and_its_sequences_restart(databases: Databases) -> None:
    async with databases.recycled() as first:
        assert await fetch(first, SUBMIT) == 1
    async with databases.recycled() as second:
        assert second == first
        assert await fetch(second, "select count(*) from workflow.workflow_event") == 0
        assert await fetch(second, SUBMIT) == 1


async def test_a_recycled_database_keeps_the_rows_of_the_migrations(databases: Databases) -> None:
    async with databases.fresh() as url:
        fresh = await rows_by_table(url)
    assert fresh
    async with databases.recycled() as first:
        await fetch(first, SUBMIT)
    async with databases.recycled() as second:
        assert second == first
        assert await rows_by_table(second) == fresh


async def test_connections_that_were_left_open_are_terminated(databases: Databases) -> None:
    async with databases.recycled() as first:
        left = await asyncpg.connect(first)
        await left.execute("begin")
        await left.execute(SUBMIT)
    async with databases.recycled() as second:
        assert await fetch(second, SUBMIT) == 1
    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
        await left.fetchval("select 1")


async def test_a_kept_connection_is_terminated_only_if_it_is_in_use(databases: Databases) -> None:
    async with databases.recycled() as first:
        kept = await asyncpg.connect(first, server_settings={"application_name": KEPT})
        await kept.execute(SUBMIT)
    async with databases.recycled() as second:
        assert second == first
        assert await kept.fetchval(SUBMIT) == 1
        await kept.execute("begin")
        await kept.execute(SUBMIT)
    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
        await kept.fetchval("select 1")


@pytest.mark.parametrize(
    "change",
    [
        "create table extra ()",
        "create index on windlass.run (state)",
        "alter table windlass.run set (fillfactor = 50)",
        "create function windlass.extra() returns int return 1",
        "grant select on windlass.run to public",
        "do $$ begin execute format('alter database %I set jit = on', current_database()); end $$",
        "delete from windlass.migration",
        "update windlass.server_key set sealed = sealed",
    ],
)
async def test_a_database_with_a_changed_schema_or_changed_settings_is_not_reused(
    change: str, databases: Databases
) -> None:
    async with databases.recycled() as first:
        await fetch(first, change)
    async with databases.recycled() as second:
        assert second != first


async def fetch(url: str, statement: str) -> Any:
    conn = await asyncpg.connect(url)
    try:
        return await conn.fetchval(statement)
    finally:
        await conn.close()


async def rows_by_table(url: str) -> dict[str, int]:
    """Return the number of rows of each table that is not empty."""
    tables = await fetch(
        url,
        """select array_agg(oid::regclass::text) from pg_class
            where relkind = 'r' and relnamespace in ('windlass'::regnamespace, 'workflow'::regnamespace)""",
    )
    counts = {table: await fetch(url, f"select count(*) from {table}") for table in tables}
    return {table: count for table, count in counts.items() if count}
