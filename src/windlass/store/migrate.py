"""Numbered, forward-only migrations, applied under an advisory lock: several processes may start at once."""

import re
from dataclasses import dataclass
from importlib.resources import files

from windlass.errors import Unavailable
from windlass.store.pool import Connection

LOCK = 0x57494E44  # "WIND"
LEDGER = """
create schema if not exists windlass;
create table if not exists windlass.migration (
  version int primary key, name text not null, applied_at timestamptz not null default now())"""


@dataclass(frozen=True, slots=True)
class Migration:
    version: int
    name: str
    sql: str


def migrations() -> list[Migration]:
    folder = files("windlass.store") / "migrations"
    found = [(re.fullmatch(r"(\d{4})_(\w+)\.sql", entry.name), entry) for entry in folder.iterdir()]
    return sorted(
        (Migration(int(m[1]), m[2], entry.read_text("utf-8")) for m, entry in found if m), key=lambda m: m.version
    )


async def applied(conn: Connection) -> list[int]:
    if not await conn.fetchval("select to_regclass('windlass.migration') is not null"):
        return []
    return [row[0] for row in await conn.fetch("select version from windlass.migration order by version")]


async def migrate(conn: Connection) -> list[Migration]:
    """Bring the database up to date; returns what was applied. Each migration is one transaction."""
    await _check_server(conn)
    if await applied(conn) == [m.version for m in migrations()]:
        return []
    done: list[Migration] = []
    await conn.execute("select pg_advisory_lock($1)", LOCK)
    try:
        await conn.execute("set lock_timeout = '5s'")
        await conn.execute(LEDGER)
        known = set(await applied(conn))
        for migration in migrations():
            if migration.version not in known:
                await _apply(conn, migration)
                done.append(migration)
    finally:
        await conn.execute("reset lock_timeout")
        await conn.execute("select pg_advisory_unlock($1)", LOCK)
    return done


async def _apply(conn: Connection, migration: Migration) -> None:
    async with conn.transaction():
        await conn.execute(migration.sql)
        await conn.execute(
            "insert into windlass.migration (version, name) values ($1, $2)", migration.version, migration.name
        )


async def _check_server(conn: Connection) -> None:
    version = conn.get_server_version()
    if version.major < 15:
        raise Unavailable(f"this server is Postgres {version.major}: Windlass needs 15 or later")
    encoding = await conn.fetchval("show server_encoding")
    if encoding != "UTF8":
        raise Unavailable(f"this database is encoded in {encoding}: create one with encoding 'UTF8'")
