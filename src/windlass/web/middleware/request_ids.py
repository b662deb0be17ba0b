"""What every answer has: the id of its request, and headers that keep browsers and caches from misusing it.

The id is that of X-Request-Id if it is safe to log, else a new one.
"""

import re
import uuid

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADER = "x-request-id"
# Answers hold payloads, callback addresses and secrets of webhooks: nobody is to keep them.
UNSTORED = ("/api/", "/ojs/", "/wh/", "/in/")
_decent = re.compile(
    r"[A-Za-z0-9._:/+=@-]{1,128}"
).fullmatch  # it stands in logs: no blanks, nothing that steers a terminal


class RequestIds:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get(HEADER, "")
        id_ = given if _decent(given) else str(uuid.uuid4())
        scope.setdefault("state", {})["request_id"] = id_

        async def named(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers[HEADER] = id_
                headers["x-content-type-options"] = "nosniff"
                if scope["path"].startswith(UNSTORED):
                    headers.setdefault("cache-control", "no-store")
            await send(message)

        await self._app(scope, receive, named)


def request_id(scope: Scope) -> str:
    """Of a request that came through `RequestIds`."""
    return str(scope.get("state", {}).get("request_id", "-"))
