"""Limits on the memory and the time that a hostile server can use."""

import gzip
import tracemalloc
import zlib
from datetime import timedelta

import pytest

from tests.effects.http_harness import ask, failed, kept, succeeded
from tests.effects.server import ClientConnection, Received, reply, says, says_and_hangs_up, serving

LIMIT = 256 * 1024
MEGA = 1024 * 1024
SOCKET_BUFFERS = 12 * MEGA  # what two kernels' ends may swallow unread


@pytest.mark.parametrize(
    ("size", "cut"), [(0, False), (LIMIT - 1, False), (LIMIT, False), (LIMIT + 1, True), (MEGA, True)]
)
async def test_a_body_is_truncated_at_the_limit(size: int, cut: bool) -> None:
    async with serving(says(reply(200, b"x" * size))) as server:
        document = succeeded(await ask(server.url))
    assert (len(document["body"]), document["is_truncated"]) == (min(size, LIMIT), cut)


async def test_reading_an_endless_body_stops_at_the_limit() -> None:
    async def answer(_: Received, connection: ClientConnection) -> None:
        await connection.send(b"HTTP/1.1 200 OK\r\n\r\n")
        await connection.send_for_ever(b"x" * 65_536)

    async with serving(answer) as server:
        document = succeeded(await ask(server.url))
        await server.connections[0].gone()
    assert (len(document["body"]), document["is_truncated"]) == (LIMIT, True)
    assert server.connections[0].sent < SOCKET_BUFFERS


async def test_reading_endless_chunks_stops_at_the_limit() -> None:
    async def answer(_: Received, connection: ClientConnection) -> None:
        await connection.send(b"HTTP/1.1 404 No\r\nTransfer-Encoding: chunked\r\n\r\n")
        await connection.send_for_ever(b"1\r\nx\r\n" * 10_000)

    async with serving(answer) as server:
        document = kept(failed(await ask(server.url), retryable=False))
        await server.connections[0].gone()
    assert (document["body"], document["is_truncated"]) == ("x" * LIMIT, True)


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_decompression_stops_at_the_limit(encoding: str) -> None:
    packed = packer(encoding, b"\0" * 256 * MEGA)
    assert len(packed) < MEGA
    async with serving(says(reply(200, packed, f"Content-Encoding: {encoding}"))) as server:
        tracemalloc.start()
        try:
            document = succeeded(await ask(server.url))
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert document["is_truncated"]
    assert len(document["body"]) <= LIMIT
    assert peak < 16 * MEGA


async def test_reading_endless_empty_gzip_members_stops() -> None:
    async def answer(_: Received, connection: ClientConnection) -> None:
        await connection.send(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n")
        await connection.send_for_ever(gzip.compress(b"") * 1000)

    async with serving(answer) as server:
        document = succeeded(await ask(server.url))
    assert (document["body"], document["is_truncated"]) == ("", True)


@pytest.mark.parametrize(
    ("encoding", "data"),
    [
        ("gzip", gzip.compress(b"hello", mtime=0)),
        ("x-gzip", gzip.compress(b"hello", mtime=0)),
        ("GZip", gzip.compress(b"hel", mtime=0) + gzip.compress(b"lo", mtime=0)),
        ("gzip", gzip.compress(b"hello", mtime=0) + b"\0" * 100),
        ("deflate", zlib.compress(b"hello")),
        ("deflate", zlib.compress(b"hello", wbits=-15)),
        ("deflate", zlib.compress(b"hello") + b"more"),
        ("identity", b"hello"),
        ("br", b"hello"),
    ],
)
async def test_compressed_bodies_are_decompressed(encoding: str, data: bytes) -> None:
    async with serving(says(reply(200, data, f"Content-Encoding: {encoding}"))) as server:
        document = succeeded(await ask(server.url))
    assert (document["body"], document["is_truncated"]) == ("hello", False)


@pytest.mark.parametrize("data", [gzip.compress(b"hello" * 99, mtime=0)[:-9], b"\x1f\x8bnonsense", b"nonsense"])
async def test_an_invalid_compressed_body_is_a_network_error(data: bytes) -> None:
    async with serving(says(reply(200, data, "Content-Encoding: gzip"))) as server:
        outcome = failed(await ask(server.url), retryable=True)
    assert outcome.error["type"] == "NetworkError"
    assert (kept(outcome)["status_code"], kept(outcome)["is_truncated"]) == (200, True)


async def test_an_empty_body_is_not_decompressed() -> None:
    async with serving(says(reply(204, b"", "Content-Encoding: gzip"))) as server:
        assert succeeded(await ask(server.url))["body"] == ""


@pytest.mark.parametrize("filler", [b"X-A: b\r\n", b"x" * 1000, b"X-A: " + b"b" * 1000])
async def test_endless_headers_are_cut_off(filler: bytes) -> None:
    async def answer(_: Received, connection: ClientConnection) -> None:
        await connection.send(b"HTTP/1.1 200 OK\r\n")
        await connection.send_for_ever(filler)

    async with serving(answer) as server:
        outcome = failed(await ask(server.url), retryable=True)
        await server.connections[0].gone()
    assert outcome.error["type"] == "NetworkError"
    assert server.connections[0].sent < SOCKET_BUFFERS


async def test_too_many_headers_are_refused() -> None:
    many = [f"X-{number}: a" for number in range(200)]
    async with serving(says(reply(200, b"", *many))) as server:
        failed(await ask(server.url), retryable=True)
        assert "x-199" in succeeded(await ask(server.url, options={"max_headers": 300}))["headers"]


async def test_a_timeout_keeps_the_part_of_the_body_that_was_received() -> None:
    async def answer(_: Received, connection: ClientConnection) -> None:
        await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\ndrip")
        await connection.gone()

    async with serving(answer) as server:
        outcome = failed(await ask(server.url, timeout=timedelta(milliseconds=200)), retryable=True)
    assert outcome.error["type"] == "Timeout"
    document = kept(outcome)
    assert (document["status_code"], document["body"], document["is_truncated"]) == (200, "drip", True)
    assert document["duration_ms"] >= 190


async def test_endless_small_chunks_do_not_delay_the_timeout() -> None:
    async def answer(_: Received, connection: ClientConnection) -> None:
        await connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        await connection.send_for_ever(b"1;" + b"e" * 4000 + b"\r\nx\r\n")

    async with serving(answer) as server:
        outcome = await ask(server.url, timeout=timedelta(milliseconds=300), options={"max_body": 2**40})
    assert failed(outcome, retryable=True).error["type"] == "Timeout"


async def test_endless_interim_responses_do_not_delay_the_timeout() -> None:
    async with serving(lambda _, connection: connection.send_for_ever(b"HTTP/1.1 100 Continue\r\n\r\n")) as server:
        outcome = await ask(server.url, timeout=timedelta(milliseconds=300))
    failed(outcome, retryable=True)


@pytest.mark.parametrize(
    ("charset", "data", "text"),
    [
        ("utf-8", "grün €".encode(), "grün €"),
        ("iso-8859-1", "grün".encode("latin-1"), "grün"),
        ("Windows-1252", "€".encode("cp1252"), "€"),
        ("shift_jis", "日本".encode("shift_jis"), "日本"),
        ("utf-16", "日本".encode("utf-16"), "日本"),
        ("utf-8", b"\xef\xbb\xbf{}", "{}"),
        ("utf-8", b"a\xffb", "a\ufffdb"),
        ("utf-8", b"a\x00b", "a\\x00b"),
        ("nonsense", "grün".encode(), "grün"),
        ("idna", b"xn--tda", "xn--tda"),
        ("unicode_escape", rb"\x41", r"\x41"),
        ("zlib_codec", b"a", "a"),
        ("undefined", b"a", "a"),
        ('"utf-8"', "ü".encode(), "ü"),
        ("x" * 100, b"a", "a"),
    ],
)
async def test_bodies_are_decoded_whatever_their_declared_charset(charset: str, data: bytes, text: str) -> None:
    async with serving(says(reply(200, data, f"Content-Type: text/plain; charset={charset}"))) as server:
        assert succeeded(await ask(server.url))["body"] == text


async def test_replacing_invalid_bytes_does_not_exceed_the_limit() -> None:
    async with serving(says(reply(200, b"\xff" * LIMIT))) as server:
        document = succeeded(await ask(server.url))
    assert len(document["body"].encode()) <= LIMIT
    assert document["is_truncated"]


async def test_headers_with_invalid_bytes_can_be_stored() -> None:
    async with serving(says(b"HTTP/1.1 200 OK\r\nX-A: a\xffb\r\nContent-Length: 0\r\n\r\n")) as server:
        assert succeeded(await ask(server.url))["headers"]["x-a"] == "a?b"


async def test_a_body_without_a_length_ends_with_its_connection() -> None:
    async with serving(says_and_hangs_up(b"HTTP/1.0 200 OK\r\n\r\nall of it")) as server:
        document = succeeded(await ask(server.url))
    assert (document["body"], document["is_truncated"]) == ("all of it", False)


def packer(encoding: str, data: bytes) -> bytes:
    return gzip.compress(data) if encoding == "gzip" else zlib.compress(data, 9)
