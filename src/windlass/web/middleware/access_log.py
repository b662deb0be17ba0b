"""One line a request on the logger `windlass.access`: who asked for what, what came of it, and how long it took.

Tokens in paths and everything in queries stay out of it. Probes are told at DEBUG: there are many, and all alike.
"""

import logging
import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from windlass.web.middleware.request_ids import request_id

SECRET = ("/wh/", "/in/")  # what follows lets one in
PROBES = frozenset({"/health", "/ready", "/metrics"})
MAX_PATH = 200
_log = logging.getLogger("windlass.access")


class AccessLog:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        level = logging.DEBUG if scope.get("path") in PROBES else logging.INFO
        if scope["type"] != "http" or not _log.isEnabledFor(level):
            await self._app(scope, receive, send)
            return
        began, status = time.perf_counter(), 0

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, watched)
        finally:
            took = (time.perf_counter() - began) * 1000
            told = (scope["method"], shown(scope["path"]), status or "-", took, _client(scope), request_id(scope))
            _log.log(level, "%s %s %s %.1fms %s %s", *told)


def shown(path: str) -> str:
    """A path as logs may have it: short, on one line, without tokens."""
    for prefix in SECRET:
        if path.startswith(prefix):
            return f"{prefix}***"
    return ascii(path[:MAX_PATH])[1:-1]


def _client(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else "-"
