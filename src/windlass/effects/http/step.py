"""Performs HTTP steps through a connection pool with an address guard.

It never raises for errors of the server, the network or the request; only cancellation is raised, and closes the
connection. Retries are up to the engine.
"""

from dataclasses import dataclass, field
from datetime import timedelta
from importlib.metadata import version
from types import TracebackType
from typing import Self

import aiohttp

from windlass.core.jobs.job import Outcome
from windlass.effects.http.addresses import AddressGuard, Network
from windlass.effects.http.connector import LookUp, connector
from windlass.effects.http.dns_lookup import DnsLookup
from windlass.effects.http.exchange import Exchange
from windlass.effects.http.request import HttpRequest

__all__ = ["Http", "HttpOptions", "HttpRequest", "LookUp", "Network"]


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

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def perform(self, request: HttpRequest) -> Outcome:
        if self._session is None:
            await self.open()
        assert self._session is not None
        options = self._options
        exchange = Exchange(self._session, max_body=options.max_body, max_redirects=options.max_redirects)
        return await exchange.run(request, options.user_agent)
