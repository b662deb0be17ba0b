"""The example shop, as HTTP steps use it."""

import asyncio
import json
import signal
import sys
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from examples.shop import CARDS, Shop

from tests.e2e.shop import LOOPBACK
from tests.effects.http_harness import ask, failed, request, succeeded
from tests.effects.server import reply, says, serving
from windlass.effects.http.step import Http, HttpOptions

ROOT = Path(__file__).parents[2]


async def post(shop: Shop, path: str, body: Any = None, *, key: str = "run-1/step/0") -> dict[str, Any]:
    async with Http(HttpOptions(allow=LOOPBACK)) as http:
        document = succeeded(await http.perform(request(f"{shop.url}{path}", body=body, idempotency_key=key)))
    answer: dict[str, Any] = json.loads(document["body"])
    return answer


async def test_the_response_to_a_charge_contains_the_amount(shop: Shop) -> None:
    answer = await post(shop, "/charge", {"order": "A-1", "card": "visa"})
    assert (answer["order"], answer["amount"]) == ("A-1", 1999)
    (call,) = shop.calls
    assert (call.path, call.body["order"], call.headers["windlass-attempt"]) == ("/charge", "A-1", "2")


@pytest.mark.parametrize(("card", "status"), CARDS.items())
async def test_the_card_determines_the_status_of_a_charge(shop: Shop, card: str, status: int) -> None:
    failed(await ask(f"{shop.url}/charge", body={"order": "A-1", "card": card}), retryable=status >= 500)
    assert [call.status for call in shop.calls_to("/charge")] == [status]


async def test_a_test_can_set_the_status_of_the_next_responses(shop: Shop) -> None:
    shop.will_answer("/ship", 503, 404)
    failed(await ask(f"{shop.url}/ship", body={}), retryable=True)
    failed(await ask(f"{shop.url}/ship", body={}), retryable=False)
    assert (await post(shop, "/ship"))["done"] is True
    assert [call.status for call in shop.calls] == [503, 404, 200]


async def test_a_repeated_idempotency_key_returns_the_first_response(shop: Shop) -> None:
    first, again, other = [await post(shop, "/receipt", {}, key=key) for key in ("a", "a", "b")]
    assert first == again
    assert other["number"] == first["number"] + 1


async def test_a_test_can_wait_for_calls(shop: Shop) -> None:
    waiting = asyncio.create_task(shop.called("/mails", times=2))
    await post(shop, "/mails", {"n": 1}, key="a")
    await post(shop, "/mails", {"n": 2}, key="b")
    assert (await waiting).body == {"n": 2}


@pytest.mark.parametrize("through_http", [True, False])
async def test_the_callback_url_is_stored_and_called(shop: Shop, through_http: bool) -> None:
    async with serving(says(reply(202))) as hook:
        await post(shop, "/create-checkout", {"order": 7, "amount": 1, "callback_url": f"{hook.url}/wh/token"})
        if through_http:
            assert await post(shop, "/pay/7", {"status": "refused"}) == {"answered": 202}
        else:
            assert await shop.pay("7", "refused") == 202
    (received,) = hook.received
    assert (received.method, received.target) == ("POST", "/wh/token")
    assert json.loads(received.body) == {"order": "7", "status": "refused", "payment_id": "pay-7"}


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [("/charge", "nonsense", 400), ("/charge", "[]", 400), ("/create-checkout", "{}", 422), ("/pay/9", "", 404)],
)
async def test_invalid_requests_are_rejected(shop: Shop, path: str, body: str, status: int) -> None:
    outcome = failed(await ask(f"{shop.url}{path}", body=body), retryable=False)
    assert json.loads(outcome.result or "")["status_code"] == status


async def test_the_shop_can_be_started_from_the_command_line() -> None:
    command = [sys.executable, "-m", "examples.shop", "--port", "0"]
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        url = (await process.stdout.readline()).decode().split()[-1]
        async with aiohttp.ClientSession() as session, session.post(f"{url}/ship", json={"order": 1}) as answer:
            assert answer.status == 200
        assert (await process.stdout.readline()).decode().strip() == '200 /ship {"order": 1}'
        process.send_signal(signal.SIGINT)
        assert (await process.stdout.read()).decode().strip() == "stopped"
        assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
