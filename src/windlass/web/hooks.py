"""Routes for the outside world: callbacks at /wh/{token}, and requests that start runs at /in/{token}.

No key, any content type; the token is the permission. It is looked up before the body is read, so that a stranger
without one holds nothing here.
"""

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from windlass.app import Windlass
from windlass.engine import hooks
from windlass.engine.hooks import BODY_LIMIT
from windlass.engine.schedules import workflow as workflow_schedules
from windlass.web import json_bodies

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

    @router.post("/wh/{token}", summary="Call back", openapi_extra=BODY, responses=_told(401, 404, 410, 413, 422))
    async def callback(token: str, request: Request) -> Response:
        """What a step waits for. A second callback changes nothing and is answered with `again`."""
        db = await app.open()
        await hooks.check_token(db, token)
        body = await json_bodies.read(request, limit=BODY_LIMIT)
        received = await hooks.receive(db, token, body, dict(request.headers))
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
        db = await app.open()
        await workflow_schedules.check_token(db, token)
        body = await json_bodies.read(request, limit=BODY_LIMIT)
        run = await workflow_schedules.receive(db, token, body, dict(request.headers))
        return JSONResponse({"data": {"run_id": str(run)}}, status_code=201)

    return router


def _told(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: {"description": MEANINGS[status]} for status in statuses}
