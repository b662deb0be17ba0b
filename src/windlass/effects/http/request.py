"""Checks the request of an HTTP step, prepares the message that is sent, and the next message after a redirect.

URLs are parsed by the HTTP library itself, so no second parser can interpret the same text differently. Secrets and
bodies are not sent to another origin.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from multidict import CIMultiDict
from yarl import URL

from windlass.core.json_value import RESULT_LIMIT, encode
from windlass.core.workflows.step_payload import METHODS, check_address, check_header
from windlass.errors import Invalid

_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+").fullmatch
_LINE = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]*").fullmatch
_CONTROL = re.compile(r"[\x00-\x1f\x7f]").search
FOLLOWED = frozenset({301, 302, 303, 307, 308})
# Any other header may contain a secret.
KEPT_ACROSS_ORIGINS = frozenset({"accept", "accept-encoding", "accept-language", "content-type", "user-agent"})
ABOUT_THE_BODY = ("content-type", "content-encoding", "content-language", "content-location")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """The request of an HTTP step, with all templates resolved. Attempts at one step instance differ only in `fence`,
    `attempt` and `traceparent`."""

    url: str
    idempotency_key: str
    fence: int
    attempt: int
    run_id: UUID | str
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None  # None: no body; a string: sent as it is; anything else: JSON
    timeout: timedelta = timedelta(seconds=30)
    traceparent: str | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """A request as it is sent. Each redirect makes a new one."""

    method: str
    url: URL
    headers: CIMultiDict[str]
    body: bytes | None

    @property
    def name(self) -> str:
        """A description for messages, without path and query: they may contain secrets, and messages are logged."""
        return f"{self.method} {self.url.origin()}"


def prepare(request: HttpRequest, user_agent: str) -> Message:
    """Return the message of a request; raise `Invalid` if the request is invalid."""
    if request.method.upper() not in METHODS:
        raise Invalid(f"method is {request.method!r}: one of {', '.join(METHODS)}", field="method")
    url = _with_query(read_url(request.url), request.query)
    body, media = _body(request.body)
    headers = CIMultiDict({"User-Agent": user_agent, "Accept": "*/*", "Accept-Encoding": "gzip, deflate"})
    if media:
        headers["Content-Type"] = media
    for name, value in (_identity(request) | _checked_headers(request)).items():
        headers[name] = _value(name, value)
    return Message(request.method.upper(), url, headers, body)


def _identity(request: HttpRequest) -> dict[str, str]:
    headers = {
        "Idempotency-Key": request.idempotency_key,
        "Windlass-Fence": str(request.fence),
        "Windlass-Attempt": str(request.attempt),
        "Windlass-Run": str(request.run_id),
    }
    return headers if request.traceparent is None else headers | {"traceparent": request.traceparent}


def _body(body: Any) -> tuple[bytes | None, str | None]:
    if body is None:
        return None, None
    if isinstance(body, str):
        return body.encode("utf-8", "replace"), "text/plain; charset=utf-8"
    return encode(body, field="body", limit=RESULT_LIMIT).encode(), "application/json"


def _with_query(url: URL, query: Mapping[str, Any]) -> URL:
    try:
        return url.extend_query(list(_pairs(query)))
    except ValueError as error:
        raise Invalid("the query is not valid", field="query") from error


def _pairs(query: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in query.items():
        for item in value if isinstance(value, list | tuple) else (value,):
            yield name, _text(item, f"query.{name}")


def _checked_headers(request: HttpRequest) -> dict[str, str]:
    """Return the user's headers, which override the defaults; raise `Invalid` for an invalid name and for headers
    that belong to the connection."""
    for name in request.headers:
        if not _TOKEN(name):
            raise Invalid(f"{name!r} is not a valid header name", field="headers")
        check_header(name)
    return dict(request.headers)


def _value(name: str, value: Any) -> str:
    text = _text(value, f"headers.{name}")
    if not _LINE(text):  # the error must not contain the value: it may be a secret
        raise Invalid(f"the header {name} must be a string of one line", field=f"headers.{name}")
    return text


def _text(value: Any, field: str) -> str:
    """Return a value as a string; raise `Invalid` for types without an obvious string form."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise Invalid(f"{field} must be a string, a number, true or false", field=field)


def read_url(text: str, base: URL | None = None) -> URL:
    """Parse an absolute URL, or one relative to `base`, and check it."""
    if _CONTROL(text):
        raise Invalid("the URL contains a control character", field="url")
    try:
        url = URL(text) if base is None else base.join(URL(text))
    except ValueError as error:  # its message contains parts of the URL
        raise Invalid("the URL is not valid", field="url") from error
    check_address(url.scheme, url.raw_authority, url.raw_host, url.port)
    return url.with_fragment(None)


def redirected(message: Message, status: int, location: str) -> Message:
    """Return the message for a redirect. The new URL is checked like the first one."""
    url = read_url(location, base=message.url)
    followed = _changed_to_get(replace(message, url=url, headers=message.headers.copy()), status)
    if url.origin() != message.url.origin():
        if followed.body is not None:
            raise Invalid(
                f"{message.name} redirects with {status} to {url.origin()}, another origin: "
                "the body is not sent there; use that URL in the step if the body may be sent there",
                field="url",
            )
        for name in [name for name in followed.headers if name.lower() not in KEPT_ACROSS_ORIGINS]:
            followed.headers.popall(name, None)
    return followed


def _changed_to_get(message: Message, status: int) -> Message:
    """Change the method to GET as browsers do: after 303, and after 301 and 302 if it was POST."""
    if message.method == "HEAD" or not (status == 303 or (status in (301, 302) and message.method == "POST")):
        return message
    for name in ABOUT_THE_BODY:
        message.headers.popall(name, None)
    return replace(message, method="GET", body=None)
