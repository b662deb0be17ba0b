"""A name for every request: that of X-Request-Id if it is a decent one, else one of ours; told with every answer."""

import re
import uuid

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADER = "x-request-id"
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
                MutableHeaders(scope=message)[HEADER] = id_
            await send(message)

        await self._app(scope, receive, named)


def request_id(scope: Scope) -> str:
    """Of a request that came through `RequestIds`."""
    return str(scope.get("state", {}).get("request_id", "-"))
