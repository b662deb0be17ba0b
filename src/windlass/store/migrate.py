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
  version int primary key, name text not null, applied_at timestamptz not null default now(),
  early boolean not null default false)"""  # early: it may run before the code that needs it, so older code may go on
EARLY = "-- May run before the new code: yes"


@dataclass(frozen=True, slots=True)
class Migration:
    version: int
    name: str
    sql: str

    @property
    def early(self) -> bool:
        return self.sql.startswith(EARLY)


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
    done = await applied(conn)
    if set(done) >= {migration.version for migration in migrations()}:
        await _check_newer(conn)
        return []
    return [migration for migration in migrations() if await _apply(conn, migration)]


async def _apply(conn: Connection, migration: Migration) -> bool:
    """False if another process was first. The lock ends with the transaction: behind a transaction pooler a session's
    lock would be taken in one connection, and stay there."""
    async with conn.transaction():
        await conn.execute("select pg_advisory_xact_lock($1)", LOCK)
        await conn.execute("set local lock_timeout = '5s'")
        await conn.execute(LEDGER)
        if migration.version in await applied(conn):
            return False
        await conn.execute(migration.sql)
        await conn.execute(
            "insert into windlass.migration (version, name, early) values ($1, $2, $3)",
            migration.version,
            migration.name,
            migration.early,
        )
    return True


async def _check_newer(conn: Connection) -> None:
    """A database that went on without us: fine if every step beyond ours said that older code may stay."""
    known = [migration.version for migration in migrations()]
    strange = await conn.fetchval(
        "select min(version) from windlass.migration where version <> all($1) and not early", known
    )
    if strange is not None:
        raise Unavailable(f"a newer Windlass has migrated this database (to {strange:04}): upgrade this program")


async def _check_server(conn: Connection) -> None:
    version = conn.get_server_version()
    if version.major < 15:
        raise Unavailable(f"this server is Postgres {version.major}: Windlass needs 15 or later")
    encoding = await conn.fetchval("show server_encoding")
    if encoding != "UTF8":
        raise Unavailable(f"this database is encoded in {encoding}: create one with encoding 'UTF8'")
