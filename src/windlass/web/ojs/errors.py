"""Everything that is refused, in the words of the Open Job Spec: one catalogue, one mapping from our family."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from windlass.errors import Conflict, Duplicate, Invalid, InvalidWorkflow, NotFound, Refused, Unavailable, WindlassError
from windlass.web import methods
from windlass.web.middleware.request_ids import request_id
from windlass.web.ojs.responses import answer
from windlass.web.problems import RETRY_AFTER

DOCS = "https://openjobspec.org/docs/errors#"


@dataclass(frozen=True, slots=True)
class Kind:
    """An entry of the catalogue. `type` stands beside `code` in the body."""

    status: int
    code: str
    number: str
    hint: str
    type: str | None = None
    retryable: bool = False


INVALID_PAYLOAD = Kind(400, "invalid_payload", "OJS-1000", "Send a JSON object as the body.")
INVALID_REQUEST = Kind(400, "invalid_request", "OJS-1001", "Correct the field that the message names.")
INVALID_WORKFLOW = Kind(400, "invalid_workflow", "OJS-4004", "Correct what details.validation_errors lists.")
VALIDATION = Kind(422, "invalid_request", "OJS-1006", "Correct the retry policy.", "validation_error")
UNAUTHORIZED = Kind(401, "unauthorized", "OJS-5000", "Send a key: Authorization: Bearer KEY.")
FORBIDDEN = Kind(403, "forbidden", "OJS-5001", "Call this server from a program, not from a page of another origin.")
NOT_FOUND = Kind(404, "not_found", "OJS-3000", "Check the id; what ended long ago is removed.")
NOT_ALLOWED = Kind(405, "method_not_allowed", "OJS-1000", "Use a method that the Allow header names.")
CONFLICT = Kind(409, "conflict", "OJS-3002", "Read the job's state: it does not allow this.")
DUPLICATE = Kind(409, "duplicate", "OJS-3001", "Use the job that exists, or another id or unique key.")
TOO_LARGE = Kind(413, "payload_too_large", "OJS-1009", "Store the data elsewhere and pass a reference.")
UNSUPPORTED = Kind(422, "unsupported", "OJS-7000", "Read /ojs/manifest for what this server supports.")
RATE_LIMITED = Kind(429, "rate_limited", "OJS-6000", "Wait as long as Retry-After says.", retryable=True)
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
OURS: Mapping[type[WindlassError], Kind] = {
    Invalid: INVALID_REQUEST,
    NotFound: NOT_FOUND,
    Conflict: CONFLICT,
    Refused: UNAUTHORIZED,
    Unavailable: UNAVAILABLE,
}


class Refusal(Exception):
    """Raised by the handlers of this face: an entry of the catalogue, what is wrong, and what belongs to it."""

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


def told(
    request: Request,
    kind: Kind,
    message: str,
    *,
    details: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """The error body of the spec."""
    error: dict[str, Any] = {
        "code": kind.code,
        "type": kind.type or kind.code,
        "message": message,
        "retryable": kind.retryable,
        "hint": kind.hint,
        "docs_url": DOCS + kind.number.lower(),
        "ojs_code": kind.number,
        "request_id": request_id(request.scope),
    }
    if details:
        error["details"] = dict(details)
    return answer(request, {"error": error}, status=kind.status, headers=headers)


async def refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return told(request, error.kind, str(error), details=error.details, headers=error.headers)


async def ours(request: Request, error: Exception) -> Response:
    assert isinstance(error, WindlassError)
    kind = next((OURS[one] for one in type(error).__mro__ if one in OURS), BACKEND)
    if isinstance(error, InvalidWorkflow):
        listed = [{"path": path, "message": message} for path, message in error.errors]
        return told(request, INVALID_WORKFLOW, str(error), details={"validation_errors": listed})
    if isinstance(error, Duplicate):
        return told(request, DUPLICATE, str(error), details={"existing_job_id": str(error.existing)})
    field = error.field if isinstance(error, Invalid) else None
    if field is not None and ("retry" in field.split(".") or field.startswith("options.retry")):
        kind = VALIDATION
    headers = {"retry-after": RETRY_AFTER} if isinstance(error, Unavailable) else None
    return told(request, kind, str(error), details={"field": field} if field else None, headers=headers)


async def http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    kind = BY_STATUS.get(error.status_code, INVALID_REQUEST)
    headers = {"allow": ", ".join(methods.allowed(request))} if kind is NOT_ALLOWED else error.headers
    return told(request, kind, str(error.detail), headers=headers)


async def defect(request: Request, _error: Exception) -> Response:
    return told(request, BACKEND, "this is a defect of Windlass: the server's log has the details")
