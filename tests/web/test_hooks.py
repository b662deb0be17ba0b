"""POST /wh/{token}: real requests on loopback, from any client with the token."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import httpx
import pytest

from tests.engine.fake_services import deploy, token_of
from tests.engine.harness import begin, letters
from windlass import Windlass
from windlass.core.events import webhook
from windlass.core.events.webhook import BODY_LIMIT
from windlass.engine.runs import control as runs
from windlass.web import server
from windlass.web.middleware.guard import GuardOptions
from windlass.web.middleware.limits import SlotOptions
from windlass.web.middleware.rate_limit import RateOptions
from windlass.web.server import listen, serving

KEYS = ("first-key-of-sixteen",)
PAID = {"wait_for_webhook": {"timeout": "1h"}}
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@contextlib.asynccontextmanager
async def client(app: Windlass, **options: Any) -> AsyncIterator[httpx.AsyncClient]:
    listener = listen("127.0.0.1", 0, keys=options.get("keys", ()))
    guard = GuardOptions(host=listener.host, **options)
    async with serving(server.build(app, guard), listener), httpx.AsyncClient(base_url=listener.url) as opened:
        yield opened


async def waiting(app: Windlass, *, paid: Any = None) -> tuple[UUID, str]:
    """Start a run that waits for a callback; return its id and the callback path."""
    db = await app.open()
    await deploy(db, paid=paid or PAID)
    run = await begin(db)
    return run, f"/wh/{await token_of(db, run)}"


def problem(answer: httpx.Response, status: int, title: str) -> str:
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    document = answer.json()
    assert (document["status"], document["title"]) == (status, title)
    return str(document["detail"])


async def test_a_second_callback_is_accepted_and_does_not_change_the_result(app: Windlass) -> None:
    run, path = await waiting(app)
    async with client(app) as http:
        first = await http.post(path, json={"status": "paid"})
        second = await http.post(path, json={"status": "again"})
    assert (first.status_code, first.json()) == (200, {"status": "received", "again": False})
    assert (second.status_code, second.json()) == (200, {"status": "received", "again": True})
    assert (await (await app.run(run)).result()).value == {"status": "paid"}


async def test_an_unknown_token_is_404_and_reveals_nothing_else(app: Windlass) -> None:
    await waiting(app)
    async with client(app) as http:
        for token in ("A" * 43, "x", "%00", "%C3%A9", "%FF", "a" * 5000):
            assert problem(await http.post(f"/wh/{token}"), 404, "Not found") == "no callback address of this token"
        for path in ("/wh/", "/wh", "/wh/a/b"):
            assert (await http.post(path, json={})).status_code == 404


async def test_a_callback_that_is_no_longer_expected_is_410(app: Windlass) -> None:
    run, path = await waiting(app)
    await runs.cancel(await app.open(), run)
    async with client(app) as http:
        assert "this callback is no longer expected" in problem(await http.post(path, json={}), 410, "Gone")


async def test_a_callback_without_a_valid_signature_is_401(app: Windlass) -> None:
    run, path = await waiting(app, paid={"wait_for_webhook": {"secret": SECRET}})
    body, stamp = b'{"n": 1}', str(int(datetime.now(UTC).timestamp()))
    mark = webhook.signature(SECRET, "msg_1", stamp, body)
    headers = {"Webhook-Id": "msg_1", "Webhook-Timestamp": stamp, "Webhook-Signature": f"v1,{mark}"}
    async with client(app) as http:
        told = problem(await http.post(path, content=body), 401, "Unauthorized")
        assert "not signed as required" in told
        assert SECRET not in told
        assert problem(await http.post(path, content=b"{}", headers=headers), 401, "Unauthorized")
        assert (await http.post(path, content=body, headers=headers)).status_code == 200
    assert await letters(await app.open(), run) == "s"


async def test_a_body_over_a_megabyte_is_413_with_and_without_a_length(app: Windlass) -> None:
    run, path = await waiting(app)

    async def pieces(count: int) -> AsyncIterator[bytes]:
        for _ in range(count):
            yield b"x" * 65_536

    async with client(app) as http:
        for content in (b"x" * (BODY_LIMIT + 1), pieces(17)):
            told = problem(await http.post(path, content=content), 413, "Too large")
            assert str(BODY_LIMIT) in told
        assert await letters(await app.open(), run) == "a"
        assert (await http.post(path, content=pieces(16))).status_code == 200


@pytest.mark.parametrize(
    ("media", "body", "value"),
    [
        ("application/json", b'{"n": 1}', {"n": 1}),
        ("application/cloudevents+json", b"[1]", [1]),
        ("text/plain", b"hello", "hello"),
        ("application/x-www-form-urlencoded", b"a=1&b=2", "a=1&b=2"),
        ("multipart/form-data; boundary=x", b"--x--", "--x--"),
        ("application/octet-stream", b"\xff\x00", "\ufffd\\x00"),
        ("nonsense", b'{"n": 1}', {"n": 1}),
        (None, b"true", True),
        (None, b"", None),
        ("application/json", b"", None),
    ],
)
async def test_any_content_type_is_accepted(app: Windlass, media: str | None, body: bytes, value: Any) -> None:
    run, path = await waiting(app)
    async with client(app) as http:
        headers = {} if media is None else {"content-type": media}
        assert (await http.post(path, content=body, headers=headers)).status_code == 200
    assert (await (await app.run(run)).result()).output == value


async def test_credential_headers_of_the_sender_are_not_stored(app: Windlass, conn: Any) -> None:
    _, path = await waiting(app)
    secret = {"Authorization": "Bearer s", "Cookie": "a=s", "X-Api-Key": "s"}
    async with client(app) as http:
        await http.post(path, json={}, headers={"X-From": "bank", **secret})
    kept = json.loads(await conn.fetchval("select headers from windlass.hook"))
    assert kept["x-from"] == "bank"
    assert not {"authorization", "cookie", "x-api-key"} & kept.keys()


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "PATCH"])
async def test_only_post_is_allowed(app: Windlass, method: str) -> None:
    run, path = await waiting(app)
    async with client(app) as http:
        answer = await http.request(method, path)
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    if method != "HEAD":
        assert problem(answer, 405, "Method Not Allowed") == f"{method} is not allowed here: use POST"
    assert await letters(await app.open(), run) == "a"


OURS = ["127.0.0.1", "127.0.0.1:9", "localhost:8080", "LOCALHOST", "[::1]:8080", "127.0.0.2"]
FOREIGN = ["evil.example", "evil.example:80", "localhost.evil.example", "10.0.0.1", "[::1", ""]
PUBLIC = ["flows.example", "FLOWS.example:443", "flows.example."]


@pytest.mark.parametrize(
    ("options", "taken", "refused"),
    [
        ({}, OURS, FOREIGN + PUBLIC),
        ({"public_host": "flows.example"}, OURS + PUBLIC, [*FOREIGN, "x.flows.example", "flows.example.evil"]),
        ({"public_host": ""}, OURS, FOREIGN + PUBLIC),
        ({"keys": KEYS}, OURS + FOREIGN + PUBLIC, []),
        ({"keys": KEYS, "public_host": "flows.example"}, OURS + FOREIGN + PUBLIC, []),
    ],
    ids=["alone", "public", "no public", "keys", "keys and public"],
)
async def test_without_keys_the_host_must_be_loopback_or_the_public_address(
    app: Windlass, options: Any, taken: list[str], refused: list[str]
) -> None:
    async with client(app, **options) as http:
        for host in taken:
            answer = await http.post("/wh/unknown", headers={"host": host})
            assert (host, answer.status_code) == (host, 404)  # past the guard, and without a key
        for host in refused:
            answer = await http.post("/wh/unknown", headers={"host": host})
            assert (host, "WINDLASS_PUBLIC_URL" in problem(answer, 421, "Misdirected request")) == (host, True)


async def test_with_keys_only_callbacks_need_no_key(app: Windlass) -> None:
    _, path = await waiting(app)
    async with client(app, keys=KEYS) as http:
        assert (await http.post("/api", json={})).status_code == 401
        assert (await http.post(path.replace("/wh/", "/WH/"), json={})).status_code == 401
        assert (await http.post(path, json={})).status_code == 200


async def test_the_public_host_is_accepted_only_for_callbacks(app: Windlass) -> None:
    async with client(app, public_host="flows.example") as http:
        answer = await http.get("/health", headers={"host": "flows.example"})
    assert answer.status_code == 421


async def test_a_hundred_concurrent_callbacks_count_as_one(app: Windlass) -> None:
    run, path = await waiting(app)
    async with client(app) as http:
        answers = await asyncio.gather(*(call(http, path, n) for n in range(100)))
    assert {answer.status_code for answer in answers} == {200}
    assert sum(not answer.json()["again"] for answer in answers) == 1
    assert await letters(await app.open(), run) == "s"


async def call(http: httpx.AsyncClient, path: str, body: Any) -> httpx.Response:
    """Post the callback and retry while the response is 503, like any sender."""
    while (answer := await http.post(path, json=body, timeout=None)).status_code == 503:
        pass
    return answer


async def test_a_sender_that_disconnects_during_the_body_has_no_effect(
    app: Windlass, caplog: pytest.LogCaptureFixture
) -> None:
    run, path = await waiting(app)
    async with client(app) as http:
        port = http.base_url.port
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{{".encode())
        await writer.drain()
        writer.close()
        await writer.wait_closed()
        assert await letters(await app.open(), run) == "a"
        assert (await http.post(path, json={})).json() == {"status": "received", "again": False}
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


async def test_an_invalid_json_body_is_422(app: Windlass) -> None:
    run, path = await waiting(app)
    async with client(app) as http:
        answer = await http.post(path, content=b'{"n": ', headers={"content-type": "application/json"})
        assert "body is not JSON" in problem(answer, 422, "Invalid")
        assert await letters(await app.open(), run) == "a"
        assert (await http.post(path, content=b'{"n": ', headers={"content-type": "text/plain"})).status_code == 200
    assert (await (await app.run(run)).result()).output == '{"n": '


async def unfinished(http: httpx.AsyncClient, path: str) -> tuple[bytes, asyncio.StreamWriter]:
    """Send a request whose body never arrives; return the status line of the response and the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", http.base_url.port)
    writer.write(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{{".encode())
    return await asyncio.wait_for(reader.readuntil(b"\r\n"), 10), writer


async def test_the_token_is_looked_up_before_the_body_is_read(app: Windlass) -> None:
    run, path = await waiting(app)
    await runs.cancel(await app.open(), run)
    async with client(app) as http:
        for address, status in ((path, b"410"), ("/wh/nobody", b"404"), ("/in/nobody", b"404")):
            head, writer = await unfinished(http, address)
            assert head.split()[1] == status
            writer.close()


async def test_slow_bodies_of_clients_without_a_key_take_no_slot_of_clients_with_a_key(
    app: Windlass, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = SlotOptions(requests=3, body_bytes=1, per_address=2)
    monkeypatch.setattr("windlass.web.server.RateOptions", lambda **more: RateOptions(slots=few, outside=few, **more))
    _, path = await waiting(app)
    async with client(app, keys=KEYS) as http:
        writers = []
        for _ in range(2):  # they know a token, and never finish
            _, writer = await asyncio.open_connection("127.0.0.1", http.base_url.port)
            writer.write(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{{".encode())
            writers.append(writer)
        statuses: set[int] = set()
        while 503 not in statuses:  # until both have arrived
            statuses.add((await http.post("/wh/nobody", content=b"")).status_code)
        assert statuses <= {404, 503}
        answer = await http.get("/api/v1/workflows", headers={"x-api-key": KEYS[0]})
        assert answer.status_code == 200
        for writer in writers:
            writer.close()
