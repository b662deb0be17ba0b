"""Keeps connection pools open between tests.

A new Postgres backend has to load the catalog and to plan each statement again, which takes longer than most tests. All
tests of a process share an event loop, so a pool that a test has closed can serve the next test on the same database.
The application name of its connections is KEPT: the test kit that empties the database does not terminate them if idle.
"""

import asyncio
from collections import defaultdict
from dataclasses import replace
from datetime import datetime

import asyncpg

from windlass.store.postgres.pool import DatabaseOptions, Pool, close_pool, open_pool, watch
from windlass.testing.kit import KEPT


class WarmPools:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.recycled: set[str] = set()  # URLs of databases that are reused by one test after another
        self._loop = loop
        self._free: dict[str, list[Pool]] = defaultdict(list)  # by URL
        self._in_use: dict[Pool, DatabaseOptions] = {}

    async def open(self, options: DatabaseOptions) -> Pool:
        """Return a free pool of a recycled database, or open one. Unusual options get a pool of their own."""
        usual = DatabaseOptions(url=options.url, notify=options.notify, search_timeout=options.search_timeout)
        keep = options.url in self.recycled and replace(options, clock=None) == usual
        if not keep or asyncio.get_running_loop() is not self._loop:
            return await open_pool(options)
        free = self._free[options.url]
        pool = free.pop() if free else await self._open(options)
        pool.outage = watch(options)
        self._in_use[pool] = options
        return pool

    async def close(self, pool: Pool) -> None:
        """Keep a pool if all of its connections are idle; close it otherwise."""
        options = self._in_use.pop(pool, None)
        if options is None or pool.get_idle_size() < pool.get_size():
            await close_pool(pool)
            return
        await pool.outage.close()
        self._free[options.url].append(pool)

    def terminate(self) -> None:
        for pools in self._free.values():
            for pool in pools:
                pool.terminate()

    async def _open(self, options: DatabaseOptions) -> Pool:
        def now() -> datetime | None:
            """Return the time for a connection that is acquired from the pool; raise if the pool is not in use."""
            if (user := self._in_use.get(pool)) is None:
                raise asyncpg.InterfaceError("pool is closed")
            return user.clock() if user.clock is not None else None

        mark = "&" if "?" in options.url else "?"
        pool = await open_pool(replace(options, url=f"{options.url}{mark}application_name={KEPT}", clock=now))
        return pool
