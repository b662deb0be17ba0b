"""Connections: reused while they are intact, limited in number, closed when no request needs them."""

import asyncio
import ssl
import subprocess
from datetime import timedelta
from pathlib import Path

import pytest

from tests.effects.http_harness import ask, failed, kept, performer, request, succeeded
from tests.effects.server import ClientConnection, Received, reply, says, serving


async def test_a_connection_is_reused() -> None:
    async with serving(says(reply(200, b"x"))) as server, performer() as http:
        for _ in range(10):
            succeeded(await http.perform(request(server.url)))
    assert (len(server.received), len(server.connections)) == (10, 1)


async def test_a_connection_is_reused_after_a_failure() -> None:
    async with serving(says(reply(503, b"x"))) as server, performer() as http:
        for _ in range(5):
            failed(await http.perform(request(server.url)), retryable=True)
    assert len(server.connections) == 1


async def test_a_connection_with_an_unread_body_is_not_reused() -> None:
    async with serving(says(reply(200, b"x" * 2_000_000))) as server, performer(max_body=10) as http:
        for _ in range(3):
            assert succeeded(await http.perform(request(server.url)))["body"] == "x" * 10
    assert len(server.connections) == 3


async def test_a_response_before_the_end_of_the_request_leaves_no_unsent_body_for_the_next_one() -> None:
    async def answer(received: Received, connection: ClientConnection) -> None:
        await connection.send(reply(413, b"too much"))
        if received.target == "/deaf":
            await connection.gone()

    async with serving(answer) as server, performer() as http:
        early = await http.perform(request(f"{server.url}/deaf", body="x" * 8_000_000))
        late = await http.perform(request(f"{server.url}/", body="y"))
    assert kept(failed(early, retryable=False))["body"] == "too much"
    assert kept(failed(late, retryable=False))["body"] == "too much"
    assert server.received[-1].body == b"y"


async def test_the_connections_per_host_are_limited() -> None:
    both = asyncio.Barrier(2)

    async def answer(_: Received, connection: ClientConnection) -> None:
        await both.wait()
        await connection.send(reply())

    async with serving(answer) as server, performer(per_host=2) as http:
        await asyncio.gather(*(http.perform(request(server.url)) for _ in range(20)))
    assert (server.busiest, len(server.received)) == (2, 20)


async def test_the_connections_to_all_hosts_are_limited() -> None:
    both = asyncio.Barrier(2)

    async def answer(_: Received, connection: ClientConnection) -> None:
        await both.wait()
        await connection.send(reply())

    async with serving(answer) as one, serving(answer) as other, performer(total=2) as http:
        await asyncio.gather(*(http.perform(request(url)) for url in [one.url, other.url] * 4))
    assert one.busiest + other.busiest <= 4
    assert len(one.received) + len(other.received) == 8


@pytest.mark.parametrize(
    "sent", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"], ids=["before the answer", "halfway through it"]
)
async def test_cancelling_closes_the_connection(sent: bytes) -> None:
    arrived, gone = asyncio.Event(), asyncio.Event()

    async def answer(_: Received, connection: ClientConnection) -> None:
        await connection.send(sent)
        arrived.set()
        await connection.gone()
        gone.set()

    async with serving(answer) as server, performer() as http:
        asking = asyncio.create_task(http.perform(request(server.url)))
        await arrived.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await gone.wait()


async def test_a_timeout_closes_the_connection_and_frees_its_slot() -> None:
    async def answer(received: Received, connection: ClientConnection) -> None:
        if received.target == "/slow":
            await connection.gone()
        else:
            await connection.send(reply())

    async with serving(answer) as server, performer(per_host=1) as http:
        slow = request(f"{server.url}/slow", timeout=timedelta(milliseconds=50))
        assert failed(await http.perform(slow), retryable=True).error["type"] == "Timeout"
        succeeded(await http.perform(request(server.url)))


async def test_a_connection_that_the_server_closed_between_requests_is_replaced() -> None:
    async def answer(_: Received, connection: ClientConnection) -> None:
        await connection.send(reply())
        connection.writer.close()
        await connection.writer.wait_closed()

    async with serving(answer) as server, performer() as http:
        succeeded(await http.perform(request(server.url, method="GET")))
        succeeded(await http.perform(request(server.url, method="GET")))
    assert len(server.connections) == 2


async def test_an_untrusted_certificate_is_a_network_error(tmp_path: Path) -> None:
    async with serving(says(reply()), tls=self_signed(tmp_path)) as server:
        outcome = failed(await ask(server.url), retryable=True)
    assert outcome.error["type"] == "NetworkError"
    assert "certificate" in outcome.error["message"].lower()
    assert server.received == []


async def test_a_tls_handshake_without_a_response_ends_at_the_connect_timeout() -> None:
    async with serving(says(reply())) as server:
        url, brief = server.url.replace("http:", "https:"), timedelta(milliseconds=50)
        outcome = failed(await ask(url, options={"connect_timeout": brief}), retryable=True)
    assert outcome.error == {"type": "Timeout", "message": f"POST {url}: the connection timed out"}


async def test_a_performer_can_be_closed_twice_and_opened_again() -> None:
    http = performer()
    async with serving(says(reply())) as server:
        for _ in range(2):
            await http.open()
            succeeded(await http.perform(request(server.url)))
            await http.close()
            await http.close()


def self_signed(folder: Path) -> ssl.SSLContext:
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=127.0.0.1"]
    subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context
