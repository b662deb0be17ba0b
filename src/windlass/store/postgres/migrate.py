"""Numbered, forward-only migrations, applied under an advisory lock, because several processes may start at once.

A migration is one transaction, except if it creates an index on a table that may be large: writers would be blocked
until the index is built, which may take longer than a lease. Such a file has the line `-- Outside a transaction`, and
its statements run one by one, for example `create index concurrently if not exists ...`. After an interruption it
starts again from the beginning, so each statement must be idempotent. An invalid index left by an interrupted build is
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
  early boolean not null default false)"""  # early: compatible with older code, which may keep running
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
        """Whether the migration runs outside a transaction."""
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
    """Apply the missing migrations; return those that this call applied."""
    await _check_server(conn)
    done = await applied(conn)
    if set(done) >= {migration.version for migration in migrations()}:
        await _check_newer(conn)
        return []
    return [m for m in migrations() if await (_apply_apart(conn, m) if m.concurrent else _apply(conn, m))]


async def _apply(conn: Connection, migration: Migration) -> bool:
    """Apply a migration in a transaction; return False if another process has already applied it.

    The advisory lock belongs to the transaction: behind a transaction pooler a session lock would stay with a server
    connection that later statements may not use.
    """
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
    """Apply a migration outside a transaction; return False if another process has already applied it."""
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
    """Hold a session-level advisory lock, acquired by polling.

    A session that blocks in `pg_advisory_lock` holds a snapshot, and `create index concurrently` waits until all older
    snapshots are gone: the lock's holder and the waiting session would block each other.
    """
    while not await conn.fetchval("select pg_try_advisory_lock($1)", CONCURRENT_LOCK):  # noqa: ASYNC110 - another process holds it
        await asyncio.sleep(_POLL_SECONDS)
    try:
        yield
    finally:
        await conn.execute("select pg_advisory_unlock($1)", CONCURRENT_LOCK)


async def _drop_invalid(conn: Connection, *, schema: str, name: str) -> None:
    """Drop an invalid index left by an interrupted attempt: `if not exists` would accept it."""
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
    """Raise if a newer version has migrated the database, unless all unknown migrations are marked as early."""
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
