"""A value is encoded for its position, in a URL or in a header, and cannot escape from it."""

import re
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from windlass.core.expressions.scope import Facts
from windlass.core.templates.template import compile_header
from windlass.core.templates.url import compile_url
from windlass.errors import TemplateError


def facts(**values: Any) -> Facts:
    return Facts(trigger_body=values)


# URLs


@pytest.mark.parametrize(
    ("template", "value", "expected"),
    [
        ("https://x.example/orders/{{input.v}}", 123, "https://x.example/orders/123"),
        ("https://x.example/{{input.v}}/y", "a/b c?d#e", "https://x.example/a%2Fb%20c%3Fd%23e/y"),
        ("https://x.example/?q={{input.v}}", "a&b=c", "https://x.example/?q=a%26b%3Dc"),
        ("https://x.example?q={{input.v}}", "", "https://x.example?q="),
        ("https://x.example/a#{{input.v}}", "é", "https://x.example/a#%C3%A9"),
        ("https://x.example/f{{input.v}}.txt", "", "https://x.example/f.txt"),
        ("https://x.example/?n={{input.v}}&m={{input.v}}", True, "https://x.example/?n=true&m=true"),
        ("https://x.example/?u=https://y/{{input.v}}", "/", "https://x.example/?u=https://y/%2F"),
        ("https://x.example/a/../{{input.v}}//", "b", "https://x.example/a/../b//"),
        ("https://{{input.v}}/x", "api.example:8080", "https://api.example:8080/x"),
        ("https://{{input.v}}.example/x", "eu-1", "https://eu-1.example/x"),
        ("https://eu-{{input.v}}.x.example", "1", "https://eu-1.x.example"),
        ("https://x.example:{{input.v}}/y", 8080, "https://x.example:8080/y"),
        ("{{input.v}}:80/y", "http://h", "http://h:80/y"),
        ("{{input.v}}", "http://h.example/a?b#c", "http://h.example/a?b#c"),
        ("{{input.v}}/y/{{input.v}}", "http://h", "http://h/y/http%3A%2F%2Fh"),
        ("{{input.v}}/y?u=http://z/{{input.v}}", "http://h/..", "http://h/../y?u=http://z/http%3A%2F%2Fh%2F.."),
        ("https://x.example/plain", None, "https://x.example/plain"),
    ],
)
def test_a_value_in_a_url_is_encoded_for_its_position(template: str, value: Any, expected: str) -> None:
    assert compile_url(template).resolve(facts(v=value)) == expected


@pytest.mark.parametrize(
    ("template", "value", "message"),
    [
        ("https://x.example/{{input.v}}", None, "its value is null"),
        ("https://x.example/?q={{input.v}}", None, "its value is null"),
        ("https://x.example/users/{{input.v}}", "", "a segment of the URL's path would be empty, . or .."),
        ("https://x.example/users/{{input.v}}/x", "..", "a segment of the URL's path would be empty, . or .."),
        ("https://x.example/users/.{{input.v}}", ".", "a segment of the URL's path would be empty, . or .."),
        ("https://x.example/users/%2{{input.v}}", "E", "a segment of the URL's path would be empty, . or .."),
        ("{{input.b}}/{{input.v}}", "..", "a segment of the URL's path would be empty, . or .."),
        ("https://{{input.v}}/x", "evil.example/", "is not valid in a host name"),
        ("https://{{input.v}}/x", "user@evil.example", "is not valid in a host name"),
        ("https://x.example{{input.v}}", "/path", "write a / before the template"),
        ("https://{{input.v}}/x", "", "is not valid in a host name"),
        ("{{input.b}}{{input.v}}", "/x", "write a / before the template"),
        ("{{input.b}}{{input.v}}", ".evil.example", "it would determine the host"),
        ("https://x.example{{input.v}}", ".evil.example", "it would determine the host"),
        ("https://x.example{{input.v}}/y", ".evil.example", "it would determine the host"),
        ("https://x.{{input.v}}?y=.z", "evil.example", "it would determine the host"),
        ("https://x.example:{{input.v}}/y", "80.evil.example", "is not a port number"),
        ("{{input.v}}", 5, "a URL must begin with a string"),
        ("{{input.v}}/x", "", "a URL must begin with a string"),
        ("{{input.v}}", "http://x\r\nHost: y", "has a space or a control character"),
        ("https://x.example/{{input.v}}", "x" * 9000, "the limit in a URL is 8192"),
        ("https://x.example/{{input.v}}", "\ud800", "an unpaired surrogate"),
    ],
)
def test_a_value_that_is_invalid_in_its_position_in_a_url_is_refused(template: str, value: Any, message: str) -> None:
    with pytest.raises(TemplateError, match=re.escape(message)) as refused:
        compile_url(template).resolve(facts(v=value, b="http://h"))
    assert refused.value.path == "input.v"


@given(st.text(min_size=1, max_size=20))
@example("..")
@example("a/../b")
def test_no_value_changes_the_structure_of_a_url(value: str) -> None:
    made = compile_url("https://x.example/a/{{input.v}}/b?q={{input.v}}#{{input.v}}")
    try:
        url = urlsplit(made.resolve(facts(v=value)))
    except TemplateError:
        return
    assert (url.scheme, url.netloc) == ("https", "x.example")
    assert [unquote(part) for part in url.path.split("/")] == ["", "a", value, "b"]
    assert (unquote(url.query), unquote(url.fragment)) == (f"q={value}", value)


# Headers


def test_a_header_is_a_string_for_every_type_of_value() -> None:
    assert compile_header("Bearer {{input.v}}").resolve(facts(v="t")) == "Bearer t"
    assert compile_header("{{input.v}}").resolve(facts(v=5)) == "5"
    assert compile_header("{{input.v}}").resolve(facts(v=["a\n"])) == '["a\\n"]'
    assert compile_header("a\tb").resolve(facts()) == "a\tb"


@pytest.mark.parametrize("character", ["\r", "\n", "\x00", "\r\n", "\x1b", "\x7f"])
def test_a_header_refuses_control_characters_without_revealing_the_value(character: str) -> None:
    with pytest.raises(TemplateError, match="has a line break, a NUL or another control character") as refused:
        compile_header("Bearer {{input.v}}").resolve(facts(v=f"s3cret{character}X-Evil: 1"))
    assert "s3cret" not in str(refused.value)
