"""`ctx.transaction` commits rows and the recorded step together; `ctx.now` and `ctx.random` return the same values in
every attempt."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.keys import KEYS
from windlass import Context, Windlass
from windlass.core.jobs.retry import Backoff, Retry
from windlass.engine.database import Database
from windlass.errors import LeaseLost, Unavailable
from windlass.settings import Settings
from windlass.store import checkpoints as store
from windlass.testing import Clock, run_to_end, run_until_idle

AT_ONCE = Retry(kind=Backoff.CONSTANT, base=0)
START = datetime(2031, 5, 1, tzinfo=UTC)


@pytest.fixture
async def app(database: str, clock: Clock, conn: Any) -> AsyncIterator[Windlass]:
    clock.set(START)
    await conn.execute("create schema shop; create table shop.account (cents int)")
    async with Windlass(database, settings=Settings(master_keys=KEYS), clock=clock.now) as opened:
        yield opened
    await conn.execute("drop schema shop cascade")


async def pay(conn: Any, cents: int) -> int:
    await conn.execute("insert into shop.account values ($1)", cents)
    return int(await conn.fetchval("select count(*) from shop.account"))


async def test_rows_are_written_once_however_often_the_handler_runs(app: Windlass, conn: Any) -> None:
    @app.job("shop.pay.v1", retry=AT_ONCE)
    async def handle(ctx: Context) -> int:
        count = await ctx.transaction("pay", pay, 5)
        if ctx.attempt < 3:
            raise RuntimeError("after the commit")
        return int(count)

    job = await app.submit("shop.pay.v1")
    await run_until_idle(app)
    row = await app.get(job)
    assert (row.status, row.result, await conn.fetchval("select array_agg(cents) from shop.account")) == (
        "succeeded", 1, [5],
    )  # fmt: skip


async def test_the_transaction_of_a_function_that_raises_is_rolled_back(app: Windlass, conn: Any) -> None:
    async def broken(connection: Any, fails: bool) -> None:
        await pay(connection, 1)
        if fails:
            raise ValueError("no")

    @app.job("shop.pay.v1", retry=AT_ONCE)
    async def handle(ctx: Context) -> None:
        await ctx.transaction("pay", broken, ctx.attempt == 1)

    job = await app.submit("shop.pay.v1")
    await run_until_idle(app)
    row = await app.get(job)
    assert (row.status, row.attempt, await conn.fetchval("select count(*) from shop.account")) == ("succeeded", 1, 1)


async def test_a_sync_handler_has_transactions_too(app: Windlass, conn: Any) -> None:
    def transfer(connection: Any, fails: bool) -> list[int]:
        connection.execute("insert into shop.account values ($1)", 1)
        connection.executemany("insert into shop.account values ($1)", [(2,), (3,)])
        if fails:
            raise ValueError("no")
        assert connection.fetchrow("select sum(cents) from shop.account")[0] == 6
        assert connection.fetchval("select max(cents) from shop.account") == 3
        return [row[0] for row in connection.fetch("select cents from shop.account order by cents")]

    @app.job("shop.pay.v1", retry=AT_ONCE)
    def handle(ctx: Context) -> Any:
        sums = ctx.transaction_sync("transfer", transfer, ctx.attempt == 1)
        if ctx.attempt == 2:
            raise RuntimeError("after the commit")
        return sums

    job = await app.submit("shop.pay.v1")
    await run_until_idle(app)
    row = await app.get(job)
    assert (row.status, row.attempt, row.result) == ("succeeded", 2, [1, 2, 3])
    assert await conn.fetchval("select count(*) from shop.account") == 3


async def test_a_commit_whose_response_was_lost_is_not_repeated(
    app: Windlass, conn: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = Database.begin

    class Losing:
        """A transaction whose commit succeeds, but whose connection is lost before the response arrives."""

        def __init__(self, db: Database) -> None:
            self._inner = begin(db)

        async def __aenter__(self) -> Any:
            return await self._inner.__aenter__()

        async def __aexit__(self, *error: Any) -> None:
            await self._inner.__aexit__(*error)
            raise Unavailable("the connection was lost")

    @app.job("shop.pay.v1")
    async def handle(ctx: Context) -> int:
        monkeypatch.setattr(Database, "begin", lambda db: losses.pop()(db) if losses else begin(db))
        return int(await ctx.transaction("pay", pay, 5))

    losses = [Losing]
    job = await app.submit("shop.pay.v1")
    await run_until_idle(app)
    assert ((await app.get(job)).result, await conn.fetchval("select count(*) from shop.account")) == (1, 1)


async def test_an_attempt_that_lost_its_lease_commits_nothing(app: Windlass, conn: Any) -> None:
    errors: list[type] = []

    async def slow(connection: Any) -> None:
        await pay(connection, 1)
        await app.cancel(job)

    @app.job("shop.pay.v1")
    async def handle(ctx: Context) -> None:
        try:
            await ctx.transaction("pay", slow)
        except BaseException as error:  # the worker may receive the cancellation first and stop the handler
            errors.append(type(error))
            raise

    job = await app.submit("shop.pay.v1")
    await run_until_idle(app)
    assert errors in ([LeaseLost], [asyncio.CancelledError])
    assert await conn.fetchval("select count(*) from shop.account") == 0


async def test_the_time_and_random_numbers_are_the_same_after_a_suspension(app: Windlass, clock: Clock) -> None:
    seen: list[Any] = []

    @app.job("shop.wait.v1")
    async def handle(ctx: Context) -> None:
        values = [ctx.now(), ctx.random(), ctx.random()]
        await ctx.sleep("1h")
        seen.append([*values, ctx.now()])
        await ctx.sleep("1h")
        seen.append([*values, seen[0][-1]])

    await run_to_end(app, await app.submit("shop.wait.v1"), clock)
    first, second, third = seen
    assert first == second == third
    assert (first[0], first[3]) == (START, START + timedelta(hours=1))
    assert 0 <= first[1] < 1
    assert first[1] != first[2]


async def test_the_time_is_recorded_before_a_function_is_called(app: Windlass, conn: Any) -> None:
    @app.job("shop.once.v1", max_attempts=1)
    async def handle(ctx: Context) -> None:
        ctx.now()
        await ctx.step("fails", lambda: 1 // 0)

    job = await app.submit("shop.once.v1")
    await run_until_idle(app)
    async with (await app.open()).once() as connection:
        assert [row.name for row in (await store.recorded(connection, [job]))[job]] == ["now"]


def test_a_context_without_a_worker_has_the_time_but_no_transactions() -> None:
    ctx = Context(UUID(int=1), "a.b.v1", 1, 3, "default", 1, 1, START, {}, lambda _: None)
    assert ctx.now().tzinfo is UTC
    assert 0 <= ctx.random() < 1
    with pytest.raises(Exception, match="only a worker can do this"):
        asyncio.run(ctx.transaction("x", pay, 1))
