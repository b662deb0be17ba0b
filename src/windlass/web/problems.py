"""Errors as problem documents (RFC 9457): one mapping from our family to status and title."""

import json
from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response

from windlass.errors import Conflict, Gone, Invalid, InvalidWorkflow, NotFound, Refused, Unavailable, WindlassError
from windlass.web import methods
from windlass.web.validation_messages import message

MEDIA_TYPE = "application/problem+json"
STATUS: dict[type[WindlassError], tuple[int, str]] = {
    Invalid: (422, "Invalid"),
    NotFound: (404, "Not found"),
    Conflict: (409, "Conflict"),
    Gone: (410, "Gone"),
    Refused: (401, "Unauthorized"),
    Unavailable: (503, "Unavailable"),
}
TITLES = {413: "Too large"}
PLACES = frozenset({"query", "path", "header", "body"})  # where FastAPI found a field; its name is enough
MOST_ERRORS = 100
RETRY_AFTER = "1"  # seconds


def document(status: int, title: str, detail: str, **more: Any) -> dict[str, Any]:
    return {"type": "about:blank", "title": title, "status": status, "detail": detail, **more}


def response(status: int, title: str, detail: str, **more: Any) -> Response:
    return JSONResponse(document(status, title, detail, **more), status_code=status, media_type=MEDIA_TYPE)


def detail(problem: Response) -> str:
    """What a problem says, for those who say it otherwise."""
    return str(json.loads(bytes(problem.body))["detail"])


def of(error: WindlassError) -> Response:
    status, title = next(
        (known for kind in type(error).__mro__ if (known := STATUS.get(kind)) is not None), (500, "Error")
    )
    answer = response(status, title, str(error), **_fields(error))
    if isinstance(error, Unavailable):
        answer.headers["retry-after"] = RETRY_AFTER
    return answer


def _fields(error: WindlassError) -> dict[str, Any]:
    """Return what programs read instead of the sentence: what does not exist, or every field that is wrong."""
    if isinstance(error, NotFound):
        fields = {"what": error.what, "key": str(error.key), "hint": error.hint}
        return {name: value for name, value in fields.items() if value is not None}
    if isinstance(error, InvalidWorkflow):
        errors = [{"field": path, "message": message} for path, message in error.errors]
        return {"field": error.field, "errors": errors}
    if isinstance(error, Invalid) and error.field:
        return {"field": error.field, "errors": [{"field": error.field, "message": str(error)}]}
    return {}


def _field(place: Sequence[str | int]) -> str:
    parts = place[1:] if place and place[0] in PLACES else place
    return ".".join(map(str, parts)) or "body"


def install(app: FastAPI) -> None:
    """Every way out of the app that is not an answer becomes a problem document."""

    async def ours(_request: Request, error: Exception) -> Response:
        assert isinstance(error, WindlassError)
        return of(error)

    async def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        detail = str(error.detail)
        headers = dict(error.headers or {})
        if error.status_code == 405:
            headers["Allow"] = ", ".join(methods.allowed(request))
            detail = f"{request.method} is not for this address: use {headers['Allow']}"
        answer = response(error.status_code, TITLES.get(error.status_code, str(error.detail)), detail)
        answer.headers.update(headers)
        return answer

    async def unfit(_request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        fields = [{"field": _field(e["loc"]), "message": message(e)} for e in error.errors()[:MOST_ERRORS]]
        return response(422, "Invalid", "; ".join(f"{f['field']}: {f['message']}" for f in fields), errors=fields)

    async def defect(_request: Request, _error: Exception) -> Response:
        return response(500, "Error", "this is a defect of Windlass: the server's log has the details")

    async def hung_up(_request: Request, _error: Exception) -> Response:
        return response(400, "Incomplete", "the connection was closed before the body was complete")  # nobody hears it

    app.add_exception_handler(ClientDisconnect, hung_up)
    app.add_exception_handler(WindlassError, ours)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(RequestValidationError, unfit)
    app.add_exception_handler(Exception, defect)
