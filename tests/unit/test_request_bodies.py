"""Untrusted requests: bodies are parsed by their content type, headers are stored without secrets."""

from typing import Any

import pytest

from windlass.core.events.webhook import BODY_LIMIT, HEADER_LIMIT, MOST_CONTAINERS, kept_headers, parse_body
from windlass.errors import Invalid


@pytest.mark.parametrize(
    ("body", "content_type", "expected"),
    [
        (b'{"a": [1, null]}', "application/json", {"a": [1, None]}),
        (b'{"a": 1}', "Application/JSON; charset=utf-8", {"a": 1}),
        (b"\xef\xbb\xbf7", "application/cloudevents+json", 7),
        (b'{"a": 1}', "text/plain", '{"a": 1}'),
        (b'{"a": 1}', None, '{"a": 1}'),
        (b"a=1&b=2", "application/x-www-form-urlencoded", "a=1&b=2"),
        ("größe".encode("latin1"), 'text/plain; charset="ISO-8859-1"', "größe"),
        ("größe".encode(), "text/plain; charset=punycode", "größe"),
        (b"\xff\xfe!", "application/octet-stream", "��!"),
        (b"", "application/json", None),
        (b"", None, None),
        (b"x" * BODY_LIMIT, None, "x" * BODY_LIMIT),
    ],
)
def test_a_body_is_parsed_by_its_content_type(body: bytes, content_type: str | None, expected: Any) -> None:
    assert parse_body(body, content_type) == expected


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", "not JSON"),
        (b"\xff", "not UTF-8"),
        (b"[NaN]", "not JSON"),
        (b"[" * 40_000, "not JSON"),
        (b"9" * 5000, "not JSON"),
        (b"x" * (BODY_LIMIT + 1), "the limit is 1048576"),
    ],
)
def test_an_invalid_json_body_is_refused(body: bytes, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        parse_body(body, "application/json")


def test_headers_are_kept_in_lower_case_and_without_secrets() -> None:
    sent = {
        "X-GitHub-Event": "push",
        "AUTHORIZATION": "Bearer x",
        "Cookie": "a=b",
        "Proxy-Authorization": "Basic x",
        "X-API-Key": "k",
        "X-Gitlab-Token": "t",
        "X-Telegram-Bot-Api-Secret-Token": "t",
        "X-Auth-Token": "t",
        "X-Hub-Signature-256": "sha256=00",
        "X-Password": "p",
    }
    assert kept_headers(sent) == {"x-github-event": "push"}
    assert kept_headers({"a": "\x00\ud800"}) == {"a": "\\x00?"}
    with pytest.raises(Invalid, match="65536"):
        kept_headers({"a": "x" * HEADER_LIMIT})


def test_a_body_of_very_many_lists_is_refused_before_it_is_parsed() -> None:
    body = b"[" + b",".join([b"[]"] * MOST_CONTAINERS) + b"]"
    with pytest.raises(Invalid, match="more than 50000 lists and objects"):
        parse_body(body, "application/json")
