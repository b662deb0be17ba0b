"""Callbacks: kept whenever they come, heard when their step waits, counted once."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.engine.fake_services import Stage, call, deploy, play, run_of, token_of
from tests.engine.harness import Fails, begin, letters, reasons, state, tick, words
from windlass.core.definition.parser import parse
from windlass.core.events import webhook
from windlass.core.events.webhook import BODY_LIMIT, token_digest
from windlass.engine import hooks
from windlass.engine.database import Database
from windlass.engine.hooks import Received
from windlass.engine.runs import control as runs
from windlass.engine.runs import start, sweep
from windlass.engine.runs.start import RunSpec
from windlass.engine.workflows import control as workflows
from windlass.errors import Gone, Invalid, NotFound, Refused
from windlass.store.postgres.pool import DatabaseOptions
from windlass.testing import Clock

Connection = Any
HOUR = timedelta(hours=1)
NEW, AGAIN = Received(again=False), Received(again=True)
ASK = {"job": "test.ask.v1", "input": {"url": "{{wait.paid.url}}"}}
PAID = {"needs": ["ask"], "wait_for_webhook": {"timeout": "1h"}}
SHIP = {"needs": ["paid"], "job": "test.ship.v1", "input": {"got": "{{tasks.paid.body}}"}}
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.fixture
async def other(database: str, clock: Clock) -> AsyncIterator[Database]:
    """A second process."""
    opened = await Database.open(DatabaseOptions(url=database, clock=clock.now))
    yield opened
    await opened.close()


async def waiting(db: Database, *, paid: Any = None) -> tuple[UUID, Stage]:
    """A run whose step waits for its callback."""
    run = await run_of(db, ask=ASK, paid=paid or PAID, ship=SHIP)
    stage = await play(db, ask="asked")
    assert await letters(db, run) == "sa."
    return run, stage


async def rows(conn: Connection) -> int:
    count: int = await conn.fetchval("select count(*) from windlass.hook")
    return count


async def timers(conn: Connection) -> int:
    count: int = await conn.fetchval("select count(*) from windlass.timer")
    return count


# The address


async def test_the_address_is_the_same_in_every_process_and_in_every_template(db: Database, other: Database) -> None:
    run = await run_of(db, ask=ASK, paid=PAID, ship=SHIP)
    stage = await play(db, ask="asked")
    [payload] = stage.payloads["ask"]
    assert payload == {"url": f"http://127.0.0.1:8080/wh/{await token_of(db, run)}"}
    assert await token_of(db, run) == await token_of(other, run)


async def test_the_address_begins_with_the_public_url(db: Database) -> None:
    db.public_url.configured = "https://windlass.example/flows"
    run = await run_of(db, ask=ASK, paid=PAID)
    [payload] = (await play(db)).payloads["ask"]
    assert payload["url"] == f"https://windlass.example/flows/wh/{await token_of(db, run)}"


async def test_every_run_and_step_has_a_token_of_its_own(db: Database) -> None:
    await deploy(db, paid=PAID | {"needs": []}, sent=PAID | {"needs": []})
    ids = [await begin(db) for _ in range(20)]
    tokens = {await token_of(db, run, step) for run in ids for step in ("paid", "sent")}
    assert len(tokens) == 40
    assert {len(token) for token in tokens} == {43}  # 256 bits


async def test_the_database_keeps_the_hash_of_a_token_and_no_token(db: Database, conn: Connection) -> None:
    run, _ = await waiting(db)
    token = await token_of(db, run)
    assert await conn.fetchval("select token_hash from windlass.hook") == token_digest(token)
    kept = await conn.fetchval("select to_jsonb(h)::text || to_jsonb(r)::text from windlass.hook h, windlass.run r")
    assert token not in kept
    assert token.encode().hex() not in kept


async def test_it_is_made_when_the_run_begins_though_the_step_waits_much_later(db: Database, conn: Connection) -> None:
    run = await run_of(db, ask=ASK, paid=PAID)
    assert (await letters(db, run), await rows(conn), await timers(conn)) == ("a.", 1, 0)


async def test_a_run_that_waits_for_a_place_gets_it_when_it_begins(db: Database, conn: Connection) -> None:
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


async def test_a_run_below_a_step_has_addresses_of_its_own(db: Database, conn: Connection) -> None:
    await deploy(db, "below", ask=ASK, paid=PAID)
    run = await run_of(db, sub={"workflow": "below"})
    await tick(db)
    child = await conn.fetchval("select id from windlass.run where parent_id = $1", run)
    assert await rows(conn) == 1
    await call(db, child, b'{"n": 1}')
    await play(db)
    assert (await state(db, child), await state(db, run)) == ("completed", "completed")
    assert await runs.output(db, run) == {"n": 1}


async def test_a_wait_without_anything_before_it_waits_at_once(db: Database, conn: Connection) -> None:
    run = await run_of(db, paid={"wait_for_webhook": True})
    assert (await letters(db, run), await timers(conn)) == ("a", 0)
    assert await call(db, run) == NEW
    assert await state(db, run) == "completed"


async def test_a_thousand_starts_in_one_call_have_a_thousand_addresses(db: Database, conn: Connection) -> None:
    await deploy(db, ask=ASK, paid=PAID)
    await start.start(db, "w", [RunSpec()] * 1000)
    assert await conn.fetchval("select count(distinct token_hash) from windlass.hook") == 1000


# The callback


async def test_a_callback_ends_the_wait_and_its_body_is_the_output(db: Database, conn: Connection) -> None:
    run, stage = await waiting(db)
    assert await call(db, run, b'{"status": "paid", "n": 1.5}') == NEW
    assert (await letters(db, run), await timers(conn)) == ("ssa", 0)
    await stage.play()
    assert stage.payloads["ship"] == [{"got": {"status": "paid", "n": 1.5}}]
    assert await state(db, run) == "completed"


async def test_an_early_callback_is_kept_and_heard_when_the_step_is_reached(db: Database, conn: Connection) -> None:
    run = await run_of(db, ask=ASK, paid=PAID, ship=SHIP)
    assert await call(db, run, b'"early"') == NEW
    assert await letters(db, run) == "a.."
    stage = await play(db)
    assert stage.payloads["ship"] == [{"got": "early"}]
    assert (await state(db, run), await timers(conn)) == ("completed", 0)


async def test_an_early_callback_survives_the_end_of_the_process(database: str) -> None:
    first = await Database.open(DatabaseOptions(url=database))
    run = await run_of(first, ask=ASK, paid=PAID, ship=SHIP)
    await call(first, run, b"[1, 2]", x_from="bank")
    await first.close()
    second = await Database.open(DatabaseOptions(url=database))
    stage = await play(second)
    assert stage.payloads["ship"] == [{"got": [1, 2]}]
    assert await call(second, run, b"[3]") == AGAIN
    await second.close()


async def test_an_early_callback_of_a_skipped_step_changes_nothing(db: Database) -> None:
    paid = PAID | {"if": "tasks.ask.status == 'failed'"}
    run = await run_of(db, ask=ASK, paid=paid, ship=SHIP)
    await call(db, run)
    await play(db)
    assert (await letters(db, run), await state(db, run)) == ("skk", "completed")


async def test_a_second_callback_is_welcome_and_changes_nothing(db: Database, conn: Connection) -> None:
    run, stage = await waiting(db)
    await call(db, run, b'"first"')
    kept = await conn.fetchrow("select * from windlass.hook")
    assert await call(db, run, b'"second"') == AGAIN
    await stage.play()
    assert stage.payloads["ship"] == [{"got": "first"}]
    assert await call(db, run, b'"third"') == AGAIN  # the run has ended, and it was heard
    assert await conn.fetchrow("select * from windlass.hook") == kept


async def test_ten_callbacks_at_once_count_as_one(db: Database, other: Database, conn: Connection) -> None:
    run, _ = await waiting(db)
    each = [call(process, run, json.dumps(n).encode()) for n, process in enumerate([db, other] * 5)]
    answers = await asyncio.gather(*each)
    assert sorted(answer.again for answer in answers) == [False] + [True] * 9
    assert await letters(db, run) == "ssa"
    assert await conn.fetchval("select count(*) from workflow.workflow_run where step = 2") == 1


@pytest.mark.parametrize("token", ["", "x", "A" * 43, "é", "\x00", "\ud800", "A" * 100_000])
async def test_an_unknown_token_is_not_found_whatever_it_is(db: Database, token: str) -> None:
    await waiting(db)
    with pytest.raises(NotFound, match="no callback address of this token"):
        await hooks.receive(db, token, b"{}", {})


async def test_replaying_everything_changes_nothing(db: Database, conn: Connection) -> None:
    run, stage = await waiting(db)
    await call(db, run, b"1")
    await stage.play()
    look = "select (select jsonb_agg(e) from windlass.event e)::text, (select jsonb_agg(r) from windlass.run r)::text"
    before = await conn.fetchrow(look)
    for _ in range(3):
        await call(db, run, b"2")
        await tick(db)
        await stage.play()
    assert await conn.fetchrow(look) == before


# Nobody waits any more


async def test_a_callback_after_the_time_is_gone(db: Database, clock: Clock) -> None:
    run, stage = await waiting(db)
    clock.move(HOUR)
    await stage.play()
    with pytest.raises(Gone, match="nobody waits"):
        await call(db, run)
    assert await letters(db, run) == "stk"


async def test_a_callback_of_a_cancelled_run_is_gone(db: Database) -> None:
    run, _ = await waiting(db)
    await runs.cancel(db, run)
    with pytest.raises(Gone):
        await call(db, run)


async def test_a_callback_of_a_skipped_step_is_gone_though_its_run_goes_on(db: Database) -> None:
    run = await run_of(db, ask=ASK, paid=PAID | {"if": "false"}, long={"job": "test.long.v1"})
    player = await Stage.hello(db)
    for job in await player.take():
        if player.step(job) == "ask":
            await player.end(job)
    assert (await letters(db, run), await state(db, run)) == ("ska", "running")
    with pytest.raises(Gone):
        await call(db, run)


async def test_a_callback_of_a_run_that_ended_without_it_is_gone(db: Database, clock: Clock) -> None:
    await deploy(db, ask=ASK, paid=PAID)
    run = await begin(db, max_duration=timedelta(minutes=1))
    clock.move(timedelta(minutes=2))
    await sweep.expire(db)
    assert await state(db, run) == "timeout"
    with pytest.raises(Gone):
        await call(db, run)


# Time


async def test_the_time_is_over_exactly_when_it_is_over(db: Database, clock: Clock, conn: Connection) -> None:
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


async def test_the_time_counts_from_the_wait_and_not_from_the_start(db: Database, clock: Clock) -> None:
    clock.set(datetime(2031, 5, 5, tzinfo=UTC))
    run = await run_of(db, ask=ASK, paid=PAID, ship=SHIP)
    clock.move(timedelta(days=3))
    stage = await play(db, ask="asked")
    assert await letters(db, run) == "sa."
    clock.move(HOUR)
    await stage.play()
    assert await letters(db, run) == "stk"


async def test_a_timeout_can_be_branched_on_and_is_then_handled(db: Database, clock: Clock) -> None:
    late = {"needs": ["paid"], "if": "tasks.paid.status == 'timeout'", "job": "test.late.v1"}
    run = await run_of(db, ask=ASK, paid=PAID, late=late)
    stage = await play(db)
    clock.move(HOUR)
    await stage.play()
    assert (await letters(db, run), await state(db, run)) == ("sts", "completed")
    assert stage.seen == ["ask", "late"]


async def test_a_wait_without_a_timeout_waits_until_the_run_ends(db: Database, clock: Clock, conn: Connection) -> None:
    run, _ = await waiting(db, paid=PAID | {"wait_for_webhook": True})
    assert await timers(conn) == 0
    clock.move(timedelta(days=29))
    await tick(db)
    assert await call(db, run) == NEW


@pytest.mark.parametrize("how", ["cancel", "expire", "callback"])
async def test_a_wait_that_ends_otherwise_leaves_no_timer(
    db: Database, clock: Clock, conn: Connection, how: str
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


# At the same moment


@pytest.mark.parametrize("rival", ["cancel", "timeout", "both"])
async def test_callback_timeout_and_cancel_at_once_have_one_winner(
    db: Database, other: Database, clock: Clock, conn: Connection, rival: str
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
        await runs.cancel(other, run)

    rivals = [cancel(run) for run in ids] if rival in ("cancel", "both") else []
    waking = [sweep.wake(other) for _ in range(5)] if rival in ("timeout", "both") else []
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


async def test_who_holds_the_run_first_wins_and_the_others_hear_it(
    db: Database, other: Database, clock: Clock, conn: Connection
) -> None:
    """The callback waits for the run's lock; meanwhile the run is cancelled."""
    run, _ = await waiting(db)
    block = conn.transaction()
    await block.start()
    await conn.fetch("select from windlass.run where id = $1 for update", run)
    cancelling = asyncio.create_task(runs.cancel(other, run))
    await queued(conn, 1)
    calling = asyncio.create_task(call(db, run))
    await queued(conn, 2)
    await block.rollback()
    await cancelling
    with pytest.raises(Gone):
        await calling
    assert (await letters(db, run), await state(db, run)) == ("scc", "cancelled")


async def test_a_callback_that_was_first_is_heard_though_the_time_is_over(
    db: Database, other: Database, clock: Clock, conn: Connection
) -> None:
    run, _ = await waiting(db)
    clock.move(HOUR)
    block = conn.transaction()
    await block.start()
    await conn.fetch("select from windlass.run where id = $1 for update", run)
    calling = asyncio.create_task(call(db, run))
    await queued(conn, 1)
    assert await sweep.wake(other) == 0  # somebody works on the run: it does not wait for them
    await block.rollback()
    assert await calling == NEW
    assert await tick(other) == 0
    assert await letters(db, run) == "ssa"


async def queued(conn: Connection, count: int) -> None:
    """Until so many wait for a lock."""
    look = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    async with asyncio.timeout(10):
        while await conn.fetchval(look) < count:
            await asyncio.sleep(0.005)


# Once more


async def test_a_retry_after_the_timeout_waits_again_and_can_be_called(db: Database, clock: Clock) -> None:
    run, stage = await waiting(db)
    token = await token_of(db, run)
    clock.move(HOUR)
    await stage.play()
    assert await state(db, run) == "failed"
    await runs.retry(db, run)
    assert (await letters(db, run), await token_of(db, run)) == ("sa.", token)
    assert await call(db, run, b'"late"') == NEW
    await stage.play()
    assert (await state(db, run), stage.payloads["ship"]) == ("completed", [{"got": "late"}])


async def test_a_retry_has_the_whole_time_again(db: Database, clock: Clock) -> None:
    run, stage = await waiting(db)
    clock.move(HOUR)
    await stage.play()
    await runs.retry(db, run)
    clock.move(HOUR - timedelta(seconds=1))
    await stage.play()
    assert await letters(db, run) == "sa."
    clock.move(timedelta(seconds=1))
    await stage.play()
    assert await letters(db, run) == "stk"


async def test_a_retry_of_what_comes_after_keeps_the_callback(db: Database) -> None:
    run, stage = await waiting(db)
    await call(db, run, b'"kept"')
    await stage.play({"ship": Fails(for_good=True)})
    assert await state(db, run) == "failed"
    await runs.retry(db, run)
    await stage.play()
    assert stage.payloads["ship"] == [{"got": "kept"}] * 2
    assert await call(db, run) == AGAIN


async def test_a_rerun_of_the_wait_forgets_the_callback_and_takes_another(db: Database, conn: Connection) -> None:
    run, stage = await waiting(db)
    await call(db, run, b'"old"', x_n="1")
    await stage.play()
    await runs.rerun(db, run, "paid")
    assert await letters(db, run) == "sa."
    assert tuple(await conn.fetchrow("select received_at, body, headers from windlass.hook")) == (None, None, None)
    assert await timers(conn) == 1
    assert await call(db, run, b'"new"') == NEW
    await stage.play()
    assert stage.payloads["ship"] == [{"got": "old"}, {"got": "new"}]


async def test_a_rerun_from_further_up_forgets_it_too_and_keeps_the_next_early_one(db: Database) -> None:
    run, stage = await waiting(db)
    await call(db, run, b'"old"')
    await stage.play()
    await runs.rerun(db, run, "ask")
    assert await letters(db, run) == "a.."
    assert await call(db, run, b'"new"') == NEW
    assert await call(db, run, b'"newer"') == AGAIN
    await stage.play()
    assert stage.payloads["ship"] == [{"got": "old"}, {"got": "new"}]


async def test_an_early_callback_of_a_failed_round_is_kept_for_the_retry(db: Database) -> None:
    """The step never waited and never heard it: the sender will not send again."""
    run = await run_of(db, ask=ASK, paid=PAID, ship=SHIP)
    await call(db, run, b'"early"')
    stage = await play(db, ask=Fails(for_good=True))
    assert await letters(db, run) == "fkk"
    await runs.retry(db, run)
    await stage.play()
    assert (await state(db, run), stage.payloads["ship"]) == ("completed", [{"got": "early"}])


async def test_a_run_whose_time_was_over_before_it_began_has_its_address_after_a_retry(
    db: Database, clock: Clock
) -> None:
    document = {"name": "w", "concurrency": 1, "tasks": {"ask": ASK, "paid": PAID}}
    await workflows.publish(db, parse(document))
    first, held = await begin(db), await begin(db, max_duration=timedelta(minutes=1))
    clock.move(timedelta(minutes=2))
    await sweep.expire(db)
    await runs.cancel(db, first)
    await runs.retry(db, held)
    stage = await play(db)
    assert await letters(db, held) == "sa"
    assert await call(db, held) == NEW
    assert stage.seen == ["ask"]


# What is kept


async def test_headers_are_kept_without_what_lets_one_in_elsewhere(db: Database, conn: Connection) -> None:
    run, _ = await waiting(db)
    secret = {"authorization": "Bearer s", "cookie": "a=s", "proxy_authorization": "s", "x_api_key": "s"}
    await call(db, run, b"{}", x_from="bank", content_type="application/json", **secret)
    kept = json.loads(await conn.fetchval("select headers from windlass.hook"))
    assert kept == {"x-from": "bank", "content-type": "application/json"}


async def test_templates_and_ifs_can_read_the_headers(db: Database) -> None:
    ship = {
        "needs": ["paid"],
        "if": "tasks.paid.headers['X-From'] == 'bank' && tasks.paid.status == 'received'",
        "job": "test.ship.v1",
        "input": {"from": "{{tasks.paid.headers.X-From}}", "status": "{{tasks.paid.status}}"},
    }
    run = await run_of(db, ask=ASK, paid=PAID, ship=ship)
    stage = await play(db)
    await call(db, run, x_from="bank")
    await stage.play()
    assert stage.payloads["ship"] == [{"from": "bank", "status": "received"}]


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b'{"a": [1, null, true]}', {"a": [1, None, True]}),
        (b"12345678901234567890", 12345678901234567890),
        (b'"text"', "text"),
        (b"null", None),
        (b"", None),
        (b"status=paid&n=1", "status=paid&n=1"),
        (b"{broken", "{broken"),
        (b"NaN", "NaN"),
        ("grüße".encode(), "grüße"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"a\x00b", "a\\x00b"),
        (b"[" * 5000, "[" * 5000),
        (b"1" * 5000, "1" * 5000),
    ],
)
async def test_a_body_is_json_or_else_a_text(db: Database, body: bytes, value: Any) -> None:
    run, stage = await waiting(db)
    await call(db, run, body)
    await stage.play()
    assert stage.payloads["ship"] == [{"got": value}]


async def test_a_nul_inside_of_json_is_replaced_where_the_value_is_passed_on(db: Database) -> None:
    run, stage = await waiting(db)
    await call(db, run, rb'{"a": "\u0000"}')
    await stage.play()
    assert (await letters(db, run), await state(db, run)) == ("sss", "completed")
    assert "\\x00" in str(stage.payloads["ship"])


async def test_a_body_has_a_megabyte_at_most(db: Database, conn: Connection) -> None:
    run, _ = await waiting(db)
    with pytest.raises(Invalid, match=f"the body is {BODY_LIMIT + 1} bytes, the limit is {BODY_LIMIT}"):
        await call(db, run, b"x" * (BODY_LIMIT + 1))
    assert await letters(db, run) == "sa."
    assert await call(db, run, b"x" * BODY_LIMIT) == NEW
    assert await conn.fetchval("select length(body) from windlass.hook") == BODY_LIMIT


async def test_a_large_body_that_is_passed_on_is_refused_as_an_input_with_a_sentence(db: Database) -> None:
    run, stage = await waiting(db)
    await call(db, run, b"x" * BODY_LIMIT)
    await stage.play()
    assert (await words(db, run))["ship"] == "failed"
    assert "the input of ship is" in (await reasons(db, run, "ship"))[0]


# Signatures


def signed(body: bytes, moment: datetime, *, secret: str = SECRET, id_: str = "msg_1") -> dict[str, str]:
    stamp = str(int(moment.timestamp()))
    mark = webhook.signature(secret, id_, stamp, body)
    return {"webhook_id": id_, "webhook_timestamp": stamp, "webhook_signature": f"v1,{mark}"}


SIGNED = PAID | {"wait_for_webhook": {"timeout": "1h", "secret": SECRET}}


async def test_with_a_secret_a_callback_must_be_signed_and_fresh(db: Database, clock: Clock) -> None:
    now = datetime(2031, 5, 5, tzinfo=UTC)
    clock.set(now)
    run, _ = await waiting(db, paid=SIGNED)
    for headers, why in [
        ({}, "are required"),
        (signed(b"other", now), "does not match"),
        (signed(b"1", now, secret="whsec_AAAA"), "does not match"),
        (signed(b"1", now - timedelta(seconds=301)), "differs from the current time"),
        (signed(b"1", now + timedelta(seconds=301)), "differs from the current time"),
    ]:
        with pytest.raises(Refused, match=why):
            await call(db, run, b"1", **headers)
    assert await letters(db, run) == "sa."
    assert await call(db, run, b"1", **signed(b"1", now)) == NEW


async def test_a_signed_callback_that_was_heard_is_refused_after_a_rerun(db: Database, clock: Clock) -> None:
    now = datetime(2031, 5, 5, tzinfo=UTC)
    clock.set(now)
    run, stage = await waiting(db, paid=SIGNED)
    old, request = await token_of(db, run), signed(b'"yes"', now)
    headers = {name.replace("_", "-"): value for name, value in request.items()}
    assert await hooks.receive(db, old, b'"yes"', headers) == NEW
    assert await hooks.receive(db, old, b'"yes"', headers) == AGAIN
    await stage.play()
    await runs.rerun(db, run, "paid")
    new = await token_of(db, run)
    assert new != old
    with pytest.raises(NotFound, match="callback address"):
        await hooks.receive(db, old, b'"yes"', headers)
    assert await hooks.receive(db, new, b'"yes"', headers) == AGAIN  # the signature does not cover the address
    assert await letters(db, run) == "sa."
    assert await call(db, run, b'"yes"', **signed(b'"yes"', now, id_="msg_2")) == NEW


async def test_templates_of_a_later_round_have_the_new_address(db: Database) -> None:
    run, stage = await waiting(db)
    await call(db, run)
    await stage.play()
    await runs.rerun(db, run, "ask")
    await stage.play()
    first, second = [payload["url"].rpartition("/")[2] for payload in stage.payloads["ask"]]
    assert (first != second, second) == (True, await token_of(db, run))


async def test_whoever_cannot_sign_learns_nothing_about_the_run(db: Database, clock: Clock) -> None:
    now = datetime(2031, 5, 5, tzinfo=UTC)
    clock.set(now)
    run, _ = await waiting(db, paid=SIGNED)
    await call(db, run, b"1", **signed(b"1", now))
    with pytest.raises(Refused):
        await call(db, run, b"1")
    assert await call(db, run, b"2", **signed(b"2", now)) == AGAIN
    cancelled, _ = await waiting(db, paid=SIGNED)
    await runs.cancel(db, cancelled)
    with pytest.raises(Refused):
        await call(db, cancelled, b"1")
    with pytest.raises(Gone):
        await call(db, cancelled, b"1", **signed(b"1", now))
