"""The number of connections of a process is bounded by its settings, whatever its load is."""

import asyncio
from typing import Any

from tests.keys import KEYS
from tests.runtime.conftest import Working
from windlass import Context, JobSpec, Windlass
from windlass.settings import Settings

SIZE, JOBS = 3, 60


async def test_a_worker_uses_its_pool_plus_one_connection_each_for_listen_and_heartbeats(
    database: str, working: Working, conn: Any
) -> None:
    name = "windlass-connections"
    marked = f"{database}{'&' if '?' in database else '?'}application_name={name}"
    most, ended = 0, 0
    async with asyncio.timeout(60), Windlass(marked, settings=Settings(master_keys=KEYS, pool_size=SIZE)) as app:
        done, began = asyncio.Event(), asyncio.Barrier(JOBS)

        @app.job("busy.step.v1")
        async def busy(ctx: Context) -> None:
            nonlocal ended, most
            await began.wait()  # all of them run at the same time
            for n in range(3):
                await ctx.step(f"s{n}", lambda: 1)
            most = max(most, await conn_count())
            ended += 1
            if ended == JOBS:
                done.set()

        lock = asyncio.Lock()

        async def conn_count() -> int:
            async with lock:  # one connection for all of them
                query = "select count(*) from pg_stat_activity where application_name = $1"
                return int(await conn.fetchval(query, name))

        await app.submit_many([JobSpec(type="busy.step.v1")] * JOBS)
        async with working(app, concurrency=JOBS):
            await done.wait()
    assert 3 <= most <= SIZE + 2
