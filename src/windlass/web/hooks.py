"""Routes for external systems: callbacks at /wh/{token}, and requests that start runs at /in/{token}.

They need no key and accept any content type: the token is the permission. It is checked before the body is read, so
that a client without a valid token cannot occupy memory.
"""

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from windlass.core.events.webhook import BODY_LIMIT
from windlass.engine import hooks
from windlass.engine.schedules import workflow as workflow_schedules
from windlass.web import json_bodies

BODY: dict[str, Any] = {"requestBody": {"content": {"*/*": {"schema": {}, "example": {"status": "paid"}}}}}
MEANINGS = {
    401: "The signature is missing or does not match.",
    404: "Unknown token.",
    409: "The workflow is disabled.",
    410: "No step waits for this callback any more.",
    413: "The body is too large.",
    422: "The content type is JSON, but the body is not.",
}
router = APIRouter(tags=["outside"])


def _responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: {"description": MEANINGS[status]} for status in statuses}


@router.post("/wh/{token}", summary="Callback", openapi_extra=BODY, responses=_responses(401, 404, 410, 413, 422))
async def callback(token: str, request: Request) -> Response:
    """Complete the step that waits for this callback; a callback that arrives before its step waits is stored. A second
    callback changes nothing, and its response has `again` set to true."""
    db = await request.app.state.windlass.open()
    await hooks.check_token(db, token)
    body = await json_bodies.read(request, limit=BODY_LIMIT)
    received = await hooks.receive(db, token, body, dict(request.headers))
    return JSONResponse({"status": "received", "again": received.again})


@router.post(
    "/in/{token}",
    summary="Start a run through a webhook",
    status_code=201,
    openapi_extra=BODY,
    responses=_responses(401, 404, 409, 413, 422),
)
async def incoming(token: str, request: Request) -> Response:
    """Start a run of a workflow with a webhook trigger, with the body as its input. The run can also read the
    headers."""
    db = await request.app.state.windlass.open()
    await workflow_schedules.check_token(db, token)
    body = await json_bodies.read(request, limit=BODY_LIMIT)
    run = await workflow_schedules.receive(db, token, body, dict(request.headers))
    return JSONResponse({"data": {"run_id": str(run)}}, status_code=201)
