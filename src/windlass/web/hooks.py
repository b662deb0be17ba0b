"""The doors for the outside world: callbacks at /wh/{token}. No key, any content type; the token is the permission."""

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from windlass.app import Windlass
from windlass.engine import hooks
from windlass.engine.hooks import BODY_LIMIT
from windlass.web import problems

PREFIXES = ("/wh/", "/in/")


def routes(app: Windlass) -> APIRouter:
    router = APIRouter()

    @router.post("/wh/{token}")
    async def callback(token: str, request: Request) -> Response:
        body = await bounded(request)
        if body is None:
            return problems.response(413, "Too large", f"a callback may have {BODY_LIMIT} bytes")
        received = await hooks.receive(await app.open(), token, body, dict(request.headers))
        return JSONResponse({"status": "received", "again": received.again})

    return router


async def bounded(request: Request) -> bytes | None:
    """The body; None as soon as it is longer than it may be."""
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > BODY_LIMIT:
            return None
        parts.append(part)
    return b"".join(parts)
