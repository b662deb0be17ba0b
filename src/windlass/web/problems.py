"""Renders errors as problem documents (RFC 9457)."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Match, Mount
from starlette.types import Scope

from windlass.errors import (
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    QuotaExceeded,
    Refused,
    Unavailable,
    WindlassError,
)

MEDIA_TYPE = "application/problem+json"
STATUS: dict[type[WindlassError], tuple[int, str]] = {
    Invalid: (422, "Invalid"),
    NotFound: (404, "Not found"),
    Conflict: (409, "Conflict"),
    Gone: (410, "Gone"),
    Refused: (401, "Unauthorized"),
    Forbidden: (403, "Forbidden"),
    QuotaExceeded: (429, "Quota exceeded"),
    Unavailable: (503, "Unavailable"),
}
PLAN_LIMITS = frozenset({"workflows", "steps_per_workflow", "schedules"})  # 402: waiting does not help
TITLES = {413: "Too large", 416: "Range not satisfiable"}
PLACES = frozenset({"query", "path", "header", "body"})  # with which FastAPI prefixes the name of a field
METHODS = ("DELETE", "GET", "HEAD", "PATCH", "POST", "PUT")
MOST_ERRORS = 100
RETRY_AFTER = "1"  # seconds
_ID = "must be an id such as 01890a5d-ac96-774b-bcce-b302099a8057"
_TIME = "must be a time such as 2030-01-31T12:00:00Z"
# By pydantic's error type; formatted with the context of the error.
VALIDATION_MESSAGES = {
    "missing": "is missing",
    "extra_forbidden": "is unknown: leave it out",
    "string_type": "must be a string",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "int_type": "must be an integer",
    "int_parsing": "must be an integer",
    "int_from_float": "must be an integer",
    "int_parsing_size": "must be a smaller number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "list_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "uuid_type": _ID,
    "uuid_parsing": _ID,
    "datetime_type": _TIME,
    "datetime_parsing": _TIME,
    "datetime_from_date_parsing": _TIME,
    "datetime_object_invalid": _TIME,
    "timezone_aware": "must be a time with a zone such as 2030-01-31T12:00:00Z",
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be {ge} or more",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be {le} or less",
    "string_too_long": "must have at most {max_length} characters",
    "string_too_short": "must have at least {min_length} characters",
    "too_long": "must have at most {max_length} items",
    "too_short": "must have at least {min_length} items",
    "literal_error": "must be one of {expected}",
    "enum": "must be one of {expected}",
    "value_error": "{error}",
}


def document(status: int, title: str, detail: str, **more: Any) -> dict[str, Any]:
    return {"type": "about:blank", "title": title, "status": status, "detail": detail, **more}


def response(status: int, title: str, detail: str, **more: Any) -> Response:
    return JSONResponse(document(status, title, detail, **more), status_code=status, media_type=MEDIA_TYPE)


def of(error: WindlassError) -> Response:
    status, title = next((STATUS[kind] for kind in type(error).__mro__ if kind in STATUS), (500, "Error"))
    if isinstance(error, QuotaExceeded) and error.code in PLAN_LIMITS:
        status = 402
    answer = response(status, title, str(error), **_fields(error))
    if pause := retry_after(error):
        answer.headers["retry-after"] = pause
    return answer


def retry_after(error: WindlassError) -> str | None:
    """Return the value of the header Retry-After, if waiting helps."""
    if isinstance(error, QuotaExceeded) and error.retry_after is not None:
        return str(math.ceil(error.retry_after))
    return RETRY_AFTER if isinstance(error, Unavailable) else None


def _fields(error: WindlassError) -> dict[str, Any]:
    """Return the machine-readable fields of an error, such as the object that does not exist or all invalid fields."""
    if isinstance(error, NotFound):
        fields = {"what": error.what, "key": str(error.key), "hint": error.hint}
        return {name: value for name, value in fields.items() if value is not None}
    if isinstance(error, Forbidden) and error.scope is not None:
        return {"scope": error.scope}
    if isinstance(error, QuotaExceeded):
        return quota_fields(error)
    if isinstance(error, Invalid) and error.errors:
        errors = [{"field": path, "message": message} for path, message in error.errors]
        return {"field": error.field, "errors": errors}
    return {}


def quota_fields(error: QuotaExceeded) -> dict[str, Any]:
    fields = {"code": error.code, "limit": error.limit, "used": error.used}
    if error.resets_at is None:
        return fields
    return {**fields, "resets_at": error.resets_at.isoformat().replace("+00:00", "Z")}


def install(app: FastAPI) -> None:
    """Render every exception that leaves a route as a problem document."""

    async def on_windlass_error(_request: Request, error: Exception) -> Response:
        assert isinstance(error, WindlassError)
        return of(error)

    async def on_http_exception(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        detail = str(error.detail)
        headers = dict(error.headers or {})
        if error.status_code == 405:
            headers["Allow"] = ", ".join(allowed_methods(request))
            detail = f"{request.method} is not allowed here: use {headers['Allow']}"
        answer = response(error.status_code, TITLES.get(error.status_code, str(error.detail)), detail)
        answer.headers.update(headers)
        return answer

    async def on_validation_error(_request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        fields = [{"field": _field(e["loc"]), "message": _message(e)} for e in error.errors()[:MOST_ERRORS]]
        return response(422, "Invalid", "; ".join(f"{f['field']}: {f['message']}" for f in fields), errors=fields)

    async def on_disconnect(_request: Request, _error: Exception) -> Response:
        return response(400, "Incomplete", "the connection was closed before the body was complete")  # for the log

    async def on_defect(_request: Request, _error: Exception) -> Response:
        return response(500, "Error", "internal error of Windlass: see the server's log")

    app.add_exception_handler(ClientDisconnect, on_disconnect)
    app.add_exception_handler(WindlassError, on_windlass_error)
    app.add_exception_handler(HTTPException, on_http_exception)
    app.add_exception_handler(RequestValidationError, on_validation_error)
    app.add_exception_handler(Exception, on_defect)


def _field(place: Sequence[str | int]) -> str:
    parts = place[1:] if place and place[0] in PLACES else place
    return ".".join(map(str, parts)) or "body"


def _message(error: Mapping[str, Any]) -> str:
    """Return our message for an error of pydantic, or pydantic's own if the type of the error is unknown."""
    try:
        return VALIDATION_MESSAGES[error["type"]].format_map(error.get("ctx", {}))
    except KeyError:
        return str(error["msg"])


def allowed_methods(request: Request) -> list[str]:
    """Return the methods of all routes that match the path; Starlette names only those of the first."""
    # In a mounted application the scope has only the rest of the path.
    scope = dict(request.scope) | {"path": request.url.path, "root_path": ""}
    return [method for method in METHODS if _matches(request.app.routes, scope | {"method": method})]


def _matches(routes: Iterable[BaseRoute], scope: Scope) -> bool:
    for route in routes:
        match, inner = route.matches(dict(scope))
        if match is Match.FULL and (not isinstance(route, Mount) or _matches(route.routes, {**scope, **inner})):
            return True
    return False
