"""The stored body and headers of a callback, and signed callbacks."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.engine.fake_services import call, play, run_of, token_of
from tests.engine.harness import letters, reasons, state, words
from tests.engine.hook_harness import AGAIN, ASK, NEW, PAID, Connection, waiting
from windlass.core.events import webhook
from windlass.core.events.webhook import BODY_LIMIT
from windlass.engine import hooks
from windlass.engine.database import Tenant
from windlass.engine.runs import control as runs
from windlass.errors import Gone, Invalid, NotFound, Refused
from windlass.testing import Clock

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


# Bodies and headers


async def test_headers_are_stored_without_credentials(db: Tenant, conn: Connection) -> None:
    run, _ = await waiting(db)
    secret = {"authorization": "Bearer s", "cookie": "a=s", "proxy_authorization": "s", "x_api_key": "s"}
    await call(db, run, b"{}", x_from="bank", content_type="application/json", **secret)
    kept = json.loads(await conn.fetchval("select headers from windlass.hook"))
    assert kept == {"x-from": "bank", "content-type": "application/json"}


async def test_templates_and_ifs_can_read_the_headers(db: Tenant) -> None:
    ship = {
        "needs": ["paid"],
        "if": "tasks.paid.headers['X-From'] == 'bank' && tasks.paid.status == 'received'",
        "job": "test.ship.v1",
        "input": {"from": "{{tasks.paid.headers.X-From}}", "status": "{{tasks.paid.status}}"},
    }
    run = await run_of(db, ask=ASK, paid=PAID, ship=ship)
    worker = await play(db)
    await call(db, run, x_from="bank")
    await worker.play()
    assert worker.payloads["ship"] == [{"from": "bank", "status": "received"}]


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
async def test_a_body_is_parsed_as_json_or_else_kept_as_a_string(db: Tenant, body: bytes, value: Any) -> None:
    run, worker = await waiting(db)
    await call(db, run, body)
    await worker.play()
    assert worker.payloads["ship"] == [{"got": value}]


async def test_a_nul_in_a_json_body_is_replaced_in_the_input_of_the_next_step(db: Tenant) -> None:
    run, worker = await waiting(db)
    await call(db, run, rb'{"a": "\u0000"}')
    await worker.play()
    assert (await letters(db, run), await state(db, run)) == ("sss", "completed")
    assert "\\x00" in str(worker.payloads["ship"])


async def test_a_body_is_limited_to_one_megabyte(db: Tenant, conn: Connection) -> None:
    run, _ = await waiting(db)
    with pytest.raises(Invalid, match=f"the body is {BODY_LIMIT + 1} bytes, the limit is {BODY_LIMIT}"):
        await call(db, run, b"x" * (BODY_LIMIT + 1))
    assert await letters(db, run) == "sa."
    assert await call(db, run, b"x" * BODY_LIMIT) == NEW
    assert await conn.fetchval("select length(body) from windlass.hook") == BODY_LIMIT


async def test_a_body_that_is_too_large_for_an_input_fails_the_step_with_a_reason(db: Tenant) -> None:
    run, worker = await waiting(db)
    await call(db, run, b"x" * BODY_LIMIT)
    await worker.play()
    assert (await words(db, run))["ship"] == "failed"
    assert "the input of ship is" in (await reasons(db, run, "ship"))[0]


def signed(body: bytes, moment: datetime, *, secret: str = SECRET, id_: str = "msg_1") -> dict[str, str]:
    stamp = str(int(moment.timestamp()))
    mark = webhook.signature(secret, id_, stamp, body)
    return {"webhook_id": id_, "webhook_timestamp": stamp, "webhook_signature": f"v1,{mark}"}


SIGNED = PAID | {"wait_for_webhook": {"timeout": "1h", "secret": SECRET}}


# Signatures


async def test_a_callback_to_a_hook_with_a_secret_must_be_signed_and_recent(db: Tenant, clock: Clock) -> None:
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


async def test_a_signed_callback_cannot_be_replayed_after_a_rerun(db: Tenant, clock: Clock) -> None:
    now = datetime(2031, 5, 5, tzinfo=UTC)
    clock.set(now)
    run, worker = await waiting(db, paid=SIGNED)
    old, request = await token_of(db, run), signed(b'"yes"', now)
    headers = {name.replace("_", "-"): value for name, value in request.items()}
    assert await hooks.receive(db, old, b'"yes"', headers) == NEW
    assert await hooks.receive(db, old, b'"yes"', headers) == AGAIN
    await worker.play()
    await runs.rerun(db, run, "paid")
    new = await token_of(db, run)
    assert new != old
    with pytest.raises(NotFound, match="callback address"):
        await hooks.receive(db, old, b'"yes"', headers)
    assert await hooks.receive(db, new, b'"yes"', headers) == AGAIN  # the signature does not cover the address
    assert await letters(db, run) == "sa."
    assert await call(db, run, b'"yes"', **signed(b'"yes"', now, id_="msg_2")) == NEW


async def test_templates_of_a_rerun_have_the_new_callback_address(db: Tenant) -> None:
    run, worker = await waiting(db)
    await call(db, run)
    await worker.play()
    await runs.rerun(db, run, "ask")
    await worker.play()
    first, second = [payload["url"].rpartition("/")[2] for payload in worker.payloads["ask"]]
    assert (first != second, second) == (True, await token_of(db, run))


async def test_an_unsigned_callback_reveals_nothing_about_the_run(db: Tenant, clock: Clock) -> None:
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
