"""Numbered, forward-only migrations, applied under an advisory lock: several processes may start at once.

A migration is one transaction. One that makes an index on a table that may be large must not be: writers would wait
until it is made, which may take longer than a lease. Its file has the line `-- Outside a transaction`, and its
statements run one by one, such as `create index concurrently if not exists ...`. If it is interrupted it is done again
from its beginning, so each statement must be harmless the second time. An index that was left half-made (invalid) is
dropped first.
"""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.resources import files

from windlass.errors import Unavailable
from windlass.store.postgres.pool import Connection

LOCK = 0x57494E44  # "WIND"
LEDGER = """
create schema if not exists windlass;
create table if not exists windlass.migration (
  version int primary key, name text not null, applied_at timestamptz not null default now(),
  early boolean not null default false)"""  # early: it may run before the code that needs it, so older code may go on
EARLY = "-- May run before the new code: yes"
CONCURRENT = "-- Outside a transaction"
CONCURRENT_LOCK = LOCK + 1
_POLL_SECONDS = 0.2
_INDEX = re.compile(
    r"create\s+(?:unique\s+)?index\s+concurrently\s+(?:if\s+not\s+exists\s+)?(\w+)\s+on\s+(\w+)\.", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Migration:
    version: int
    name: str
    sql: str

    @property
    def early(self) -> bool:
        return self.sql.startswith(EARLY)

    @property
    def concurrent(self) -> bool:
        """Whether it runs outside a transaction."""
        return CONCURRENT in self.sql.splitlines()

    @property
    def statements(self) -> list[str]:
        lines = [line for line in self.sql.splitlines() if not line.startswith("--")]
        return [text.strip() for text in re.split(r";\s*$", "\n".join(lines), flags=re.MULTILINE) if text.strip()]


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
    """Bring the database up to date; returns what was applied."""
    await _check_server(conn)
    done = await applied(conn)
    if set(done) >= {migration.version for migration in migrations()}:
        await _check_newer(conn)
        return []
    return [m for m in migrations() if await (_apply_apart(conn, m) if m.concurrent else _apply(conn, m))]


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
        await _record(conn, migration)
    return True


async def _apply_apart(conn: Connection, migration: Migration) -> bool:
    """The same outside a transaction."""
    async with _alone(conn):
        if migration.version in await applied(conn):
            return False
        for statement in migration.statements:
            if (index := _INDEX.match(statement)) is not None:
                await _drop_invalid(conn, schema=index[2], name=index[1])
            await conn.execute(statement)
        await _record(conn, migration)
    return True


@asynccontextmanager
async def _alone(conn: Connection) -> AsyncIterator[None]:
    """Hold a lock of the session. It is asked for again and again: whoever waits for a lock inside a statement has a
    snapshot, and an index that is made concurrently waits for all older snapshots to end."""
    while not await conn.fetchval("select pg_try_advisory_lock($1)", CONCURRENT_LOCK):  # noqa: ASYNC110 - another process holds it
        await asyncio.sleep(_POLL_SECONDS)
    try:
        yield
    finally:
        await conn.execute("select pg_advisory_unlock($1)", CONCURRENT_LOCK)


async def _drop_invalid(conn: Connection, *, schema: str, name: str) -> None:
    """Remove what an interrupted attempt left: `if not exists` would take it for the index."""
    invalid = await conn.fetchval(
        "select exists (select from pg_index where indexrelid = to_regclass($1) and not indisvalid)", f"{schema}.{name}"
    )
    if invalid:
        await conn.execute(f"drop index concurrently {schema}.{name}")


async def _record(conn: Connection, migration: Migration) -> None:
    await conn.execute(
        "insert into windlass.migration (version, name, early) values ($1, $2, $3)",
        migration.version,
        migration.name,
        migration.early,
    )


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
