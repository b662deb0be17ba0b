"""Migrations: forward only, concurrently or alone, and the resulting schema."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import asyncpg
import pytest
from tools.schema import snapshot

from windlass.errors import WindlassError
from windlass.store.postgres import migrate as migrating
from windlass.store.postgres.migrate import applied, migrate, migrations


@asynccontextmanager
async def empty_database(server: str, *settings: str) -> AsyncIterator[str]:
    """Yield the URL of an empty database without migrations."""
    name = f"windlass_empty_{uuid4().hex[:12]}"
    admin = await asyncpg.connect(server)
    try:
        await admin.execute(f'create database "{name}"')
        for setting in settings:
            await admin.execute(f'alter database "{name}" set {setting}')
        yield urlunsplit(urlsplit(server)._replace(path=f"/{name}"))
    finally:
        await admin.execute(f'drop database if exists "{name}" with (force)')
        await admin.close()


@pytest.fixture
async def empty(server: str) -> AsyncIterator[str]:
    async with empty_database(server) as url:
        yield url


@asynccontextmanager
async def connected(url: str) -> AsyncIterator["asyncpg.Connection[Any]"]:
    conn = await asyncpg.connect(url)
    try:
        yield conn
    finally:
        await conn.close()


async def test_the_migrated_schema_equals_the_snapshot(empty: str) -> None:
    async with connected(empty) as conn:
        await migrate(conn)
        found = await snapshot(conn)
        old_server = conn.get_server_version().major < 16
    written = (files("windlass.store") / "schema.sql").read_text("utf-8")
    if old_server:  # it writes view columns with their table's name, newer ones without
        found, written = (re.sub(r"\b(kind|lane)\.", "", text) for text in (found, written))
    assert found == written, "run `make schema` and read the difference"


async def test_the_snapshot_omits_the_weekly_event_partitions(conn: "asyncpg.Connection[Any]") -> None:
    before = await snapshot(conn)
    await conn.execute("select windlass.make_event_partition('2031-05-05')")
    assert await snapshot(conn) == before
    assert "workflow_event_20" not in before


async def test_a_new_installation_has_the_partitions_and_archives_of_the_coming_weeks(empty: str) -> None:
    async with connected(empty) as conn:
        await migrate(conn)
        rows = await conn.fetch("select relname, count(*) from pg_inherits join pg_class on oid = inhparent group by 1")
    partitions = dict(rows)
    assert (partitions["workflow_event"], partitions["audit"]) == (4, 4)  # with the default partitions
    assert (partitions["workflow_run"], partitions["run"]) == (3, 3)  # the archives


async def test_migrating_twice_changes_nothing(empty: str) -> None:
    async with connected(empty) as conn:
        assert [m.version for m in await migrate(conn)] == [m.version for m in migrations()]
        before = await snapshot(conn)
        assert await migrate(conn) == []
        assert await snapshot(conn) == before
        assert await applied(conn) == [m.version for m in migrations()]


async def test_ten_concurrent_processes_apply_each_migration_once(empty: str) -> None:
    async def start() -> int:
        async with connected(empty) as conn:
            return len(await migrate(conn))

    done = await asyncio.gather(*(start() for _ in range(10)))
    assert sum(done) == len(migrations())  # they may take turns
    async with connected(empty) as conn:
        assert await applied(conn) == [m.version for m in migrations()]


async def test_a_migration_has_a_lock_timeout_and_resets_it(empty: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A migration that waits for a lock behind a long reader would block every later session."""
    async with connected(empty) as conn:
        await migrate(conn)
        probe = migrating.Migration(
            9000, "probe", "create table windlass.probe as select current_setting('lock_timeout') t"
        )
        monkeypatch.setattr(migrating, "migrations", lambda: [*migrations(), probe])
        assert await migrating.migrate(conn) == [probe]
        assert await conn.fetchval("select t from windlass.probe") == "5s"
        assert await conn.fetchval("show lock_timeout") == "0"
        assert await conn.fetchval("select count(*) from pg_locks where locktype = 'advisory'") == 0


async def test_a_failed_migration_is_rolled_back_and_releases_the_lock(
    empty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with connected(empty) as conn:
        await migrate(conn)
        broken = migrating.Migration(9000, "broken", "create table windlass.half (); select 1 / 0")
        monkeypatch.setattr(migrating, "migrations", lambda: [*migrations(), broken])
        with pytest.raises(asyncpg.DivisionByZeroError):
            await migrating.migrate(conn)
        assert await conn.fetchval("select to_regclass('windlass.half')") is None
        assert await applied(conn) == [m.version for m in migrations()]
        assert await conn.fetchval("select count(*) from pg_locks where locktype = 'advisory'") == 0


async def test_an_older_version_refuses_a_database_migrated_by_a_newer_one(conn: "asyncpg.Connection[Any]") -> None:
    """It cannot know what changed: a clear error at the start is better than an obscure one later."""
    await conn.execute("insert into windlass.migration (version, name) values (9999, 'from_the_future')")
    with pytest.raises(WindlassError, match="9999"):
        await migrate(conn)


def test_migrations_have_unique_numbers_and_declare_when_they_may_run() -> None:
    versions = [m.version for m in migrations()]
    assert versions == sorted(set(versions))
    for migration in migrations():
        assert migration.sql.startswith("-- May run before the new code: "), migration.name


async def test_a_migrated_database_uses_utc_regardless_of_the_server_setting(server: str) -> None:
    async with empty_database(server, "timezone = 'America/New_York'") as url:
        async with connected(url) as conn:
            await migrate(conn)
        async with connected(url) as conn:
            assert await conn.fetchval("show timezone") == "UTC"
            assert await conn.fetchval("select '2030-01-01 00:00'::timestamptz = '2030-01-01T00:00:00Z'")


async def test_a_database_of_the_test_kit_uses_utc(database: str, server: str) -> None:
    """Settings of a database are not copied with its template."""
    async with connected(database) as conn:
        assert "set TimeZone=UTC" in await snapshot(conn)


async def test_a_database_with_another_encoding_than_utf8_is_rejected(server: str) -> None:
    name = f"windlass_latin_{uuid4().hex[:12]}"
    async with connected(server) as admin:
        await admin.execute(f"create database \"{name}\" encoding 'LATIN1' locale 'C' template template0")
        try:
            async with connected(urlunsplit(urlsplit(server)._replace(path=f"/{name}"))) as conn:
                with pytest.raises(WindlassError, match="LATIN1"):
                    await migrate(conn)
        finally:
            await admin.execute(f'drop database "{name}" with (force)')
