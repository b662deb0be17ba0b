"""Definitions are refused if a literal part of their requests could never be sent."""

import pytest

from windlass.core.definition.parser import parse
from windlass.errors import InvalidWorkflow


def mistakes(**step: object) -> list[tuple[str, str]]:
    try:
        parse({"name": "ask", "tasks": {"ask": step}})
    except InvalidWorkflow as error:
        return error.errors
    return []


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("https://user:secret@shop.example/", "a user or a password"),
        ("https://{{trigger.body.user}}@shop.example/", "a user or a password"),
        ("https://shop.example:0/", "port"),
        ("https://shop.example:99999/", "is not valid"),
        ("https://shop.example:http/", "is not valid"),
        ("https://shop_example!/", "neither a name"),
        ("http://127.1/", "write 127.0.0.1"),
        ("http://0x7f.0.0.1/", "write 127.0.0.1"),
        ("http://2130706433/", "write 127.0.0.1"),
        ("http://[::1%25eth0]/", "neither a name"),
    ],
)
def test_a_url_that_can_never_be_requested_is_refused(url: str, told: str) -> None:
    [(path, message)] = mistakes(url=url)
    assert path == "tasks.ask.url"
    assert told in message
    assert "secret" not in message


@pytest.mark.parametrize(
    "url",
    [
        "https://shop.example:8443/a?b=c",
        "http://[::1]:8080/",
        "http://10.0.0.1/",
        "https://{{trigger.body.host}}/",
        "https://{{trigger.body.host}}.example:{{trigger.body.port}}/",
        "{{trigger.body.url}}",
        "HTTPS://SHOP.EXAMPLE/",
    ],
)
def test_a_url_that_may_be_valid_is_accepted(url: str) -> None:
    assert mistakes(url=url) == []


@pytest.mark.parametrize("name", ["Host", "content-length", "Transfer-Encoding", "connection"])
def test_headers_of_the_connection_cannot_be_set(name: str) -> None:
    [(path, message)] = mistakes(url="https://shop.example/", headers={name: "x"})
    assert (path, message) == (f"tasks.ask.headers.{name}", "it cannot be set: the HTTP client sets it")
