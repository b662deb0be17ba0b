"""The requests of HTTP steps: headers, bodies, queries, and which of them the user may set."""

from importlib.metadata import version
from typing import Any

import pytest

from tests.effects.http_harness import ask, failed, performer, request, succeeded
from tests.effects.server import Received, reply, says, serving


async def sent(path: str = "/", **fields: Any) -> Received:
    async with serving(says(reply())) as server:
        succeeded(await ask(server.url + path, **fields))
    return server.received[0]


async def test_each_request_has_identity_and_trace_headers() -> None:
    received = await sent(traceparent="00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
    told = received.headers
    assert told["idempotency-key"] == "run-1/charge/0"
    assert (told["windlass-fence"], told["windlass-attempt"], told["windlass-run"]) == ("7", "2", "run-1")
    assert told["traceparent"].startswith("00-4bf9")
    assert told["user-agent"] == f"windlass/{version('windlass')}"
    assert told["accept-encoding"] == "gzip, deflate"


async def test_without_a_trace_there_is_no_traceparent() -> None:
    assert "traceparent" not in (await sent()).headers


async def test_attempts_of_one_instance_share_their_idempotency_key() -> None:
    async with serving(says(reply(503))) as server, performer() as http:
        for attempt in (1, 2, 3):
            await http.perform(request(server.url, attempt=attempt, fence=attempt * 10))
    assert {received.headers["idempotency-key"] for received in server.received} == {"run-1/charge/0"}
    assert [received.headers["windlass-fence"] for received in server.received] == ["10", "20", "30"]


@pytest.mark.parametrize(
    "name",
    ["User-Agent", "idempotency-KEY", "Windlass-Run", "Accept", "Accept-Encoding", "content-type", "TraceParent"],
)
async def test_custom_headers_override_the_default_headers(name: str) -> None:
    received = await sent(headers={name: "mine"}, body={"a": 1}, traceparent="00-0")
    assert received.headers[name.lower()] == "mine"


@pytest.mark.parametrize(
    "name",
    ["Host", "host", "Content-Length", "Transfer-Encoding", "Connection", "Upgrade", "Expect", "TE", "Keep-Alive"],
)
async def test_connection_headers_cannot_be_set(name: str) -> None:
    outcome = failed(await ask("http://127.0.0.1:9/", headers={name: "1"}), retryable=False)
    assert f"the header {name} cannot be set" in outcome.error["message"]


@pytest.mark.parametrize("value", ["a\r\nHost: b", "a\nb", "a\x00b", "\x7f", "\ud800"])
async def test_a_header_value_cannot_inject_another_header(value: str) -> None:
    outcome = failed(await ask("http://127.0.0.1:9/", headers={"X-Key": value}), retryable=False)
    assert outcome.error == {"type": "Invalid", "message": "the header X-Key must be a string of one line"}


@pytest.mark.parametrize("name", ["", "a b", "a:b", "ä", "a\r\nb"])
async def test_an_invalid_header_name_is_refused(name: str) -> None:
    failed(await ask("http://127.0.0.1:9/", headers={name: "x"}), retryable=False)


@pytest.mark.parametrize(
    ("body", "data", "media"),
    [
        ({"a": [1, "ä"]}, '{"a":[1,"ä"]}'.encode(), "application/json"),
        ([], b"[]", "application/json"),
        (False, b"false", "application/json"),
        (0, b"0", "application/json"),
        ("grün", "grün".encode(), "text/plain; charset=utf-8"),
        ("", b"", "text/plain; charset=utf-8"),
        (None, b"", None),
    ],
)
async def test_bodies_are_json_text_or_nothing(body: Any, data: bytes, media: str | None) -> None:
    received = await sent(body=body)
    assert (received.body, received.headers.get("content-type")) == (data, media)
    assert received.headers["content-length"] == str(len(data))


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "get"])
async def test_every_method_is_sent_in_upper_case(method: str) -> None:
    assert (await sent(method=method)).method == method.upper()


async def test_query_parameters_are_appended_to_those_of_the_url() -> None:
    query = {"n": 1, "on": True, "tag": ["a", "b c"], "x": 1.5, "ü": "&="}
    received = await sent("/p?q=1", query=query)
    assert received.target == "/p?q=1&n=1&on=true&tag=a&tag=b+c&x=1.5&%C3%BC=%26%3D"


async def test_the_percent_encoding_of_signed_urls_is_preserved() -> None:
    path = "/a%2Fb/c?sig=a%2Bb%3D%3D&t=2030-01-01T00%3A00%3A00Z"
    assert (await sent(path)).target.replace(":", "%3A") == path


async def test_cookies_are_not_stored_between_requests() -> None:
    async def look_up(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    async with serving(says(reply(200, b"", "Set-Cookie: session=1"))) as server, performer(look_up=look_up) as http:
        for _ in range(2):
            succeeded(await http.perform(request(f"http://name.example:{server.port}/")))
    assert len(server.received) == 2
    assert "cookie" not in server.received[1].headers


async def test_proxy_environment_variables_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert (await sent("/direct")).target == "/direct"
