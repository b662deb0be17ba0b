"""The test kit: an embedded Postgres, a migrated database for each test, a clock that tests can move, and functions
that run a worker until no job is due, or until one job has ended."""

import asyncio
import os
import shutil
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar
from urllib.parse import urlsplit, urlunsplit
from uuid import UUID, uuid4

import asyncpg

from windlass import settings
from windlass.app import Windlass
from windlass.core.jobs.job import TERMINAL
from windlass.embedded.server import Embedded, EmbeddedOptions
from windlass.engine import messages, upkeep
from windlass.engine.database import Database, prepare
from windlass.engine.jobs import control as jobs
from windlass.runtime.loops.loop import until
from windlass.runtime.worker.worker import WorkerOptions
from windlass.store.jobs import FAR, Job
from windlass.store.orgs import orgs
from windlass.store.postgres.pool import DatabaseOptions

T = TypeVar("T")
MOST_WAITS = 10_000  # of a job that is run to its end

# A change to any of these rows gives them a new xmin: the sums differ if a test has changed the schema, the grants or
# the settings of its database, or the rows that migrations insert.
CATALOG = """
select array[
  (select (count(*), sum(xmin::text::bigint))::text from pg_class where oid >= 16384),
  (select (count(*), sum(xmin::text::bigint))::text from pg_attribute where attrelid >= 16384),
  (select (count(*), sum(xmin::text::bigint))::text from pg_constraint where oid >= 16384),
  (select (count(*), sum(xmin::text::bigint))::text from pg_proc where oid >= 16384),
  (select (count(*), sum(xmin::text::bigint))::text from pg_trigger),
  (select (count(*), sum(xmin::text::bigint))::text from pg_namespace),
  (select string_agg(setconfig::text, ' ' order by setrole) from pg_db_role_setting
    where setdatabase = (select oid from pg_database where datname = current_database())),
  (select (count(*), sum(xmin::text::bigint))::text from windlass.migration),
  (select (count(*), sum(xmin::text::bigint))::text from windlass.server_key),
  (select (count(*), sum(xmin::text::bigint))::text from windlass.plan),
  (select (count(*), sum(xmin::text::bigint))::text from windlass.org)
]::text
"""
KEPT = "windlass_kept"  # application_name of connections kept for reuse: EMPTY does not terminate the idle ones
# Deletes instead of truncating, which would change the catalog and create files. Replica mode skips the triggers.
EMPTY = """
do $$
declare
  relation regclass;
begin
  perform pg_terminate_backend(pid, 5000) from pg_stat_activity
   where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()
     and not (application_name = 'windlass_kept' and state = 'idle');
  set local session_replication_role = replica;
  for relation in
    select oid from pg_class
     where relkind = 'r' and relnamespace in ('windlass'::regnamespace, 'workflow'::regnamespace)
       and oid not in ('windlass.migration'::regclass, 'windlass.server_key'::regclass, 'windlass.plan'::regclass,
                       'windlass.org'::regclass)  -- rows that migrations insert
       and pg_relation_size(oid) > 0
  loop
    execute format('delete from %s', relation);
  end loop;
  delete from windlass.org where name <> 'default';
  delete from windlass.server_key where name <> 'hook';
  delete from windlass.plan where name not in ('unlimited', 'free', 'pro');
  perform setval(seqrelid, seqstart, false) from pg_sequence where pg_sequence_last_value(seqrelid) is not null;
end $$
"""
SIZE = "select sum(pg_relation_size(oid)) from pg_class where relkind = 'r' and oid >= 16384"
SETTINGS = {"max_connections": "200", "max_wal_size": "256MB"}
MEMORY = Path("/dev/shm")  # noqa: S108  # the folder inside has a random name and belongs to this user
ROOM = 2 * 1024**3  # bytes
LARGEST_RECYCLED = 4 * 1024 * 1024  # bytes; dead rows of a larger database would slow down later tests


@contextmanager
def embedded_server() -> Iterator[str]:
    """Start a server in a temporary folder and yield its URL; stop and remove it at the end.

    It runs without fsync, which would take most of the time, and in memory if there is space: its data is temporary.
    """
    with TemporaryDirectory(prefix="windlass-test-", dir=_memory(), ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)  # if run as root, the server runs as another user, who must have access
        options = EmbeddedOptions(home=Path(folder), settings=SETTINGS, durable=False)
        with Embedded.start(options) as server:
            yield server.url


def _memory() -> Path | None:
    """Return a folder in memory with space for a server; None if there is none. A database has a thousand files, so
    copying one in memory is ten times as fast."""
    try:
        return MEMORY if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= ROOM else None
    except OSError:
        return None


class Databases:
    """Creates databases for tests, copied from a migrated template, which is fast.

    `server_url` is the URL of any database on a server where databases may be created. The connections that create and
    empty databases are kept, because a new one takes longer than its statements. They belong to an event loop in a
    separate thread, because each test may have its own loop. If WINDLASS_MASTER_KEY is set, the databases are sealed
    with it.
    """

    def __init__(self, server_url: str) -> None:
        self._server_url = server_url
        self._template: str | None = None
        self._strategy = "wal_log"
        self._catalog: str | None = None  # of a fresh database
        self._making, self._administering = asyncio.Lock(), asyncio.Lock()
        self._emptied: list[str] = []  # names of databases that were used and emptied
        self._connections: dict[str, asyncpg.Connection[asyncpg.Record]] = {}  # by URL
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="windlass-databases", daemon=True)
        self._thread.start()

    @asynccontextmanager
    async def fresh(self) -> AsyncIterator[str]:
        """Create an empty, migrated database and yield its URL; drop it at the end."""
        name = await self._in_thread(self._create())
        try:
            yield self._url_of(name)
        finally:
            await self._in_thread(self._drop(name))

    @asynccontextmanager
    async def recycled(self) -> AsyncIterator[str]:
        """Yield the URL of an empty, migrated database that may have been used before, which is ten times as fast.

        At the end its rows are deleted and its sequences reset for the next one. A database whose schema, grants or
        settings were changed, or that has grown large, is dropped instead.
        """
        name = self._emptied.pop() if self._emptied else await self._in_thread(self._create())
        try:
            yield self._url_of(name)
        finally:
            if await self._in_thread(self._empty(name)):
                self._emptied.append(name)
            else:
                await self._in_thread(self._drop(name))

    async def close(self) -> None:
        await self._in_thread(self._remove_all())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _in_thread(self, work: Coroutine[Any, Any, T]) -> T:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    async def _create(self) -> str:
        template = await self._ready_template()
        name = f"windlass_test_{uuid4().hex[:12]}"
        await self._administer(f'create database "{name}" template "{template}" strategy {self._strategy}')
        await self._administer(f"alter database \"{name}\" set timezone = 'UTC'")  # settings are not copied
        if self._catalog is None:
            self._catalog = await (await self._connect(self._url_of(name))).fetchval(CATALOG)
            await self._disconnect(name)  # tests may count connections
        return name

    async def _drop(self, name: str) -> None:
        await self._disconnect(name)
        await self._administer(f'drop database if exists "{name}" with (force)')

    async def _empty(self, name: str) -> bool:
        """Delete all rows; return False if the database differs from a fresh one in anything else."""
        try:
            conn = await self._connect(self._url_of(name))
            if await conn.fetchval(SIZE) > LARGEST_RECYCLED:
                return False
            await conn.execute(EMPTY)
            catalog: str = await conn.fetchval(CATALOG)
            return catalog == self._catalog
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):  # dropped, renamed or closed by the test
            return False

    async def _ready_template(self) -> str:
        async with self._making:
            if self._template is None:
                name = f"windlass_template_{uuid4().hex[:12]}"
                await self._administer(f'create database "{name}"')
                await prepare(DatabaseOptions(url=self._url_of(name)), lambda _: settings.read().master_keys)
                is_temporary = await self._administer("show fsync") == "off"
                if is_temporary:
                    # The first org creates the role: a database in which a test granted rights is not recycled.
                    await orgs.create_api_role(await self._connect(self._url_of(name)))
                    await self._disconnect(name)
                    self._strategy = "file_copy"  # takes two checkpoints, which are cheap without fsync
                self._template = name
            return self._template

    async def _administer(self, statement: str) -> object:
        async with self._administering:
            return await (await self._connect(self._server_url)).fetchval(statement)

    async def _connect(self, url: str) -> "asyncpg.Connection[asyncpg.Record]":
        """Return the connection that is kept for a database; open it if there is none or if it was lost."""
        conn = self._connections.get(url)
        if conn is None or conn.is_closed():
            conn = self._connections[url] = await asyncpg.connect(url)
        return conn

    async def _disconnect(self, name: str) -> None:
        if (conn := self._connections.pop(self._url_of(name), None)) is not None:
            await conn.close()

    async def _remove_all(self) -> None:
        for name in [*self._emptied, *([self._template] if self._template is not None else [])]:
            await self._drop(name)
        for conn in self._connections.values():
            await conn.close()

    def _url_of(self, name: str) -> str:
        return urlunsplit(urlsplit(self._server_url)._replace(path=f"/{name}"))


class Clock:
    """A clock that tests can move: pass `now` to DatabaseOptions, and windlass.now() follows it.

    It does not advance until moved. Before the first move the database uses its own time.
    """

    def __init__(self) -> None:
        self._now: datetime | None = None

    def now(self) -> datetime | None:
        return self._now

    def set(self, moment: datetime) -> None:
        self._now = moment

    def move(self, by: timedelta) -> None:
        self._now = (self._now or datetime.now(UTC)) + by


async def run_until_idle(app: Windlass, options: WorkerOptions | None = None, *, timeout: float = 30) -> None:
    """Deliver messages and run all due jobs of the app's types, then stop. Jobs that are due later are left waiting."""
    db = await app.open()
    stop = asyncio.Event()
    options = replace(options or WorkerOptions(), poll=timedelta(milliseconds=20))
    working = asyncio.create_task(app.work(options, stop=stop))
    try:
        async with asyncio.timeout(timeout):
            while await messages.are_pending(db) or any(
                queue in options.queues and app.handlers.find(type_) for queue, type_ in await jobs.live(db)
            ):
                await until(stop, timedelta(milliseconds=10))
    finally:
        stop.set()
        await working


async def run_to_end(
    app: Windlass, job: UUID, clock: Clock, options: WorkerOptions | None = None, *, timeout: float = 30
) -> Job:
    """Run a job until it has ended and return it. Whenever it waits, for a sleep, a timeout or a retry, the clock moves
    to the end of that wait.

    `app` must have been created with `clock=clock.now`. Return the job as it is if it waits for something that only
    the test can do, such as a message without a timeout.
    """
    db = await app.open()
    for _ in range(MOST_WAITS):
        await upkeep.become_due(db.database)
        await _receive(db.database)
        await run_until_idle(app, options, timeout=timeout)
        row = await jobs.get(db, job)
        if row.status in TERMINAL:
            return row
        if row.run_at != FAR:
            clock.set(max(row.run_at, await db.now()))
        elif not await _receive(db.database):
            return row
    raise AssertionError(f"job {job} has waited {MOST_WAITS} times and has not ended")


async def _receive(db: Database) -> int:
    """Deliver messages to the handlers that wait for them; return the number of jobs that became due."""
    while await messages.route(db):
        pass
    return await messages.wake_handlers(db)
