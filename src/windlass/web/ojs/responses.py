"""Responses of the Open Job Spec: the media type and version headers, pages, and the catalogue of errors."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from windlass.core.events.ojs import instant
from windlass.errors import (
    Conflict,
    Duplicate,
    Forbidden,
    Invalid,
    InvalidWorkflow,
    NotFound,
    QuotaExceeded,
    Refused,
    Unavailable,
    WindlassError,
)
from windlass.web import problems
from windlass.web.middleware.access_log import request_id

__all__ = ["answer", "created", "instant", "pagination"]
MEDIA_TYPE = "application/openjobspec+json"
PLAIN = "application/json"
VERSION = "1.0"
PREFIX = "/ojs/v1"
DEFECT = "internal error of Windlass: see the server's log"
ERROR_DOCS = "https://openjobspec.org/docs/errors#"
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def answer(request: Request, body: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a JSON response; its type is plain JSON for clients that accept only that, as a published SDK does."""
    accepted = request.headers.get("accept", "").partition(";")[0].strip().lower()
    # In `headers`, not as `media_type`, to which Starlette may add a charset: clients compare the whole string.
    media_type = PLAIN if accepted == PLAIN else MEDIA_TYPE
    all_headers = {"content-type": media_type, "ojs-version": VERSION, **(headers or {})}
    return Response(_encode(body).encode(), status_code=status, headers=all_headers)


def created(kind: str, id_: object) -> dict[str, str]:
    """Return the Location header of a new object. It is quoted: headers are ASCII, and ids may be any string."""
    return {"location": f"{PREFIX}/{kind}/{quote(str(id_), safe='')}"}


def pagination(count: int, total: int, limit: int, offset: int) -> dict[str, Any]:
    has_more = offset + count < total
    page: dict[str, Any] = {"total": total, "limit": limit, "offset": offset, "has_more": has_more}
    return {**page, "next_cursor": str(offset + count)} if has_more else page


@dataclass(frozen=True, slots=True)
class Kind:
    """An entry of the error catalogue. `type` is the field beside `code`; it defaults to `code`."""

    status: int
    code: str
    number: str
    hint: str
    type: str | None = None
    retryable: bool = False


INVALID_PAYLOAD = Kind(400, "invalid_payload", "OJS-1000", "Send a JSON object as the body.")
INVALID_REQUEST = Kind(400, "invalid_request", "OJS-1001", "Correct the field that the message names.")
INVALID_WORKFLOW = Kind(400, "invalid_workflow", "OJS-4004", "Fix the errors in details.validation_errors.")
VALIDATION = Kind(422, "invalid_request", "OJS-1006", "Correct the retry policy.", "validation_error")
UNAUTHORIZED = Kind(401, "unauthorized", "OJS-5000", "Send a key: Authorization: Bearer KEY.")
FORBIDDEN = Kind(403, "forbidden", "OJS-5001", "Call this server from a program, not from a page of another origin.")
SCOPE = Kind(403, "forbidden", "OJS-5001", "Use a key that has the scope.")
NOT_FOUND = Kind(404, "not_found", "OJS-3000", "Check the id; jobs that ended long ago are removed.")
NOT_ALLOWED = Kind(405, "method_not_allowed", "OJS-1000", "Use a method listed in the Allow header.")
CONFLICT = Kind(409, "conflict", "OJS-3002", "Read the job's state: it does not allow this.")
DUPLICATE = Kind(409, "duplicate", "OJS-3001", "Use the job that exists, or another id or unique key.")
TOO_LARGE = Kind(413, "payload_too_large", "OJS-1009", "Store the data elsewhere and pass a reference.")
UNSUPPORTED = Kind(422, "unsupported", "OJS-7000", "Read /ojs/manifest for what this server supports.")
RATE_LIMITED = Kind(429, "rate_limited", "OJS-6000", "Wait for the time in Retry-After.", retryable=True)
QUOTA = Kind(429, "quota_exceeded", "OJS-6000", "Wait until details.resets_at, or get a larger plan.", retryable=True)
PLAN_LIMIT = Kind(402, "quota_exceeded", "OJS-6000", "Get a larger plan.")
QUEUE_FULL = Kind(429, "QUEUE_FULL", "OJS-6001", "Wait until the queue is shorter.", retryable=True)
BACKEND = Kind(500, "backend_error", "OJS-2000", "Try again; the server's log has the details.", retryable=True)
UNAVAILABLE = Kind(503, "backend_error", "OJS-2001", "Try again in a moment.", retryable=True)

BY_STATUS = {
    kind.status: kind
    for kind in (
        INVALID_REQUEST, UNAUTHORIZED, FORBIDDEN, NOT_FOUND, NOT_ALLOWED, CONFLICT, TOO_LARGE, UNSUPPORTED,
        RATE_LIMITED, BACKEND, UNAVAILABLE,
    )
}  # fmt: skip
BY_ERROR: Mapping[type[WindlassError], Kind] = {
    Invalid: INVALID_REQUEST,
    NotFound: NOT_FOUND,
    Conflict: CONFLICT,
    Refused: UNAUTHORIZED,
    Forbidden: SCOPE,
    Unavailable: UNAVAILABLE,
}


class Refusal(Exception):
    """Raised by handlers for errors that need another kind, details or headers than `BY_ERROR` gives."""

    def __init__(
        self,
        kind: Kind,
        message: str,
        *,
        details: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.kind, self.details, self.headers = kind, details, headers


def error(request: Request, kind: Kind, message: str, **more: Any) -> Response:
    """Return an error in the form of the spec; `more` has the `details` and `headers` of a `Refusal`."""
    return _rendered(request, Refusal(kind, message, **more))


def _rendered(request: Request, refusal: Refusal) -> Response:
    kind = refusal.kind
    body: dict[str, Any] = {
        "code": kind.code,
        "type": kind.type or kind.code,
        "message": str(refusal),
        "retryable": kind.retryable,
        "hint": kind.hint,
        "docs_url": ERROR_DOCS + kind.number.lower(),
        "ojs_code": kind.number,
        "request_id": request_id(request.scope),
    }
    if refusal.details:
        body["details"] = dict(refusal.details)
    return answer(request, {"error": body}, status=kind.status, headers=refusal.headers)


async def on_refusal(request: Request, raised: Exception) -> Response:
    assert isinstance(raised, Refusal)
    return _rendered(request, raised)


def kind_of(raised: WindlassError) -> Kind:
    return next((BY_ERROR[class_] for class_ in type(raised).__mro__ if class_ in BY_ERROR), BACKEND)


def entry_error(raised: Exception) -> dict[str, Any]:
    """Return the error of one entry of a request that has many."""
    kind, message = BACKEND, DEFECT
    if isinstance(raised, Refusal):
        kind, message = raised.kind, str(raised)
    elif isinstance(raised, WindlassError):
        kind, message = kind_of(raised), str(raised)
    return {"code": kind.code, "message": message, "retryable": kind.retryable}


async def on_windlass_error(request: Request, raised: Exception) -> Response:
    assert isinstance(raised, WindlassError)
    kind = kind_of(raised)
    if isinstance(raised, InvalidWorkflow):
        errors = [{"path": path, "message": message} for path, message in raised.errors]
        return error(request, INVALID_WORKFLOW, str(raised), details={"validation_errors": errors})
    if isinstance(raised, Duplicate):
        return error(request, DUPLICATE, str(raised), details={"existing_job_id": str(raised.existing)})
    if isinstance(raised, QuotaExceeded):
        kind = PLAN_LIMIT if raised.code in problems.PLAN_LIMITS else QUOTA
        pause = problems.retry_after(raised)
        headers = None if pause is None else {"retry-after": pause}
        return error(request, kind, str(raised), details=problems.quota_fields(raised), headers=headers)
    field = raised.field if isinstance(raised, Invalid) else None
    if field is not None and ("retry" in field.split(".") or field.startswith("options.retry")):
        kind = VALIDATION
    headers = {"retry-after": problems.RETRY_AFTER} if isinstance(raised, Unavailable) else None
    return error(request, kind, str(raised), details={"field": field} if field else None, headers=headers)


async def on_http_exception(request: Request, raised: Exception) -> Response:
    assert isinstance(raised, HTTPException)
    kind = BY_STATUS.get(raised.status_code, INVALID_REQUEST)
    headers = {"allow": ", ".join(problems.allowed_methods(request))} if kind is NOT_ALLOWED else raised.headers
    return error(request, kind, str(raised.detail), headers=headers)


async def on_defect(request: Request, _raised: Exception) -> Response:
    return error(request, BACKEND, DEFECT)
