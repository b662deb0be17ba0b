"""Rate limits of callers, requests of other origins, slow bodies, repeated requests."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from tests.keys import KEYS as MASTER_KEYS
from tests.web.serving import problem, served
from tests.web.streaming import reading
from tests.web.test_webhook_triggers import address
from windlass import Windlass
from windlass.settings import Rate, Settings
from windlass.web.middleware import limits
from windlass.web.middleware.limits import Buckets, SlotOptions
from windlass.web.middleware.rate_limit import RateOptions, Rates
from windlass.web.server import listen, serving

KEYS = ("first-key-of-sixteen", "other-key-of-sixteen")


@contextlib.asynccontextmanager
async def limited(database: str, *, keys: tuple[str, ...] = (), **chosen: Any) -> AsyncIterator[httpx.AsyncClient]:
    settings = Settings(master_keys=MASTER_KEYS, **chosen)
    async with Windlass(database, settings=settings) as app, served(app, keys=keys) as http:
        yield http


def test_a_bucket_allows_a_burst_and_then_refills_at_its_rate() -> None:
    now = [0.0]
    buckets = Buckets(Rate(3, 1.0), lambda: now[0])
    assert [buckets.take(b"a") for _ in range(4)] == [2, 1, 0, -1]
    assert buckets.take(b"b") == 2  # others have their own
    now[0] += 0.5
    assert buckets.take(b"a") == pytest.approx(0.5)
    now[0] += 100
    assert buckets.take(b"a") == 2


def test_only_the_most_recent_callers_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOST_CALLERS", 2)
    buckets = Buckets(Rate(2, 3600.0), lambda: 0.0)
    for caller in (b"a", b"b", b"a", b"c"):
        buckets.take(caller)
    assert (buckets.take(b"a"), buckets.take(b"b")) == (-1, 1)


async def test_a_client_over_the_rate_limit_gets_429_with_retry_after(database: str) -> None:
    async with limited(database, keys=KEYS, rate_limit=Rate(4, 3600.0)) as http:
        for left in ("3", "2", "1", "0"):
            answer = await http.get("/workflows")
            assert (answer.status_code, answer.headers["ratelimit-remaining"]) == (200, left)
        refused = await http.get("/workflows")
        assert "more than 4 requests" in problem(refused, 429)["detail"]
        assert 0 < int(refused.headers["retry-after"]) <= 900
        assert refused.headers["ratelimit-limit"] == "4"
        async with httpx.AsyncClient(headers=http.headers) as worker:
            ojs = await worker.get(str(http.base_url.copy_with(path="/ojs/v1/workflows/x")))
        assert (ojs.status_code, ojs.json()["error"]["code"]) == (429, "rate_limited")
        assert "retry-after" in ojs.headers
        assert (await http.get("/workflows", headers={"x-api-key": KEYS[1]})).status_code == 200
        for _ in range(5):
            assert (await http.get(str(http.base_url.copy_with(path="/health")))).status_code == 200


async def test_all_spellings_of_a_key_count_as_one_caller(database: str) -> None:
    async with limited(database, keys=KEYS, rate_limit=Rate(3, 3600.0)) as http:
        key = KEYS[0]
        spellings: list[dict[str, str]] = [{"authorization": f"Bearer{' ' * n}{key}"} for n in range(1, 3)]
        spellings += [{"authorization": f"Basic {n}", "x-api-key": key} for n in range(3)]
        async with httpx.AsyncClient(base_url=http.base_url) as plain:
            codes = [(await plain.get("/workflows", headers=headers)).status_code for headers in spellings]
    assert codes == [200, 200, 200, 429, 429]


async def test_without_keys_requests_are_counted_by_address(database: str) -> None:
    async with limited(database, rate_limit=Rate(3, 3600.0)) as http:
        codes = [(await http.get("/workflows", headers={"x-api-key": str(n)})).status_code for n in range(4)]
    assert codes == [200, 200, 200, 429]


async def test_on_loopback_requests_are_not_counted_by_default(app: Windlass) -> None:
    async with served(app) as http:
        assert "ratelimit-limit" not in (await http.get("/workflows")).headers


async def test_concurrent_requests_are_limited_and_streams_do_not_count() -> None:
    entered, leave = asyncio.Event(), asyncio.Event()

    async def app(scope: Any, _receive: Any, send: Any) -> None:
        media = b"text/event-stream" if scope["path"] == "/stream" else b"text/plain"
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", media)]})
        await send({"type": "http.response.body", "body": b"x", "more_body": True})
        entered.set()
        await leave.wait()
        await send({"type": "http.response.body", "body": b""})

    listener = listen("127.0.0.1", 0)
    async with (
        serving(Rates(app, RateOptions(slots=SlotOptions(requests=1, body_bytes=1))), listener),
        httpx.AsyncClient(base_url=listener.url) as http,
        asyncio.TaskGroup() as group,
    ):
        for path in ("/stream", "/plain"):
            entered.clear()
            group.create_task(http.get(path))
            await entered.wait()
        refused = await http.get("/plain")
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        leave.set()


async def test_a_body_that_does_not_arrive_in_time_is_408(app: Windlass, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windlass.web.server.RateOptions", lambda **options: RateOptions(**options, body_within=0.05))
    async with served(app) as http:
        reader, writer = await asyncio.open_connection("127.0.0.1", http.base_url.port)
        head = "POST /api/v1/workflows HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        writer.write(f"{head}content-length: 100\r\n\r\n{{".encode())
        answer = await asyncio.wait_for(reader.read(), 10)
        writer.close()
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"did not arrive within" in answer


async def test_a_repeated_request_starts_one_run(app: Windlass) -> None:
    async with served(app) as http:
        url = await address(http)
        for header in ("Idempotency-Key", "webhook-id"):
            runs = {(await http.post(url, json={}, headers={header: f"{header} 1"})).text for _ in range(3)}
            assert len(runs) == 1
        others = {(await http.post(url, json={}, headers={"webhook-id": str(n)})).text for n in range(2)}
        assert len(others) == 2
        assert len((await http.get("/runs")).json()["data"]) == 4
        problem(await http.post(url, json={}, headers={"idempotency-key": "x" * 256}), 422)


async def test_only_configured_cors_origins_may_use_the_api(database: str) -> None:
    page = "https://flows.example"
    asked = {"origin": page, "access-control-request-method": "POST"}
    async with limited(database, cors_origins=(page,), keys=KEYS) as http:
        async with httpx.AsyncClient(base_url=http.base_url) as browser:
            first = await browser.options("/workflows", headers=asked)
            assert (first.status_code, first.headers["access-control-allow-origin"]) == (204, page)
            assert "x-api-key" in first.headers["access-control-allow-headers"]
            refused = await browser.options("/workflows", headers=asked | {"origin": "https://evil.example"})
            assert "access-control-allow-origin" not in refused.headers
            assert (await browser.get("/workflows", headers={"origin": page})).status_code == 401
        answer = await http.get("/workflows", headers={"origin": page})
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, page)
        other = await http.get("/workflows", headers={"origin": "https://evil.example"})
        assert (other.status_code, "access-control-allow-origin" in other.headers) == (403, False)
        async with reading(http.base_url, "/stream", headers={"x-api-key": KEYS[0]}) as stream:
            assert (await anext(stream)).name == "hello"


async def test_the_documentation_needs_no_key(app: Windlass) -> None:
    async with served(app, keys=KEYS) as http, httpx.AsyncClient() as browser:
        root = f"http://{urlsplit(str(http.base_url)).netloc}"
        assert [(await browser.get(root + path)).status_code for path in ("/docs", "/openapi.json")] == [200, 200]
        assert (await browser.get(f"{root}/api/v1/workflows")).status_code == 401
