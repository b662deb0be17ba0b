"""What is asked for: the request of a step, checked and made ready to be sent."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

from multidict import CIMultiDict
from yarl import URL

from windlass.core.json_value import RESULT_LIMIT, encode
from windlass.core.workflows.http_rules import METHODS, check_header
from windlass.effects.http.url import read
from windlass.errors import Invalid

_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+").fullmatch
_LINE = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]*").fullmatch


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """All templates are resolved. The identity is the same for a step's instance, but for fence and attempt."""

    url: str
    idempotency_key: str
    fence: int
    attempt: int
    run_id: UUID | str
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None  # None: no body; a text: sent as it is; anything else: JSON
    timeout: timedelta = timedelta(seconds=30)
    traceparent: str | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """A request as it goes out, once."""

    method: str
    url: URL
    headers: CIMultiDict[str]
    body: bytes | None

    @property
    def name(self) -> str:
        """For people. Paths and queries stay out of it: they carry keys, and messages end up in logs."""
        return f"{self.method} {self.url.origin()}"


def prepare(request: HttpRequest, user_agent: str) -> Message:
    """The message of a request, or an `Invalid` that names what is wrong with it."""
    if request.method.upper() not in METHODS:
        raise Invalid(f"method is {request.method!r}: one of {', '.join(METHODS)}", field="method")
    url = _with_query(read(request.url), request.query)
    body, media = _body(request.body)
    headers = CIMultiDict({"User-Agent": user_agent, "Accept": "*/*", "Accept-Encoding": "gzip, deflate"})
    if media:
        headers["Content-Type"] = media
    for name, value in (_identity(request) | _given(request)).items():
        headers[name] = _value(name, value)
    return Message(request.method.upper(), url, headers, body)


def _identity(request: HttpRequest) -> dict[str, str]:
    told = {
        "Idempotency-Key": request.idempotency_key,
        "Windlass-Fence": str(request.fence),
        "Windlass-Attempt": str(request.attempt),
        "Windlass-Run": str(request.run_id),
    }
    return told if request.traceparent is None else told | {"traceparent": request.traceparent}


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
        raise Invalid("the query cannot be written", field="query") from error


def _pairs(query: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in query.items():
        for item in value if isinstance(value, list | tuple) else (value,):
            yield name, _text(item, f"query.{name}")


def _given(request: HttpRequest) -> dict[str, str]:
    """The user's headers, which win over ours but for those that would change what a message is."""
    for name in request.headers:
        if not _TOKEN(name):
            raise Invalid(f"{name!r} is not a name of a header", field="headers")
        check_header(name)
    return dict(request.headers)


def _value(name: str, value: Any) -> str:
    text = _text(value, f"headers.{name}")
    if not _LINE(text):  # refused without saying what it was: it may be a key
        raise Invalid(f"the header {name} must be a text of one line", field=f"headers.{name}")
    return text


def _text(value: Any, field: str) -> str:
    """Strict: what has no obvious spelling is not sent."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise Invalid(f"{field} must be a text, a number, true or false", field=field)
