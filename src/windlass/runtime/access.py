"""Determines the access of the caller of a request, from its API key or session, and caches it.

Keys, sessions and orgs are cached for CACHED_SECONDS; a notification after each change empties the caches, so that a
revoked key is refused everywhere at once, and within CACHED_SECONDS if the notification is lost.
"""

import asyncio
import hmac
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Generic, TypeVar

from windlass.core.orgs import DEFAULT_ORG, Access, ApiKey, scopes_of
from windlass.engine.database import Database, Tenant
from windlass.engine.orgs import control as orgs
from windlass.engine.orgs import keys, login
from windlass.engine.orgs.keys import StoredKey
from windlass.engine.orgs.login import Session
from windlass.errors import NotFound, Unavailable, WindlassError
from windlass.schemas.orgs import Org

T = TypeVar("T")
CACHED_SECONDS = 10.0
MOST_CACHED = 10_000
RECORD_USE_SECONDS = 60.0
_log = logging.getLogger("windlass.access")


class Cache(Generic[T]):
    """Caches values by name for CACHED_SECONDS; concurrent lookups of a name share a query. A full cache is emptied."""

    def __init__(self, load: Callable[[str], Awaitable[T]]) -> None:
        self._load = load
        self._known: dict[str, tuple[float, T]] = {}
        self._loading: dict[str, asyncio.Task[T]] = {}

    async def get(self, name: str) -> T:
        known = self._known.get(name)
        if known is not None and time.monotonic() - known[0] < CACHED_SECONDS:
            return known[1]
        task = self._loading.get(name)
        if task is None:
            task = self._loading[name] = asyncio.create_task(self._fetch(name))
        return await asyncio.shield(task)  # a cancelled caller must not cancel the load for the others

    def clear(self) -> None:
        self._known.clear()
        self._loading.clear()  # a value being loaded may be older than the change: it is returned, but not cached

    async def _fetch(self, name: str) -> T:
        started, this = time.monotonic(), asyncio.current_task()
        try:
            value = await self._load(name)
            if self._loading.get(name) is this:
                if len(self._known) >= MOST_CACHED:
                    self._known.clear()
                self._known[name] = (started, value)
            return value
        finally:
            if self._loading.get(name) is this:
                del self._loading[name]


@dataclass(frozen=True, slots=True)
class LoadedKey:
    """A stored key, None if it does not exist, and the monotonic time at which it was read."""

    stored: StoredKey | None
    at: float

    @property
    def age(self) -> timedelta:
        return timedelta(seconds=time.monotonic() - self.at)


class Authority:
    """Determines the access of callers. `open_` returns the open database; the same one until it is closed."""

    def __init__(
        self,
        open_: Callable[[], Awaitable[Tenant]],
        *,
        operator_keys: Sequence[bytes] = (),
        admins: Collection[str] = (),
    ) -> None:
        """`operator_keys` are digests of the operator's keys, `admins` the addresses of people who are operators."""
        self._open = open_
        self.operator_keys = tuple(operator_keys)
        self._admins = frozenset(admins)
        self._db: Database | None = None
        self._subscription = ExitStack()
        self._keys = Cache(self._load_key)
        self._sessions = Cache(self._load_session)
        self._orgs = Cache(self._load_org)
        self._alone = Cache(self._load_alone)
        self._was_alone: bool | None = None
        self._used: dict[str, float] = {}  # when the use of each key or session was last recorded
        self._tasks: set[asyncio.Task[None]] = set()

    async def of_key(self, key: ApiKey) -> tuple[Access, bool] | None:
        """Return the access that a key grants, and whether its org is disabled; None for an invalid key."""
        db = await self._database()
        loaded = await self._keys.get(key.id)
        stored = loaded.stored
        if stored is None and not db.vault.keys:  # without a pepper no key exists: the time reveals nothing
            return None
        pepper = await db.key_pepper()
        if not keys.is_valid(stored, key, pepper, age=loaded.age) or stored is None:
            return None
        self._record_use(stored.id)
        isolated = not await self.is_alone()
        access = Access(stored.org, f"key:{stored.name}", scopes_of(stored.scopes), stored.label, isolated)
        return access, stored.disabled

    def operator_key(self, digest: bytes) -> bytes | None:
        """Return the digest of a key if it is the operator's. All are compared, each in constant time, so that the time
        of a rejection reveals nothing."""
        matches = [known for known in self.operator_keys if hmac.compare_digest(digest, known)]
        return matches[0] if matches else None

    async def of_session(self, cookie: str) -> Session | None:
        """Return the session of a browser; None if it has ended."""
        await self._database()
        session = await self._sessions.get(cookie)
        if session is not None and session.stale:
            self._extend(session.hash)
        return session

    async def org(self, name: str) -> Org | None:
        await self._database()
        return await self._orgs.get(name)

    async def is_alone(self) -> bool:
        """Return whether `default` is the only org. During an outage return the last answer, so that the metrics of the
        process can still be read."""
        try:
            await self._database()
            self._was_alone = await self._alone.get(DEFAULT_ORG)
        except Unavailable:
            if self._was_alone is None:
                raise
        return self._was_alone

    async def _database(self) -> Database:
        """Return the open database; subscribe to its notifications if it is a new one."""
        db = (await self._open()).database
        if db is not self._db:
            self._subscription.close()
            self._subscription.enter_context(db.subscribe(self._changed))
            self._db = db
            self._changed("")
        return db

    def _changed(self, topic: str) -> None:
        if topic in (keys.TOPIC, orgs.TOPIC, ""):
            for cache in (self._keys, self._sessions, self._orgs, self._alone):
                cache.clear()

    async def _load_key(self, id_: str) -> LoadedKey:
        at = time.monotonic()
        return LoadedKey(await keys.find(await self._database(), id_), at)

    async def _load_session(self, cookie: str) -> Session | None:
        db = await self._database()
        return await login.find(db, cookie, operator_keys=self.operator_keys, admins=self._admins)

    async def _load_org(self, name: str) -> Org | None:
        try:
            return await orgs.get(await self._database(), name)
        except NotFound:
            return None

    async def _load_alone(self, _name: str) -> bool:
        return await orgs.is_alone(await self._database())

    def _record_use(self, id_: str) -> None:
        """Record the use of a key, in the background and at most once a minute."""
        now = time.monotonic()
        if now - self._used.get(id_, float("-inf")) < RECORD_USE_SECONDS or self._db is None:
            return
        if len(self._used) >= MOST_CACHED:
            self._used.clear()
        self._used[id_] = now
        self._beside(keys.record_use(self._db, [id_]))

    def _extend(self, hash_: bytes) -> None:
        """Extend a session, in the background and at most once a minute."""
        now, name = time.monotonic(), hash_.hex()
        if self._db is not None and now - self._used.get(name, float("-inf")) >= RECORD_USE_SECONDS:
            self._used[name] = now
            self._beside(login.extend(self._db, hash_))

    def _beside(self, write: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(self._written(write))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _written(self, write: Awaitable[None]) -> None:
        try:
            await write
        except WindlassError as error:  # the next use after a minute tries again
            _log.info("the use of a key or a session was not recorded: %s", error)
