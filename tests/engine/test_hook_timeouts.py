"""Timeouts of callbacks; races with timeouts and cancellations; retries and reruns."""

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from tests.engine.fake_services import call, deploy, play, run_of, token_of
from tests.engine.harness import Fails, begin, letters, reasons, state, tick
from tests.engine.hook_harness import AGAIN, ASK, HOUR, NEW, PAID, SHIP, Connection, timers, waiting
from windlass.core.definition.parser import parse
from windlass.engine import workflows
from windlass.engine.database import Tenant
from windlass.engine.runs import control as runs
from windlass.engine.runs import sweep
from windlass.errors import Gone
from windlass.testing import Clock

# Timeouts


async def test_a_wait_times_out_exactly_at_its_deadline(db: Tenant, clock: Clock, conn: Connection) -> None:
    clock.set(datetime(2031, 5, 5, 12, tzinfo=UTC))
    run, _ = await waiting(db)
    assert await conn.fetchval("select due_at from windlass.timer") == datetime(2031, 5, 5, 13, tzinfo=UTC)
    clock.set(datetime(2031, 5, 5, 12, 59, 59, 999_999, tzinfo=UTC))
    assert await tick(db) == 0
    assert await letters(db, run) == "sa."
    clock.set(datetime(2031, 5, 5, 13, tzinfo=UTC))
    assert await tick(db) > 0
    assert await letters(db, run) == "stk"
    assert await reasons(db, run, "paid") == ["no callback arrived in time"]
    assert (await state(db, run), await timers(conn)) == ("failed", 0)


async def test_the_timeout_counts_from_the_start_of_the_wait_and_not_of_the_run(db: Tenant, clock: Clock) -> None:
    clock.set(datetime(2031, 5, 5, tzinfo=UTC))
    run = await run_of(db, ask=ASK, paid=PAID, ship=SHIP)
    clock.move(timedelta(days=3))
    worker = await play(db, ask="asked")
    assert await letters(db, run) == "sa."
    clock.move(HOUR)
    await worker.play()
    assert await letters(db, run) == "stk"


async def test_a_timeout_that_an_if_branches_on_counts_as_handled(db: Tenant, clock: Clock) -> None:
    late = {"needs": ["paid"], "if": "tasks.paid.status == 'timeout'", "job": "test.late.v1"}
    run = await run_of(db, ask=ASK, paid=PAID, late=late)
    worker = await play(db)
    clock.move(HOUR)
    await worker.play()
    assert (await letters(db, run), await state(db, run)) == ("sts", "completed")
    assert worker.seen == ["ask", "late"]


async def test_a_wait_without_a_timeout_waits_until_the_run_ends(db: Tenant, clock: Clock, conn: Connection) -> None:
    run, _ = await waiting(db, paid=PAID | {"wait_for_webhook": True})
    assert await timers(conn) == 0
    clock.move(timedelta(days=29))
    await tick(db)
    assert await call(db, run) == NEW


@pytest.mark.parametrize("how", ["cancel", "expire", "callback"])
async def test_a_wait_that_ends_before_its_timeout_leaves_no_timer(
    db: Tenant, clock: Clock, conn: Connection, how: str
) -> None:
    run, _ = await waiting(db)
    assert await timers(conn) == 1
    if how == "cancel":
        await runs.cancel(db, run)
    elif how == "callback":
        await call(db, run)
    else:
        await conn.execute("update windlass.run set expires_at = now() - interval '1 second'")
        await sweep.expire(db)
    assert await timers(conn) == 0
    clock.move(2 * HOUR)
    await tick(db)
    assert "t" not in await letters(db, run)


# Races


@pytest.mark.parametrize("rival", ["cancel", "timeout", "both"])
async def test_a_concurrent_callback_timeout_and_cancel_have_one_winner(
    db: Tenant, other_db: Tenant, clock: Clock, conn: Connection, rival: str
) -> None:
    await deploy(db, paid={"wait_for_webhook": {"timeout": "1h"}}, ship=SHIP)
    ids = [await begin(db) for _ in range(30)]
    clock.move(HOUR)
    called: dict[UUID, bool] = {}

    async def callback(run: UUID) -> None:
        try:
            await call(db, run, b'"here"')
            called[run] = True
        except Gone:
            called[run] = False

    async def cancel(run: UUID) -> None:
        await runs.cancel(other_db, run)

    rivals = [cancel(run) for run in ids] if rival in ("cancel", "both") else []
    waking = [sweep.wake(other_db) for _ in range(5)] if rival in ("timeout", "both") else []
    await asyncio.gather(*map(callback, ids), *rivals, *waking, return_exceptions=rival == "both")
    await tick(db)
    for run in ids:
        row = await conn.fetchrow(
            "select received_at is not null as kept, body from windlass.hook where run_id = $1", run
        )
        letter = (await letters(db, run))[0]
        assert row["kept"] is called[run]
        assert letter == ("s" if called[run] else letter)
        assert letter in ("s" if called[run] else "tc")
    assert await timers(conn) == 0


async def test_a_callback_that_locks_the_run_after_a_cancel_is_gone(
    db: Tenant, other_db: Tenant, clock: Clock, conn: Connection
) -> None:
    """The callback waits for the run's lock; meanwhile the run is cancelled."""
    run, _ = await waiting(db)
    block = conn.transaction()
    await block.start()
    await conn.fetch("select from windlass.run where id = $1 for update", run)
    cancelling = asyncio.create_task(runs.cancel(other_db, run))
    await queued(conn, 1)
    calling = asyncio.create_task(call(db, run))
    await queued(conn, 2)
    await block.rollback()
    await cancelling
    with pytest.raises(Gone):
        await calling
    assert (await letters(db, run), await state(db, run)) == ("scc", "cancelled")


async def test_a_callback_that_locks_the_run_before_the_timeout_ends_the_wait(
    db: Tenant, other_db: Tenant, clock: Clock, conn: Connection
) -> None:
    run, _ = await waiting(db)
    clock.move(HOUR)
    block = conn.transaction()
    await block.start()
    await conn.fetch("select from windlass.run where id = $1 for update", run)
    calling = asyncio.create_task(call(db, run))
    await queued(conn, 1)
    assert await sweep.wake(other_db) == 0  # another session has locked the run: it is skipped
    await block.rollback()
    assert await calling == NEW
    assert await tick(other_db) == 0
    assert await letters(db, run) == "ssa"


async def queued(conn: Connection, count: int) -> None:
    """Wait until `count` sessions wait for a lock."""
    look = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    async with asyncio.timeout(30):
        while await conn.fetchval(look) < count:
            await asyncio.sleep(0.005)


# Retries and reruns


async def test_a_retry_after_the_timeout_waits_again_for_a_callback(db: Tenant, clock: Clock) -> None:
    run, worker = await waiting(db)
    token = await token_of(db, run)
    clock.move(HOUR)
    await worker.play()
    assert await state(db, run) == "failed"
    await runs.retry(db, run)
    assert (await letters(db, run), await token_of(db, run)) == ("sa.", token)
    assert await call(db, run, b'"late"') == NEW
    await worker.play()
    assert (await state(db, run), worker.payloads["ship"]) == ("completed", [{"got": "late"}])


async def test_a_retry_has_the_full_timeout_again(db: Tenant, clock: Clock) -> None:
    run, worker = await waiting(db)
    clock.move(HOUR)
    await worker.play()
    await runs.retry(db, run)
    clock.move(HOUR - timedelta(seconds=1))
    await worker.play()
    assert await letters(db, run) == "sa."
    clock.move(timedelta(seconds=1))
    await worker.play()
    assert await letters(db, run) == "stk"


async def test_a_retry_of_a_later_step_keeps_the_callback(db: Tenant) -> None:
    run, worker = await waiting(db)
    await call(db, run, b'"kept"')
    await worker.play({"ship": Fails(for_good=True)})
    assert await state(db, run) == "failed"
    await runs.retry(db, run)
    await worker.play()
    assert worker.payloads["ship"] == [{"got": "kept"}] * 2
    assert await call(db, run) == AGAIN


async def test_a_rerun_of_the_wait_discards_the_callback_and_accepts_another(db: Tenant, conn: Connection) -> None:
    run, worker = await waiting(db)
    await call(db, run, b'"old"', x_n="1")
    await worker.play()
    await runs.rerun(db, run, "paid")
    assert await letters(db, run) == "sa."
    assert tuple(await conn.fetchrow("select received_at, body, headers from windlass.hook")) == (None, None, None)
    assert await timers(conn) == 1
    assert await call(db, run, b'"new"') == NEW
    await worker.play()
    assert worker.payloads["ship"] == [{"got": "old"}, {"got": "new"}]


async def test_a_rerun_of_an_earlier_step_discards_the_callback_and_keeps_the_next_early_one(db: Tenant) -> None:
    run, worker = await waiting(db)
    await call(db, run, b'"old"')
    await worker.play()
    await runs.rerun(db, run, "ask")
    assert await letters(db, run) == "a.."
    assert await call(db, run, b'"new"') == NEW
    assert await call(db, run, b'"newer"') == AGAIN
    await worker.play()
    assert worker.payloads["ship"] == [{"got": "old"}, {"got": "new"}]


async def test_an_early_callback_of_a_failed_run_is_kept_for_the_retry(db: Tenant) -> None:
    """The step never received it, and the sender will not send it again."""
    run = await run_of(db, ask=ASK, paid=PAID, ship=SHIP)
    await call(db, run, b'"early"')
    worker = await play(db, ask=Fails(for_good=True))
    assert await letters(db, run) == "fkk"
    await runs.retry(db, run)
    await worker.play()
    assert (await state(db, run), worker.payloads["ship"]) == ("completed", [{"got": "early"}])


async def test_a_run_that_expired_before_it_started_has_a_callback_address_after_a_retry(
    db: Tenant, clock: Clock
) -> None:
    document = {"name": "w", "concurrency": 1, "tasks": {"ask": ASK, "paid": PAID}}
    await workflows.publish(db, parse(document))
    first, held = await begin(db), await begin(db, max_duration=timedelta(minutes=1))
    clock.move(timedelta(minutes=2))
    await sweep.expire(db)
    await runs.cancel(db, first)
    await runs.retry(db, held)
    worker = await play(db)
    assert await letters(db, held) == "sa"
    assert await call(db, held) == NEW
    assert worker.seen == ["ask"]
