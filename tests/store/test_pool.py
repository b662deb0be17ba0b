"""Connections return to the pool clean, whatever happened to the task that used them."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import asyncpg
import pytest

from tests.chaos.harness import eventually
from windlass.store.postgres.pool import DatabaseOptions, Pool, close_pool, open_pool, statement, transaction

STEPS = 25  # iterations of the event loop after which a task is cancelled: a statement takes about ten


@pytest.fixture
async def pool(database: str) -> AsyncIterator[Pool]:
    pool = await open_pool(DatabaseOptions(url=database, size=1))
    yield pool
    await close_pool(pool)


async def pid(pool: Pool) -> int:
    async with asyncio.timeout(10), statement(pool) as conn:
        found: int = await conn.fetchval("select pg_backend_pid()")
        return found


async def test_a_statement_needs_no_task(pool: Pool) -> None:
    await pid(pool)
    created: list[Coroutine[Any, Any, Any]] = []

    def count(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> "asyncio.Task[Any]":
        created.append(coroutine)
        return asyncio.Task(coroutine, loop=loop, **options)

    loop = asyncio.get_running_loop()
    loop.set_task_factory(count)
    try:
        async with statement(pool) as conn:
            await conn.fetchval("select 1")
    finally:
        loop.set_task_factory(None)
    assert created == []


async def test_a_released_connection_can_no_longer_be_used(pool: Pool) -> None:
    async with statement(pool) as conn:
        pass
    with pytest.raises(Exception, match="released back to the pool"):
        await conn.fetchval("select 1")


async def test_the_connection_of_a_cancelled_statement_is_used_again(
    pool: Pool, conn: "asyncpg.Connection[Any]"
) -> None:
    before = await pid(pool)

    async def sleep() -> None:
        async with statement(pool) as own:
            await own.execute("select pg_sleep(60)")

    async def sleeping() -> bool:
        asleep = "select exists (select from pg_stat_activity where pid = $1 and wait_event = 'PgSleep')"
        return bool(await conn.fetchval(asleep, before))

    task = asyncio.create_task(sleep())
    await eventually(sleeping, "the statement sleeps")  # Postgres ignores a request to cancel that comes too early
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await pid(pool) == before


async def test_a_transaction_that_was_left_open_is_rolled_back(pool: Pool) -> None:
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # asyncpg reports the open transaction
    async with statement(pool) as conn:
        await conn.execute("begin; create table left_open ()")
    async with statement(pool) as conn:
        assert not conn.is_in_transaction()
        assert await conn.fetchval("select to_regclass('left_open')") is None


@pytest.mark.parametrize("within", [statement, transaction])
async def test_a_task_that_is_cancelled_at_any_step_returns_its_connection(pool: Pool, within: Any) -> None:
    async def work() -> None:
        async with within(pool) as conn:
            await conn.execute("create temporary table if not exists t (n int); insert into t values (1)")

    await work()
    for steps in range(STEPS):
        task = asyncio.create_task(work())
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await pid(pool)  # the only connection of the pool
        async with statement(pool) as conn:
            assert not conn.is_in_transaction()
