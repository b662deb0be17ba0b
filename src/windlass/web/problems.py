"""Errors as problem documents (RFC 9457): one mapping from our family to status and title."""

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from windlass.errors import Conflict, Gone, Invalid, NotFound, Refused, Unavailable, WindlassError

MEDIA_TYPE = "application/problem+json"
STATUS: dict[type[WindlassError], tuple[int, str]] = {
    Invalid: (422, "Invalid"),
    NotFound: (404, "Not found"),
    Conflict: (409, "Conflict"),
    Gone: (410, "Gone"),
    Refused: (401, "Unauthorized"),
    Unavailable: (503, "Unavailable"),
}


def document(status: int, title: str, detail: str, **more: Any) -> dict[str, Any]:
    return {"type": "about:blank", "title": title, "status": status, "detail": detail, **more}


def response(status: int, title: str, detail: str, **more: Any) -> Response:
    return JSONResponse(document(status, title, detail, **more), status_code=status, media_type=MEDIA_TYPE)


def of(error: WindlassError) -> Response:
    status, title = next(
        (known for kind in type(error).__mro__ if (known := STATUS.get(kind)) is not None), (500, "Error")
    )
    more = {"field": error.field} if isinstance(error, Invalid) and error.field else {}
    return response(status, title, str(error), **more)


def install(app: FastAPI) -> None:
    """Every way out of the app that is not an answer becomes a problem document."""

    async def ours(_request: Request, error: Exception) -> Response:
        assert isinstance(error, WindlassError)
        return of(error)

    async def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        detail = str(error.detail)
        if error.status_code == 405 and (allowed := (error.headers or {}).get("Allow")):
            detail = f"{request.method} is not for this address: use {allowed}"
        answer = response(error.status_code, str(error.detail), detail)
        answer.headers.update(error.headers or {})
        return answer

    async def unfit(_request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        fields = [{"field": ".".join(map(str, e["loc"])), "message": e["msg"]} for e in error.errors()]
        return response(422, "Invalid", "; ".join(f"{f['field']}: {f['message']}" for f in fields), errors=fields)

    async def defect(_request: Request, _error: Exception) -> Response:
        return response(500, "Error", "this is a defect of Windlass: the server's log has the details")

    app.add_exception_handler(WindlassError, ours)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(RequestValidationError, unfit)
    app.add_exception_handler(Exception, defect)
