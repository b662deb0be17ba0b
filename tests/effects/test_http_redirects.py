"""Redirects are followed one by one and checked like any address; headers for one origin are not sent to another."""

from dataclasses import replace

import pytest
from multidict import CIMultiDict
from yarl import URL

from tests.effects.http_harness import ask, failed, kept, succeeded
from tests.effects.server import Answer, ClientConnection, Received, reply, says, serving
from windlass.effects.http.request import Message, redirected
from windlass.errors import Invalid

KEYS = {"Authorization": "Bearer k", "Cookie": "a=b", "X-Api-Key": "k", "Accept": "text/html"}


def moves(status: int, location: str) -> Answer:
    """Redirect `/` to `location` and respond with 200 to everything else."""

    async def answer(received: Received, connection: ClientConnection) -> None:
        moved = received.target == "/"
        body = b"" if received.method == "HEAD" else b"moved"
        await connection.send(reply(status, body, f"Location: {location}") if moved else reply())

    return answer


@pytest.mark.parametrize(
    ("status", "method", "then"),
    [
        (303, "POST", "GET"),
        (303, "PUT", "GET"),
        (303, "HEAD", "HEAD"),
        (301, "POST", "GET"),
        (302, "POST", "GET"),
        (301, "PUT", "PUT"),
        (302, "DELETE", "DELETE"),
        (302, "GET", "GET"),
        (307, "POST", "POST"),
        (308, "POST", "POST"),
        (307, "PATCH", "PATCH"),
    ],
)
async def test_the_status_of_a_redirect_decides_the_next_method_and_body(status: int, method: str, then: str) -> None:
    async with serving(moves(status, "/there")) as server:
        succeeded(await ask(server.url, method=method, body={"a": 1}))
    first, second = server.received
    assert (first.method, second.method, second.target) == (method, then, "/there")
    stays = then == method and method != "GET"
    if stays or method == "GET":
        assert (second.body, second.headers["content-type"]) == (first.body, "application/json")
    else:
        assert (second.body, "content-type" in second.headers) == (b"", False)


@pytest.mark.parametrize(
    ("location", "target"),
    [
        ("there", "/there"),
        ("/a/../there", "/there"),
        ("?q=1", "/?q=1"),
        ("/there#part", "/there"),
        ("//{host}/x", "/x"),
    ],
)
async def test_a_location_may_be_relative(location: str, target: str) -> None:
    async def answer(received: Received, connection: ClientConnection) -> None:
        to = location.format(host=received.headers["host"])
        await connection.send(reply(302, b"", f"Location: {to}") if received.target == "/" else reply())

    async with serving(answer) as server:
        succeeded(await ask(server.url))
    assert server.received[1].target == target


async def test_redirects_within_one_origin_keep_all_headers() -> None:
    async with serving(moves(307, "/there")) as server:
        succeeded(await ask(server.url, headers=KEYS))
    first, second = server.received
    assert first.headers == second.headers


async def test_redirects_across_origins_drop_credentials_and_identity_headers() -> None:
    async with serving(says(reply())) as other, serving(moves(307, f"{other.url}/x")) as server:
        succeeded(await ask(server.url, headers=KEYS, traceparent="00-0"))
    told = other.received[0].headers
    assert told.keys() == {"host", "user-agent", "accept", "accept-encoding", "content-length"}
    assert told["accept"] == "text/html"
    assert told["host"] == f"127.0.0.1:{other.port}"


@pytest.mark.parametrize(("status", "method"), [(307, "POST"), (308, "PUT"), (301, "PATCH"), (302, "DELETE")])
async def test_redirects_across_origins_do_not_send_the_body(status: int, method: str) -> None:
    async with serving(says(reply())) as other, serving(moves(status, f"{other.url}/x")) as server:
        outcome = failed(await ask(server.url, method=method, body={"secret": 1}), retryable=False)
        assert "another origin: the body is not sent there" in outcome.error["message"]
        assert kept(outcome)["status_code"] == status
        succeeded(await ask(server.url, method="POST" if status < 303 else "GET", body=None))
    assert [received.body for received in other.received] == [b""]


async def test_redirects_from_https_to_http_do_not_send_the_body() -> None:
    headers = CIMultiDict({"Authorization": "Bearer k", "Accept": "text/html"})
    message = Message("POST", URL("https://pay.example/charge"), headers, b"secret")
    with pytest.raises(Invalid, match="another origin"):
        redirected(message, 307, "http://pay.example/charge")
    empty = redirected(replace(message, body=None), 307, "http://pay.example/charge")
    assert dict(empty.headers) == {"Accept": "text/html"}


async def test_a_redirect_back_to_the_first_origin_does_not_restore_credentials() -> None:
    async def answer(received: Received, connection: ClientConnection) -> None:
        await connection.send(
            reply(307, b"", f"Location: {there[received.target]}") if received.target in there else reply()
        )

    async with serving(answer) as server, serving(answer) as other:
        there = {"/": f"{other.url}/away", "/away": f"{server.url}/back"}
        succeeded(await ask(server.url, headers=KEYS))
    first, second = server.received
    assert (first.headers["authorization"], second.target) == ("Bearer k", "/back")
    assert second.headers.keys() == {"host", "user-agent", "accept", "accept-encoding", "content-length"}


async def test_the_number_of_redirects_is_limited() -> None:
    async with serving(says(reply(302, b"round", "Location: /"))) as server:
        outcome = failed(await ask(server.url), retryable=False)
        assert len(server.received) == 6
        assert outcome.error == {"type": "Invalid", "message": "more than 5 redirects"}
        assert (kept(outcome)["status_code"], kept(outcome)["body"]) == (302, "round")
        failed(await ask(server.url, options={"max_redirects": 0}), retryable=False)
        assert len(server.received) == 7


async def test_five_redirects_are_followed() -> None:
    async def answer(received: Received, connection: ClientConnection) -> None:
        step = len(received.target)
        await connection.send(reply(302, b"", f"Location: /{'x' * step}") if step < 6 else reply(200, b"done"))

    async with serving(answer) as server:
        assert succeeded(await ask(server.url))["body"] == "done"


@pytest.mark.parametrize("status", [300, 304, 305, 306])
async def test_other_3xx_status_codes_are_not_followed(status: int) -> None:
    async with serving(says(reply(status, b"", "Location: http://10.0.0.1/"))) as server:
        assert succeeded(await ask(server.url))["headers"]["location"] == "http://10.0.0.1/"


@pytest.mark.parametrize(
    ("location", "address"),
    [
        ("http://10.0.0.1/", "10.0.0.1"),
        ("http://169.254.169.254/latest/meta-data/", "169.254.169.254"),
        ("http://[::1]/", "::1"),
        ("//127.0.0.2/", "127.0.0.2"),
        ("https://localhost/", "localhost"),
    ],
)
async def test_a_redirect_to_a_private_address_is_refused(location: str, address: str) -> None:
    async with serving(moves(302, location)) as server:
        outcome = failed(await ask(server.url, options={"look_up": private}), retryable=False)
    assert outcome.error["type"] == "AddressRefused"
    assert address in outcome.error["message"]
    assert "WINDLASS_HTTP_ALLOW" in outcome.error["message"]
    assert (kept(outcome)["status_code"], kept(outcome)["body"]) == (302, "moved")


@pytest.mark.parametrize(
    "location",
    [
        "file:///etc/passwd",
        "gopher://127.0.0.1/",
        "http://a@127.0.0.1/",
        "http://2130706433/",
        "http://[::1",
        "javascript:1",
    ],
)
async def test_a_redirect_to_an_invalid_url_is_refused(location: str) -> None:
    async with serving(moves(302, location)) as server:
        outcome = failed(await ask(server.url), retryable=False)
    assert outcome.error["type"] == "Invalid"
    assert kept(outcome)["status_code"] == 302
    assert len(server.received) == 1


async def private(host: str, port: int) -> list[str]:
    return ["192.168.1.1"]
