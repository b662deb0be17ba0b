"""The doors for the outside world: callbacks at /wh/{token}, and requests that start runs at /in/{token}.

No key, any content type; the token is the permission.
"""

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from windlass.app import Windlass
from windlass.engine import hooks, triggers
from windlass.engine.hooks import BODY_LIMIT
from windlass.web import problems

PREFIXES = ("/wh/", "/in/")
BODY: dict[str, Any] = {"requestBody": {"content": {"*/*": {"schema": {}, "example": {"status": "paid"}}}}}
MEANINGS = {
    401: "The signature is missing or does not match.",
    404: "Nobody has this token.",
    409: "The workflow is disabled.",
    410: "Nobody waits for this any more.",
    413: "The body is too large.",
    422: "It says that it is JSON, and is not.",
}


def routes(app: Windlass) -> APIRouter:
    router = APIRouter(tags=["outside"])

    @router.post("/wh/{token}", summary="Call back", openapi_extra=BODY, responses=_told(401, 404, 410, 413))
    async def callback(token: str, request: Request) -> Response:
        """What a step waits for. The second time is welcome, and changes nothing."""
        body = await bounded(request)
        if body is None:
            return problems.response(413, "Too large", f"a callback may have {BODY_LIMIT} bytes")
        received = await hooks.receive(await app.open(), token, body, dict(request.headers))
        return JSONResponse({"status": "received", "again": received.again})

    @router.post(
        "/in/{token}",
        summary="Start a run by a request",
        status_code=201,
        openapi_extra=BODY,
        responses=_told(401, 404, 409, 413, 422),
    )
    async def incoming(token: str, request: Request) -> Response:
        """The address of a workflow with a webhook trigger: body and headers are the trigger of a run."""
        body = await bounded(request)
        if body is None:
            return problems.response(413, "Too large", f"a request may have {BODY_LIMIT} bytes")
        run = await triggers.receive(await app.open(), token, body, dict(request.headers))
        return JSONResponse({"data": {"run_id": str(run)}}, status_code=201)

    return router


def _told(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: {"description": MEANINGS[status]} for status in statuses}


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
