"""Callbacks: their addresses, and which requests to them end the wait of a step."""

import asyncio
import json
from datetime import timedelta

import pytest

from tests.engine.fake_services import ServiceWorker, call, deploy, play, run_of, token_of
from tests.engine.harness import begin, letters, state, tick
from tests.engine.hook_harness import AGAIN, ASK, HOUR, NEW, PAID, SHIP, Connection, timers, waiting
from tests.keys import KEYS
from windlass.core.definition.parser import parse
from windlass.core.events.webhook import token_digest
from windlass.engine import hooks, workflows
from windlass.engine.database import Tenant
from windlass.engine.runs import control as runs
from windlass.engine.runs import start, sweep
from windlass.engine.runs.start import RunSpec
from windlass.errors import Gone, NotFound
from windlass.store.postgres.pool import DatabaseOptions
from windlass.testing import Clock


async def rows(conn: Connection) -> int:
    count: int = await conn.fetchval("select count(*) from windlass.hook")
    return count


# Addresses


async def test_the_address_is_the_same_in_every_process_and_in_every_template(db: Tenant, other_db: Tenant) -> None:
    run = await run_of(db, ask=ASK, paid=PAID, ship=SHIP)
    worker = await play(db, ask="asked")
    [payload] = worker.payloads["ask"]
    assert payload == {"url": f"http://127.0.0.1:8080/wh/{await token_of(db, run)}"}
    assert await token_of(db, run) == await token_of(other_db, run)


async def test_the_address_begins_with_the_public_url(db: Tenant) -> None:
    db.public_url.configured = "https://windlass.example/flows"
    run = await run_of(db, ask=ASK, paid=PAID)
    [payload] = (await play(db)).payloads["ask"]
    assert payload["url"] == f"https://windlass.example/flows/wh/{await token_of(db, run)}"


async def test_every_run_and_step_has_its_own_token(db: Tenant) -> None:
    await deploy(db, paid=PAID | {"needs": []}, sent=PAID | {"needs": []})
    ids = [await begin(db) for _ in range(20)]
    tokens = {await token_of(db, run, step) for run in ids for step in ("paid", "sent")}
    assert len(tokens) == 40
    assert {len(token) for token in tokens} == {43}  # 256 bits


async def test_the_database_stores_only_the_hash_of_a_token(db: Tenant, conn: Connection) -> None:
    run, _ = await waiting(db)
    token = await token_of(db, run)
    assert await conn.fetchval("select token_hash from windlass.hook") == token_digest(token)
    kept = await conn.fetchval("select to_jsonb(h)::text || to_jsonb(r)::text from windlass.hook h, windlass.run r")
    assert token not in kept
    assert token.encode().hex() not in kept


async def test_a_callback_address_is_created_when_the_run_starts_and_not_when_the_step_waits(
    db: Tenant, conn: Connection
) -> None:
    run = await run_of(db, ask=ASK, paid=PAID)
    assert (await letters(db, run), await rows(conn), await timers(conn)) == ("a.", 1, 0)


async def test_a_run_held_by_the_concurrency_limit_gets_its_address_when_it_starts(
    db: Tenant, conn: Connection
) -> None:
    document = {"name": "w", "concurrency": 1, "tasks": {"ask": ASK, "paid": PAID}}
    await workflows.publish(db, parse(document))
    first, second = await begin(db), await begin(db)
    assert (await state(db, second), await rows(conn)) == ("pending", 1)
    with pytest.raises(NotFound):
        await call(db, second)
    await runs.cancel(db, first)
    await tick(db)
    assert (await state(db, second), await rows(conn)) == ("running", 2)
    assert await call(db, second) == NEW


async def test_a_child_run_has_its_own_callback_addresses(db: Tenant, conn: Connection) -> None:
    await deploy(db, "below", ask=ASK, paid=PAID)
    run = await run_of(db, sub={"workflow": "below"})
    await tick(db)
    child = await conn.fetchval("select id from windlass.run where parent_id = $1", run)
    assert await rows(conn) == 1
    await call(db, child, b'{"n": 1}')
    await play(db)
    assert (await state(db, child), await state(db, run)) == ("completed", "completed")
    assert await runs.output(db, run) == {"n": 1}


async def test_a_wait_without_needs_begins_with_its_run(db: Tenant, conn: Connection) -> None:
    run = await run_of(db, paid={"wait_for_webhook": True})
    assert (await letters(db, run), await timers(conn)) == ("a", 0)
    assert await call(db, run) == NEW
    assert await state(db, run) == "completed"


async def test_a_thousand_starts_in_one_call_have_a_thousand_addresses(db: Tenant, conn: Connection) -> None:
    await deploy(db, ask=ASK, paid=PAID)
    await start.start(db, "w", [RunSpec()] * 1000)
    assert await conn.fetchval("select count(distinct token_hash) from windlass.hook") == 1000


# Callbacks


async def test_a_callback_ends_the_wait_and_its_body_is_the_output(db: Tenant, conn: Connection) -> None:
    run, worker = await waiting(db)
    assert await call(db, run, b'{"status": "paid", "n": 1.5}') == NEW
    assert (await letters(db, run), await timers(conn)) == ("ssa", 0)
    await worker.play()
    assert worker.payloads["ship"] == [{"got": {"status": "paid", "n": 1.5}}]
    assert await state(db, run) == "completed"


async def test_an_early_callback_is_kept_and_applied_when_the_step_is_reached(db: Tenant, conn: Connection) -> None:
    run = await run_of(db, ask=ASK, paid=PAID, ship=SHIP)
    assert await call(db, run, b'"early"') == NEW
    assert await letters(db, run) == "a.."
    worker = await play(db)
    assert worker.payloads["ship"] == [{"got": "early"}]
    assert (await state(db, run), await timers(conn)) == ("completed", 0)


async def test_an_early_callback_survives_a_restart_of_the_process(database: str) -> None:
    first = await Tenant.open(DatabaseOptions(url=database), keys=KEYS)
    run = await run_of(first, ask=ASK, paid=PAID, ship=SHIP)
    await call(first, run, b"[1, 2]", x_from="bank")
    await first.close()
    second = await Tenant.open(DatabaseOptions(url=database), keys=KEYS)
    worker = await play(second)
    assert worker.payloads["ship"] == [{"got": [1, 2]}]
    assert await call(second, run, b"[3]") == AGAIN
    await second.close()


async def test_an_early_callback_of_a_skipped_step_changes_nothing(db: Tenant) -> None:
    paid = PAID | {"if": "tasks.ask.status == 'failed'"}
    run = await run_of(db, ask=ASK, paid=paid, ship=SHIP)
    await call(db, run)
    await play(db)
    assert (await letters(db, run), await state(db, run)) == ("skk", "completed")


async def test_a_second_callback_is_accepted_and_changes_nothing(db: Tenant, conn: Connection) -> None:
    run, worker = await waiting(db)
    await call(db, run, b'"first"')
    kept = await conn.fetchrow("select * from windlass.hook")
    assert await call(db, run, b'"second"') == AGAIN
    await worker.play()
    assert worker.payloads["ship"] == [{"got": "first"}]
    assert await call(db, run, b'"third"') == AGAIN  # the run has ended and had received a callback
    assert await conn.fetchrow("select * from windlass.hook") == kept


async def test_ten_concurrent_callbacks_count_as_one(db: Tenant, other_db: Tenant, conn: Connection) -> None:
    run, _ = await waiting(db)
    each = [call(process, run, json.dumps(n).encode()) for n, process in enumerate([db, other_db] * 5)]
    answers = await asyncio.gather(*each)
    assert sorted(answer.again for answer in answers) == [False] + [True] * 9
    assert await letters(db, run) == "ssa"
    assert await conn.fetchval("select count(*) from workflow.workflow_run where step = 2") == 1


@pytest.mark.parametrize("token", ["", "x", "A" * 43, "é", "\x00", "\ud800", "A" * 100_000])
async def test_unknown_and_malformed_tokens_are_not_found(db: Tenant, token: str) -> None:
    await waiting(db)
    with pytest.raises(NotFound, match="no callback address of this token"):
        await hooks.receive(db, token, b"{}", {})


async def test_repeated_callbacks_and_ticks_after_the_end_of_a_run_change_nothing(db: Tenant, conn: Connection) -> None:
    run, worker = await waiting(db)
    await call(db, run, b"1")
    await worker.play()
    look = "select (select jsonb_agg(e) from windlass.event e)::text, (select jsonb_agg(r) from windlass.run r)::text"
    before = await conn.fetchrow(look)
    for _ in range(3):
        await call(db, run, b"2")
        await tick(db)
        await worker.play()
    assert await conn.fetchrow(look) == before


# Callbacks of steps that no longer wait


async def test_a_callback_after_the_timeout_is_gone(db: Tenant, clock: Clock) -> None:
    run, worker = await waiting(db)
    clock.move(HOUR)
    await worker.play()
    with pytest.raises(Gone, match="no longer expected"):
        await call(db, run)
    assert await letters(db, run) == "stk"


async def test_a_callback_of_a_cancelled_run_is_gone(db: Tenant) -> None:
    run, _ = await waiting(db)
    await runs.cancel(db, run)
    with pytest.raises(Gone):
        await call(db, run)


async def test_a_callback_of_a_skipped_step_is_gone_while_its_run_continues(db: Tenant) -> None:
    run = await run_of(db, ask=ASK, paid=PAID | {"if": "false"}, long={"job": "test.long.v1"})
    worker = await ServiceWorker.registered(db)
    for job in await worker.take():
        if worker.step(job) == "ask":
            await worker.end(job)
    assert (await letters(db, run), await state(db, run)) == ("ska", "running")
    with pytest.raises(Gone):
        await call(db, run)


async def test_a_callback_of_an_expired_run_is_gone(db: Tenant, clock: Clock) -> None:
    await deploy(db, ask=ASK, paid=PAID)
    run = await begin(db, max_duration=timedelta(minutes=1))
    clock.move(timedelta(minutes=2))
    await sweep.expire(db)
    assert await state(db, run) == "timeout"
    with pytest.raises(Gone):
        await call(db, run)
