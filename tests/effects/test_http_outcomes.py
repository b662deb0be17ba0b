"""The outcome of a step for each response, and for none."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from tests.effects.http_harness import ask, failed, kept, succeeded
from tests.effects.server import reply, says, says_and_hangs_up, serving
from windlass.effects.http.response import retry_after

RETRIED = [408, 425, 429, 500, 501, 502, 503, 504, 505, 511, 599]
FINAL = [400, 401, 403, 404, 405, 409, 410, 413, 418, 422, 451, 499, 600, 999]


@pytest.mark.parametrize("status", [200, 201, 202, 204, 206, 299, 300, 301, 304, 305, 307, 399])
async def test_status_codes_2xx_and_3xx_succeed(status: int) -> None:
    async with serving(says(reply(status))) as server:
        assert succeeded(await ask(server.url))["status_code"] == status


@pytest.mark.parametrize("status", RETRIED)
async def test_temporary_errors_are_retryable_and_keep_the_response(status: int) -> None:
    async with serving(says(reply(status, b'{"a": 1}', "X-Trace: t1"))) as server:
        outcome = failed(await ask(server.url), retryable=True)
    assert outcome.error == {"type": "HttpStatus", "message": f"POST {server.url} answered {status}"}
    assert outcome.retry_after is None
    document = kept(outcome)
    assert (document["status_code"], document["body"], document["headers"]["x-trace"]) == (status, '{"a": 1}', "t1")


@pytest.mark.parametrize("status", FINAL)
async def test_all_other_status_codes_are_final_and_keep_the_response(status: int) -> None:
    async with serving(says(reply(status, b"no", "Retry-After: 5"))) as server:
        outcome = failed(await ask(server.url), retryable=False)
    assert (kept(outcome)["status_code"], kept(outcome)["body"], outcome.retry_after) == (status, "no", None)


async def test_the_result_has_the_status_headers_and_body_of_the_response() -> None:
    headers = ("Content-Type: application/json", "Set-Cookie: a=1", "Set-Cookie: b=2")
    async with serving(says(reply(200, b'{"id": 7}', *headers))) as server:
        document = succeeded(await ask(server.url))
    assert document.pop("duration_ms") >= 0
    assert document == {
        "status_code": 200,
        "headers": {"content-length": "9", "content-type": "application/json", "set-cookie": "a=1, b=2"},
        "body": '{"id": 7}',
        "is_truncated": False,
    }


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "disconnected"),
        (b"HTTP/1.1 200", "HTTP"),
        (b"nonsense\r\n\r\n", "not HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "not HTTP"),
        (b"HTTP/1.1 200 OK\r\nBad Header\r\n\r\n", "not HTTP"),
        (b"HTTP/1.1 ok\r\n\r\n", "not HTTP"),
    ],
)
async def test_an_invalid_http_response_is_a_network_error(data: bytes, words: str) -> None:
    async with serving(says_and_hangs_up(data)) as server:
        outcome = failed(await ask(server.url), retryable=True)
    assert outcome.error["type"] == "NetworkError"
    assert words.lower() in outcome.error["message"].lower()
    assert outcome.result is None


async def test_a_refused_connection_is_a_network_error() -> None:
    async with serving(says(b"")) as server:
        url = server.url
    outcome = failed(await ask(f"{url}/secret?key=secret"), retryable=True)
    assert outcome.error["type"] == "NetworkError"
    assert "refused" in outcome.error["message"].lower() or "connect call failed" in outcome.error["message"].lower()
    assert "secret" not in outcome.error["message"]


@pytest.mark.parametrize(("status", "retryable"), [(200, True), (503, True), (404, False)])
async def test_an_incomplete_body_turns_a_success_into_a_network_error_but_keeps_error_statuses(
    status: int, retryable: bool
) -> None:
    data = f"HTTP/1.1 {status} Said\r\nContent-Length: 100\r\nX-A: b\r\n\r\nhalf".encode()
    async with serving(says_and_hangs_up(data)) as server:
        outcome = failed(await ask(server.url), retryable=retryable)
    assert outcome.error["type"] == ("NetworkError" if status == 200 else "HttpStatus")
    document = kept(outcome)
    assert (document["status_code"], document["body"], document["is_truncated"]) == (status, "half", True)


@pytest.mark.parametrize(
    ("text", "seconds"), [("0", 0), ("17", 17), (" 120 ", 120), ("86401", 86_400), ("9" * 500, 86_400)]
)
async def test_retry_after_is_read_as_seconds(text: str, seconds: int) -> None:
    async with serving(says(reply(503, b"", f"Retry-After: {text}"))) as server:
        outcome = failed(await ask(server.url), retryable=True)
    assert outcome.retry_after == timedelta(seconds=seconds)


async def test_retry_after_is_read_as_a_date() -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    async with serving(says(reply(429, b"", f"Retry-After: {date}"))) as server:
        outcome = failed(await ask(server.url), retryable=True)
    assert outcome.retry_after is not None
    assert timedelta(minutes=59) < outcome.retry_after <= timedelta(hours=1)


NOON = datetime(2030, 1, 2, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Wed, 02 Jan 2030 12:01:30 GMT", timedelta(seconds=90)),
        ("Wednesday, 02-Jan-30 12:01:30 GMT", timedelta(seconds=90)),
        ("Wed Jan  2 12:01:30 2030", timedelta(seconds=90)),
        ("Wed, 02 Jan 2030 14:00:00 +0100", timedelta(hours=1)),
        ("Wed, 02 Jan 2030 11:00:00 GMT", timedelta()),
        ("Thu, 01 Jan 1970 00:00:00 GMT", timedelta()),
        ("Fri, 31 Dec 9999 23:59:59 GMT", timedelta(days=1)),
        ("", None),
        ("soon", None),
        ("-5", None),
        ("1.5", None),
        ("٣", None),
        ("Wed, 99 Jan 2030 12:00:00 GMT", None),
        ("Fri, 31 Dec 9999 23:59:59 -2359", timedelta(days=1)),
    ],
)
def test_every_form_of_retry_after_is_parsed(text: str, expected: timedelta | None) -> None:
    assert retry_after(text, NOON) == expected


async def test_a_response_that_exceeds_the_time_limit_is_a_timeout() -> None:
    async with serving(lambda _, connection: connection.gone()) as server:
        outcome = failed(await ask(server.url, timeout=timedelta(milliseconds=50)), retryable=True)
    assert outcome.error == {"type": "Timeout", "message": f"POST {server.url}: timed out after 0.05 s"}
    assert outcome.result is None


async def test_a_body_that_is_not_json_is_a_failure_not_an_exception() -> None:
    outcome = failed(await ask("http://127.0.0.1:9/", body=object()), retryable=False)
    assert outcome.error["message"].startswith("body is not JSON")


async def test_invalid_requests_fail_without_a_connection() -> None:
    async with serving(says(reply())) as server:
        for fields in ({"method": "TRACE"}, {"method": "GET /x"}, {"query": {"a": None}}, {"query": {"a": {"b": 1}}}):
            outcome = failed(await ask(server.url, **fields), retryable=False)
            assert outcome.error["type"] == "Invalid"
    assert server.connections == []
