"""Pages of other origins, where the operator named them (WINDLASS_CORS_ORIGINS). They send a key like everybody else;
cookies are not used."""

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

METHODS = "GET, POST, PUT, PATCH, DELETE"
ASKED = "authorization, content-type, idempotency-key, last-event-id, x-api-key, x-request-id"
TOLD = "x-request-id, retry-after, ratelimit-limit, ratelimit-remaining, ratelimit-reset, content-disposition"
KNOWN_FOR = "600"  # seconds that a browser may remember the answer


class Cors:
    def __init__(self, app: ASGIApp, origins: tuple[str, ...]) -> None:
        self._app = app
        self._origins = frozenset(origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope) if scope["type"] == "http" else Headers({})
        origin = headers.get("origin")
        if origin not in self._origins:
            await self._app(scope, receive, send)
            return
        allowed = {"access-control-allow-origin": str(origin), "vary": "origin"}
        if scope["method"] == "OPTIONS" and "access-control-request-method" in headers:
            more = {"access-control-allow-methods": METHODS, "access-control-allow-headers": ASKED}
            answer = Response(status_code=204, headers=allowed | more | {"access-control-max-age": KNOWN_FOR})
            await answer(scope, receive, send)
            return

        async def told(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(allowed | {"access-control-expose-headers": TOLD})
            await send(message)

        await self._app(scope, receive, told)
