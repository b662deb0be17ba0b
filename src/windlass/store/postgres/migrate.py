"""Prepares a database: applies migrations, and renumbers event trails that come from a dump of another cluster.

Migrations are numbered and forward-only, applied under an advisory lock, because several processes may start at once.

A migration is one transaction, except if it creates an index on a table that may be large: writers would be blocked
until the index is built, which may take longer than a lease. Such a file has the line `-- Outside a transaction`, and
its statements run one by one, for example `create index concurrently if not exists ...`. After an interruption it
starts again from the beginning, so each statement must be idempotent. An invalid index left by an interrupted build is
dropped first.
"""

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.resources import files

from windlass.core.events.cursor import LAST, Cursor, Snapshot
from windlass.errors import Invalid, Unavailable
from windlass.store import events
from windlass.store.postgres.pool import Connection
from windlass.store.postgres.queries import column, statements

LOCK = 0x57494E44  # "WIND"
LEDGER = """
create schema if not exists windlass;
create table if not exists windlass.migration (
  version int primary key, name text not null, applied_at timestamptz not null default now(),
  early boolean not null default false)"""  # early: compatible with older code, which may keep running
EARLY = "-- May run before the new code: yes"
CONCURRENT = "-- Outside a transaction"
CONCURRENT_LOCK = LOCK + 1
BEGIN = "begin isolation level read committed"
Connect = Callable[[], Awaitable[Connection]]
_POLL_SECONDS = 0.2
_ALL_DELIVERED = Cursor(Snapshot(LAST))  # without a readable cursor all restored events count as delivered
_INDEX = re.compile(
    r"create\s+(?:unique\s+)?index\s+concurrently\s+(?:if\s+not\s+exists\s+)?(\w+)\s+on\s+(\w+)\.", re.IGNORECASE
)
_SQL = statements("migrate")
_log = logging.getLogger("windlass.database")


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
    entries = [(re.fullmatch(r"(\d{4})_(\w+)\.sql", entry.name), entry) for entry in folder.iterdir()]
    return sorted(
        (Migration(int(m[1]), m[2], entry.read_text("utf-8")) for m, entry in entries if m), key=lambda m: m.version
    )


async def applied(conn: Connection) -> list[int]:
    if not await conn.fetchval("select to_regclass('windlass.migration') is not null"):
        return []
    return [row[0] for row in await conn.fetch("select version from windlass.migration order by version")]


async def migrate(conn: Connection, connect: Connect | None = None) -> list[Migration]:
    """Apply the missing migrations; return those that this call applied.

    `connect` opens another connection like `conn`: behind a transaction pooler it is needed.
    """
    await _check_server(conn)
    done = await applied(conn)
    if set(done) >= {migration.version for migration in migrations()}:
        await _check_newer(conn)
        return []
    return [m for m in migrations() if await (_apply_apart(conn, m, connect) if m.concurrent else _apply(conn, m))]


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


async def _apply_apart(conn: Connection, migration: Migration, connect: Connect | None) -> bool:
    """Apply a migration outside a transaction; return False if another process has already applied it."""
    async with _alone(conn, connect):
        if migration.version in await applied(conn):
            return False
        for statement in migration.statements:
            if (index := _INDEX.match(statement)) is not None:
                await _drop_invalid(conn, schema=index[2], name=index[1])
            await conn.execute(statement)
        await _record(conn, migration)
    return True


@asynccontextmanager
async def _alone(conn: Connection, connect: Connect | None) -> AsyncIterator[None]:
    """Hold an advisory lock, acquired by polling.

    A session that blocks in `pg_advisory_lock` holds a snapshot, and `create index concurrently` waits until all older
    snapshots are gone: the lock's holder and the waiting session would block each other.

    The lock belongs to the transaction of another connection: behind a transaction pooler the lock of a session would
    stay with a server connection that later statements may not use. Between its statements that transaction holds no
    snapshot. Without `connect` the lock belongs to the session of `conn`.
    """
    if connect is None:
        while not await conn.fetchval("select pg_try_advisory_lock($1)", CONCURRENT_LOCK):  # noqa: ASYNC110 - another process holds it
            await asyncio.sleep(_POLL_SECONDS)
        try:
            yield
        finally:
            await conn.execute("select pg_advisory_unlock($1)", CONCURRENT_LOCK)
        return
    holder = await connect()
    try:
        await holder.execute(BEGIN)
        while not await holder.fetchval("select pg_try_advisory_xact_lock($1)", CONCURRENT_LOCK):
            await holder.execute("rollback")  # no snapshot while it waits
            await asyncio.sleep(_POLL_SECONDS)
            await holder.execute(BEGIN)
        await holder.execute("select 1")  # replaces the portal of the query above, which would keep a snapshot
        yield
    finally:
        await holder.close()


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


async def renumber_restored(conn: Connection) -> bool:
    """Renumber event trails that were restored from a dump of another cluster; return whether they were.

    Events are ordered by the ids of the transactions that wrote them. A dump keeps those ids, but the new cluster
    starts its own counter: the restored events would sort after all new ones until the counter has caught up, and would
    then be read as new. So they are renumbered when a process starts on such a database: events that were already
    delivered to subscribers become old, the others become new. This is one transaction under the migration lock; it
    rewrites every event.
    """
    if not await conn.fetchval(_SQL["is_foreign"]):
        return False
    async with conn.transaction():
        await conn.execute("select pg_advisory_xact_lock($1)", LOCK)
        if not await conn.fetchval(_SQL["is_foreign"]):
            return False  # another process has done it
        # Before this transaction gets an id, so that its writes come after this position.
        here = await events.here(conn)
        place = await conn.fetchval(_SQL["bookmark"])
        delivered = events.snapshot_arguments(_delivered(place).base)
        await conn.execute(_SQL["forget_usage_bookmark"])
        await conn.execute(_SQL["renumber_checkpoints"])
        for trail in ("events", "job_events", "cron_events"):
            await conn.execute(_SQL[f"renumber_{trail}"], *delivered)
        await conn.execute(_SQL["renumber_lines"])
        await conn.execute(_SQL["forget_takers"])
        if place is not None:
            await conn.execute(_SQL["move_bookmark"], str(Cursor(here)))
    _log.warning("the data was restored from another cluster: its event trails were renumbered")
    return True


def _delivered(place: str | None) -> Cursor:
    try:
        return _ALL_DELIVERED if place is None else Cursor.parse(place)
    except Invalid:
        return _ALL_DELIVERED


async def empty(conn: Connection) -> None:
    """Truncate all tables but those that `tables` in migrate.sql keeps, and delete published workflows. For tests."""
    names = column(await conn.fetch(_SQL["tables"]))
    await conn.execute(f"truncate {', '.join(names)}")  # names come quoted from the catalogue
    await conn.execute(_SQL["unpublish"])
