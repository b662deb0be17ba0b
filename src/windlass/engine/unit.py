"""The ground a use case stands on: a pool, the wake-ups, and whose work it is."""

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

from windlass.core.ids import RANDOM_BYTES, uuid7
from windlass.store import migrate
from windlass.store.notify import Listener, Notifier
from windlass.store.pool import Connection, DatabaseOptions, Pool, open_connection, open_pool, transaction

DEFAULT_ORG = "default"


class Unit:
    """An open database. Use cases take one as their first argument."""

    def __init__(self, pool: Pool, notifier: Notifier, *, org: str, actor: str) -> None:
        self.pool = pool
        self.org = org
        self.actor = actor
        self._notifier = notifier

    @classmethod
    async def open(cls, options: DatabaseOptions, *, org: str = DEFAULT_ORG, actor: str = "windlass") -> "Unit":
        pool = await open_pool(options)
        notifier = Notifier(options)
        notifier.start()
        return cls(pool, notifier, org=org, actor=actor)

    async def close(self) -> None:
        await self._notifier.close()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self.pool.close(), timeout=5)
        self.pool.terminate()

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[Connection]:
        async with transaction(self.pool) as conn:
            yield conn

    def poke(self, topic: str) -> None:
        """Wake whoever waits for this; only after the commit."""
        self._notifier.poke(topic)

    def subscribe(self, listener: Listener) -> "contextlib.AbstractContextManager[None]":
        @contextlib.contextmanager
        def listening():  # type: ignore[no-untyped-def]
            stop = self._notifier.subscribe(listener)
            try:
                yield
            finally:
                stop()

        return listening()


async def prepare(options: DatabaseOptions) -> list[str]:
    """Bring the schema up to date; returns the names of the migrations applied."""
    conn = await open_connection(options)
    try:
        return [f"{m.version:04} {m.name}" for m in await migrate.migrate(conn)]
    finally:
        await conn.close()


def new_id() -> UUID:
    return uuid7(time.time_ns() // 1_000_000, os.urandom(RANDOM_BYTES))


def new_ids(count: int) -> list[UUID]:
    """Many at once: the dice are thrown in one call."""
    moment, dice = time.time_ns() // 1_000_000, os.urandom(RANDOM_BYTES * count)
    return [uuid7(moment, dice[n * RANDOM_BYTES : (n + 1) * RANDOM_BYTES]) for n in range(count)]
