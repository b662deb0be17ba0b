"""Performs HTTP steps through a connection pool with an address guard.

It never raises for errors of the server, the network or the request; only cancellation is raised, and closes the
connection. Retries are up to the engine.
"""

import asyncio
import io
import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Self

from windlass.core.jobs.job import Failed, Outcome
from windlass.core.jobs.spec import OWN_QUEUE
from windlass.core.json_value import plain
from windlass.core.workflows.step import HttpAction
from windlass.core.workflows.step_payload import HTTP_TYPE
from windlass.effects import secrets
from windlass.effects.context import Context
from windlass.effects.handlers import Handler, reserved_type
from windlass.effects.http.connector import AddressGuard, AddressRefused, DnsLookup, LookUp, Network, connector
from windlass.effects.http.request import FOLLOWED, HttpRequest, Message, prepare, redirected
from windlass.effects.http.response import Answer, Body, error_of, outcome_of
from windlass.effects.tracing import traceparent
from windlass.errors import Invalid

if TYPE_CHECKING:  # slow to import; most processes perform no HTTP steps
    import aiohttp
    from multidict import MultiMapping

__all__ = ["Http", "HttpOptions", "HttpRequest", "LookUp", "Network"]

OUR_FIELDS = ("status_code", "duration_ms", "is_truncated")  # of the result; the rest is the response
DEFAULT_TIMEOUT = timedelta(seconds=30)
MAX_TIMEOUT = timedelta(hours=24)  # per attempt, whatever the step's timeout: no connection is held forever


@dataclass(frozen=True, kw_only=True)
class HttpOptions:
    allow: tuple[Network, ...] = ()  # non-public networks that may be connected to
    max_body: int = 256 * 1024  # bytes of a response body that are stored
    max_headers: int = 128  # of a response
    max_header_size: int = 8190  # bytes of one header, and of the status line
    max_redirects: int = 5
    per_host: int = 20  # concurrent connections
    total: int = 100
    connect_timeout: timedelta = timedelta(seconds=10)
    user_agent: str = field(default_factory=lambda: f"windlass/{version('windlass')}")


class Http:
    def __init__(self, options: HttpOptions | None = None, *, look_up: LookUp | None = None) -> None:
        self._options = options or HttpOptions()
        self._dns = DnsLookup()
        self._look_up = look_up or self._dns
        self._session: aiohttp.ClientSession | None = None

    async def open(self) -> None:
        import aiohttp

        options = self._options
        guard = AddressGuard(options.allow)
        self._session = aiohttp.ClientSession(
            connector=connector(guard, self._look_up, total=options.total, per_host=options.per_host),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=options.connect_timeout.total_seconds()),
            cookie_jar=aiohttp.DummyCookieJar(),  # steps of different owners share the pool but not cookies
            skip_auto_headers=("Content-Type",),  # a request without a body has no type
            auto_decompress=False,
            trust_env=False,  # a proxy would connect without the guard
            max_line_size=options.max_header_size,
            max_field_size=options.max_header_size,
            max_headers=options.max_headers,
        )

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None
        self._dns.close()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def perform(self, request: HttpRequest) -> Outcome:
        if self._session is None:
            await self.open()
        assert self._session is not None
        options = self._options
        exchange = Exchange(self._session, max_body=options.max_body, max_redirects=options.max_redirects)
        return await exchange.run(request, options.user_agent)


class Exchange:
    def __init__(self, session: "aiohttp.ClientSession", *, max_body: int, max_redirects: int) -> None:
        self._session = session
        self._max_body = max_body
        self._max_redirects = max_redirects
        self._began = time.monotonic()
        self._message: Message | None = None
        self._answer: Answer | None = None

    async def run(self, request: HttpRequest, user_agent: str) -> Outcome:
        timeout = min(request.timeout, MAX_TIMEOUT).total_seconds()
        try:
            async with asyncio.timeout(timeout) as limit:
                return await self._run(prepare(request, user_agent))
        except Invalid as mistake:
            return self._failed("Invalid", str(mistake), retryable=False)
        except Exception as error:
            if refusal := _refusal(error):
                return self._failed("AddressRefused", str(refusal), retryable=False)
            if limit.expired():
                error = TimeoutError(f"timed out after {timeout:g} s")
            return self._broken(error)

    async def _run(self, message: Message) -> Outcome:
        for _ in range(self._max_redirects + 1):
            self._message = message
            answer = await self._send(message)
            location = answer.headers.get("location")
            if location is None or answer.status not in FOLLOWED:
                return outcome_of(answer, message.name, self._took, datetime.now(UTC))
            message = redirected(message, answer.status, location)
        raise Invalid(f"more than {self._max_redirects} redirects")

    async def _send(self, message: Message) -> Answer:
        body = None if message.body is None else io.BytesIO(message.body)  # streamed: it may be large
        response = await self._session.request(
            message.method, message.url, headers=message.headers, data=body, allow_redirects=False
        )
        try:
            self._answer = answer = self._begun(response)
            async for data in response.content.iter_any():
                if not answer.body.feed(data):
                    break
            answer.is_whole = answer.body.is_cut or answer.body.is_whole
        finally:
            if response.content.at_eof():
                response.release()
            else:
                response.close()
        if not answer.is_whole:
            raise zlib.error("the compressed body is incomplete")
        return answer

    def _begun(self, response: "aiohttp.ClientResponse") -> Answer:
        headers = _joined(response.headers)
        return Answer(response.status, headers, response.charset, Body(headers.get("content-encoding"), self._max_body))

    def _broken(self, error: Exception) -> Outcome:
        """Return the outcome after an error: an error status counts even if its body is incomplete; a success status
        with an incomplete body is a failure."""
        answer, name = self._answer, self._message.name if self._message else "the request"
        if answer is not None and not answer.is_whole and not answer.succeeded:
            return outcome_of(answer, name, self._took, datetime.now(UTC))
        return self._failed(
            "Timeout" if isinstance(error, TimeoutError) else "NetworkError", f"{name}: {_describe(error)}"
        )

    def _failed(self, kind: str, message: str, *, retryable: bool = True) -> Failed:
        kept = None if self._answer is None else self._answer.document(self._took)
        return Failed(error_of(kind, message), retryable=retryable, result=kept)

    @property
    def _took(self) -> timedelta:
        return timedelta(seconds=time.monotonic() - self._began)


def _joined(headers: "MultiMapping[str]") -> Mapping[str, str]:
    joined: dict[str, str] = {}
    for name, value in headers.items():
        name, value = plain(name).lower(), plain(value)
        joined[name] = f"{joined[name]}, {value}" if name in joined else value
    return joined


def _refusal(error: BaseException | None) -> AddressRefused | None:
    while error is not None and not isinstance(error, AddressRefused):
        error = error.__cause__
    return error


def _describe(error: Exception) -> str:
    """Return the error message without the URL, which aiohttp's own messages contain."""
    import aiohttp

    match error:
        case aiohttp.ClientConnectorError():
            return str(error.os_error) or type(error.os_error).__name__
        case aiohttp.ConnectionTimeoutError():
            return "the connection timed out"
        case aiohttp.ClientResponseError():
            return f"the response is not HTTP: {error.message}"
        case _:
            return str(error) or type(error).__name__


def http_handler(http: Http) -> Handler:
    """Return the handler of HTTP steps."""

    async def request(ctx: Context, payload: Any) -> Outcome:
        if ctx.queue != OWN_QUEUE or not isinstance(ctx._action, HttpAction):
            return reserved_type(HTTP_TYPE, "url")
        revealed = await secrets.reveal(ctx, payload)
        if isinstance(revealed, Failed):
            return revealed
        http_request = HttpRequest(
            **revealed,
            timeout=ctx.timeout or DEFAULT_TIMEOUT,
            idempotency_key=ctx.idempotency_key,
            fence=ctx.fence,
            attempt=ctx.attempt,
            run_id=ctx.run_id or ctx.id,
            traceparent=traceparent(),
        )
        return secrets.masked(ctx, await http.perform(http_request), ours=OUR_FIELDS)

    return Handler.of(HTTP_TYPE, request, queue=OWN_QUEUE, keeps_time=True, wants_upstream=False)
