"""The open database that every use case takes: the pool, the notifier, the caches and the public URL.

A `Database` is not bound to an org: loops and workers use it. A `Tenant` is a database that acts for a caller of one
org: a use case that reads or writes the data of an org takes a `Tenant`, so that it cannot be called without an org.
"""

import contextlib
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from windlass.core import orgs
from windlass.core.ids import RANDOM_BYTES, ascending
from windlass.core.orgs import ALL_SCOPES, DEFAULT_ORG, Scope
from windlass.effects.objects import Objects, open_objects
from windlass.effects.schema_validator import SchemaValidator
from windlass.effects.vault import MasterKeys
from windlass.engine.allowances import Allowances
from windlass.engine.definitions import Definitions, StepTemplates
from windlass.engine.known_types import KnownTypes
from windlass.engine.vault import KeySource, Vault, seal_plain
from windlass.errors import Conflict
from windlass.store import hooks, runs
from windlass.store.hooks import RecordedUrl
from windlass.store.orgs import orgs as org_store
from windlass.store.orgs import secrets
from windlass.store.postgres import migrate
from windlass.store.postgres.notify import Listener, Notifier
from windlass.store.postgres.pool import (
    Connection,
    DatabaseOptions,
    Pool,
    close_pool,
    open_connection,
    open_pool,
    search,
    statement,
    transaction,
)
from windlass.store.postgres.queries import uuids
from windlass.store.workflows import Live

ACTOR = "windlass"  # the name of the engine, and of trusted code, in the event trail
TREE_LIMIT = 10_000  # live runs below a root run
MOST_COUNTED = 10_000  # rows that a listing counts: beyond it the exact number does not matter
DEFAULT_URL = "http://127.0.0.1:8080"  # where `windlass up` listens by default
RECORD_URL_EVERY = timedelta(minutes=1)  # how often a server records its URL again
URL_LIVE_WITHIN = timedelta(minutes=10)
URL_CACHED_SECONDS = 10.0


class LiveVersions:
    """The last known live versions of workflows, by org and name. A full cache is cleared."""

    def __init__(self, room: int = 10_000) -> None:
        self._room = room
        self._known: dict[tuple[str, str], Live] = {}

    def get(self, org: str, name: str) -> Live | None:
        return self._known.get((org, name))

    def keep(self, org: str, versions: Iterable[Live]) -> None:
        for live in versions:
            if len(self._known) >= self._room:
                self._known.clear()
            self._known[org, live.name] = live

    def drop(self, org: str, name: str) -> None:
        self._known.pop((org, name), None)


class PublicUrl:
    """The URL that callbacks and webhooks are sent to. Any process may put it into a request; only servers serve it.

    A process uses its own WINDLASS_PUBLIC_URL if it has one. Otherwise it uses what a server recorded in the database:
    preferably a configured URL, because the address that a server listens at is rarely reachable from elsewhere.
    """

    def __init__(self, configured: str | None) -> None:
        self.configured = configured
        self.listening: str | None = None  # where this process itself serves
        self._recorded: RecordedUrl | None = None
        self._read_at = float("-inf")

    async def get(self, conn: Connection) -> str:
        if self.configured is not None:
            return self.configured
        if time.monotonic() - self._read_at > URL_CACHED_SECONDS:
            urls = await hooks.list_urls(conn, live_within=URL_LIVE_WITHIN)
            self._recorded, self._read_at = urls[0] if urls else None, time.monotonic()
        if self._recorded is not None and (self._recorded.configured or self.listening is None):
            return self._recorded.url
        return self.listening or DEFAULT_URL

    async def record(self, conn: Connection) -> None:
        """Record the URL of this process for the other processes."""
        if (url := self.configured or self.listening) is not None:
            await hooks.record_url(conn, url, configured=self.configured is not None)
            self._read_at = float("-inf")


class Database:
    """An open database. Use cases take one, or a `Tenant`, as their first argument."""

    def __init__(
        self,
        pool: Pool,
        notifier: Notifier,
        options: DatabaseOptions,
        *,
        public_url: str | None = None,
        tree_limit: int = TREE_LIMIT,
        keys: MasterKeys | None = None,
        objects_url: str | None = None,
    ) -> None:
        self.pool = pool
        self._options = options
        self._pooler = options.pooler
        self.definitions = Definitions()
        self.step_templates = StepTemplates()
        self.live_versions = LiveVersions()  # may be outdated: verify before use
        self.shapes = LiveVersions()  # of compositions: they never change
        self.allowances = Allowances()
        self.schema_validator = SchemaValidator()
        self.known_types = KnownTypes()
        self.public_url = PublicUrl(public_url)
        self.tree_limit = tree_limit
        self.vault = Vault(keys)
        self.objects_url = objects_url
        self._notifier = notifier
        notifier.subscribe(self.allowances.woken)
        notifier.subscribe(self.known_types.woken)

    @classmethod
    async def open(
        cls,
        options: DatabaseOptions,
        *,
        public_url: str | None = None,
        tree_limit: int = TREE_LIMIT,
        keys: MasterKeys | None = None,
        objects_url: str | None = None,
    ) -> "Database":
        pool = await open_pool(options)
        notifier = Notifier(options)
        notifier.start()
        return Database(
            pool,
            notifier,
            options,
            public_url=public_url,
            tree_limit=tree_limit,
            keys=keys,
            objects_url=objects_url,
        )

    async def open_apart(self) -> "Database":
        """Open the same database with a pool of one connection, for an event loop in another thread.

        Outages are logged by the pool of this object only.
        """
        options = replace(self._options, size=1, notify=False, revive=None, announces=False)
        return await Database.open(options, keys=self.vault.keys)

    async def close(self) -> None:
        await self.schema_validator.close()
        await self._notifier.close()
        await close_pool(self.pool)

    def tenant(self, org: str = DEFAULT_ORG, *, actor: str = ACTOR, **access: Any) -> "Tenant":
        """Return the same open database acting for an org; `actor` is the name in the event trail."""
        return Tenant(self, org, actor=actor, **access)

    def begin(self) -> AbstractAsyncContextManager[Connection]:
        """Begin a transaction: all or nothing."""
        return transaction(self.pool, pooler=self._pooler)

    def once(self) -> AbstractAsyncContextManager[Connection]:
        """Return a connection for a single statement, which is its own transaction and saves two round trips."""
        return self.begin() if self._pooler else statement(self.pool)

    def search(self, advice: str) -> AbstractAsyncContextManager[Connection]:
        """Return a connection for a list query with a selective filter: it has a timeout, whose error has `advice`."""
        return search(self.pool, seconds=self._options.search_timeout, advice=advice, pooler=self._pooler)

    def objects(self) -> Objects:
        """Return the object store, opened on first use."""
        if self.objects_url is None:
            raise Conflict("this process has no object store: set WINDLASS_OBJECTS_URL")
        return open_objects(self.objects_url)

    async def now(self) -> datetime:
        """Return the database's time."""
        async with self.once() as conn:
            return await runs.now(conn)

    def local_now(self) -> datetime:
        """Return the time of this process, or the one that a test has set. Never compare it with stored times."""
        return (self._options.clock() if self._options.clock else None) or datetime.now(UTC)

    async def check_master_keys(self) -> None:
        """Raise `MasterKeyRequired` before work begins that would fail later without the right master key."""
        async with self.once() as conn:
            await self.vault.check(conn)

    async def hook_key(self, conn: Connection) -> bytes:
        """Return the key that signs callback tokens; it never changes."""
        return await self.vault.server_key(conn, "hook")

    async def key_pepper(self) -> bytes:
        """Return the key of the hashes of API keys; it never changes."""
        if (known := self.vault.known_server_key("key_pepper")) is not None:
            return known
        async with self.begin() as conn:
            return await self.vault.server_key(conn, "key_pepper")

    def poke(self, *topics: str) -> None:
        """Wake the listeners of these topics; call it only after the commit."""
        for topic in topics:
            self._notifier.poke(topic)

    @contextlib.contextmanager
    def subscribe(self, listener: Listener) -> Iterator[None]:
        """Call the listener with every topic until the block ends."""
        stop = self._notifier.subscribe(listener)
        try:
            yield
        finally:
            stop()


class Tenant(Database):
    """An open database that acts for a caller of one org.

    It shares everything with the database that it was created from. Only the app, the command line, the web's two
    dependency modules and the loops that act for an org create one.
    """

    def __init__(
        self,
        database: Database,
        org: str,
        *,
        actor: str = ACTOR,
        scopes: frozenset[Scope] = ALL_SCOPES,
        label: str | None = None,
        isolated: bool = False,
    ) -> None:
        """`isolated`: row-level security applies, as a second barrier between orgs; for external callers."""
        self.__dict__.update(database.__dict__)
        self.database = database
        self.org = org
        self.actor = actor
        self.scopes = scopes
        self.label = label  # the tenant of the Open Job Spec that the caller's key is bound to
        self._isolated_org = org if isolated else None

    @classmethod
    async def open(
        cls,
        options: DatabaseOptions,
        *,
        org: str = DEFAULT_ORG,
        public_url: str | None = None,
        tree_limit: int = TREE_LIMIT,
        keys: MasterKeys | None = None,
        objects_url: str | None = None,
    ) -> "Tenant":
        opened = await Database.open(
            options, public_url=public_url, tree_limit=tree_limit, keys=keys, objects_url=objects_url
        )
        return opened.tenant(org)

    @property
    def acts_for_all(self) -> bool:
        """Whether it acts for the operator of the installation, or for trusted code that does not act for one org."""
        return self.org == DEFAULT_ORG and self._isolated_org is None

    def require(self, scope: Scope) -> None:
        """Raise `Forbidden` if the caller lacks a scope."""
        orgs.require(scope, self.scopes, self.actor)

    def begin(self) -> AbstractAsyncContextManager[Connection]:
        return transaction(self.pool, pooler=self._pooler, org=self._isolated_org)

    def once(self) -> AbstractAsyncContextManager[Connection]:
        return self.begin() if self._isolated_org is not None else super().once()

    def search(self, advice: str) -> AbstractAsyncContextManager[Connection]:
        seconds = self._options.search_timeout
        return search(self.pool, seconds=seconds, advice=advice, pooler=self._pooler, org=self._isolated_org)

    def stored(self, name: str) -> str:
        """Return the stored name of a queue, or of an HTTP worker, of this org."""
        return orgs.stored(self.org, name)

    def shown(self, name: str) -> str:
        return orgs.shown(self.org, name)


async def prepare(options: DatabaseOptions, keys: KeySource | None = None) -> list[str]:
    """Apply migrations, renumber data restored from another cluster's dump, and seal what is stored in plain text.

    Return the migrations applied. `keys` is called with the ids of the master keys in use.
    """
    conn = await open_connection(options)
    try:
        applied = [f"{m.version:04} {m.name}" for m in await migrate.migrate(conn, partial(open_connection, options))]
        await migrate.renumber_restored(conn)
        master_keys = keys(await secrets.master_keys(conn)) if keys is not None else MasterKeys()
        if master_keys:
            await seal_plain(conn, Vault(master_keys))
        if not await org_store.is_alone(conn):
            await org_store.create_api_role(conn)  # missing if the data comes from a dump or from an earlier version
        return applied
    finally:
        await conn.close()


def new_ids(count: int) -> list[UUID]:
    """Return new ids in ascending order, because those are the fastest to insert into an index."""
    return uuids(ascending(time.time_ns(), os.urandom(RANDOM_BYTES * count))) if count else []
