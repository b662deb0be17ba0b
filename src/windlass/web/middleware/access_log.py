"""Request ids, headers of every response, and the access log.

The id is that of X-Request-Id if it is safe to log, else a new one. The access log has one line per request on the
logger `windlass.access`, without tokens in paths and without query strings. Probes are logged at DEBUG.
"""

import logging
import os
import re
import time
from collections.abc import Mapping

from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADER = "x-request-id"
NOSNIFF = (b"x-content-type-options", b"nosniff")
NO_STORE = (b"cache-control", b"no-store")
# Prefixes of paths for external systems, followed by a token that grants access.
OUTSIDE = ("/wh/", "/in/", "/approve/")
UNSTORED = ("/api/", "/ojs/", *OUTSIDE)  # responses hold payloads, callback URLs and secrets: not to be cached
PROBES = frozenset({"/health", "/ready", "/metrics"})
MAX_PATH = 200
_log = logging.getLogger("windlass.access")
_is_safe = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}").fullmatch  # in logs: no blanks, no control characters


class RequestIds:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        sent = headers_of(scope).get(HEADER, "")
        id_ = sent if _is_safe(sent) else os.urandom(16).hex()
        scope["state"]["request_id"] = id_

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                known = {name for name, _ in message["headers"]}
                more = [NOSNIFF, NO_STORE] if scope["path"].startswith(UNSTORED) else [NOSNIFF]
                message["headers"] = [
                    *message["headers"],
                    (HEADER.encode(), id_.encode()),
                    *(header for header in more if header[0] not in known),
                ]
            await send(message)

        await self._app(scope, receive, send_with_headers)


def headers_of(scope: Scope) -> Mapping[str, str]:
    """Return the headers of a request by lower-case name; of a repeated header, the first value.

    They are decoded once: Starlette's `Headers` decodes and compares all of them at each access.
    """
    state = scope.setdefault("state", {})
    if (headers := state.get("headers")) is None:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in reversed(scope["headers"])}
        state["headers"] = headers
    known: Mapping[str, str] = headers
    return known


def request_id(scope: Scope) -> str:
    """Return the id of a request that came through `RequestIds`."""
    return str(scope.get("state", {}).get("request_id", "-"))


def address_of(scope: Scope) -> str:
    """Return the address of the client; empty if the transport has none."""
    client = scope.get("client")
    return str(client[0]) if client else ""


class AccessLog:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        level = logging.DEBUG if scope.get("path") in PROBES else logging.INFO
        if scope["type"] != "http" or not _log.isEnabledFor(level):
            await self._app(scope, receive, send)
            return
        started, status = time.perf_counter(), 0

        async def send_and_note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, send_and_note)
        finally:
            took = (time.perf_counter() - started) * 1000
            path, client = loggable(scope["path"]), address_of(scope) or "-"
            line = (scope["method"], path, status or "-", took, client, request_id(scope))
            _log.log(level, "%s %s %s %.1fms %s %s", *line)


def loggable(path: str) -> str:
    """Return a path for the log: short, on one line, without tokens."""
    for prefix in OUTSIDE:
        if path.startswith(prefix):
            return f"{prefix}***"
    return ascii(path[:MAX_PATH])[1:-1]
