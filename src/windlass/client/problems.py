"""Problem documents as the errors of the family: whoever catches `NotFound` from an app catches it from a client."""

from typing import Any

from windlass.errors import Conflict, Gone, Invalid, InvalidWorkflow, NotFound, Refused, Unavailable, WindlassError

MAX_SHOWN = 200
PLAIN: dict[int, type[WindlassError]] = {
    401: Refused,
    403: Refused,
    409: Conflict,
    410: Gone,
    421: Refused,
    429: Unavailable,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}


def refusal(status: int, text: str, document: Any, address: str, unfit: type[Invalid] = Invalid) -> WindlassError:
    """`text` is the body as it came, or, with status 0, why none came."""
    if status == 0:
        return Unavailable(text)
    if not isinstance(document, dict) or not isinstance(document.get("detail"), str):
        said = f": {text[:MAX_SHOWN].strip()}" if text.strip() else ""
        return Unavailable(f"{address} answered {status}, and not as Windlass would: check the address{said}")
    detail = document["detail"]
    if status == 404:
        return _not_found(detail, address)
    if status in (413, 415, 422):
        return _invalid(detail, document, unfit)
    if status == 401:
        return Refused(detail)
    if kind := PLAIN.get(status):
        return kind(detail)
    return WindlassError(f"{address} answered {status}: {detail}")


def _not_found(detail: str, address: str) -> NotFound:
    """`no run 0189...: hint`, in its parts again; anything else is about the address."""
    if not detail.startswith("no "):
        return NotFound("address", address, hint="is a Windlass server of this version there?")
    told, _, hint = detail.removeprefix("no ").partition(": ")
    what, _, key = told.partition(" ")
    return NotFound(what, key, hint=hint or None)


def _invalid(detail: str, document: dict[str, Any], unfit: type[Invalid]) -> Invalid:
    found = document.get("errors")
    errors = [(str(e.get("field")), str(e.get("message"))) for e in found or () if isinstance(e, dict)]
    if unfit is InvalidWorkflow and errors:
        return InvalidWorkflow(errors)
    refused = Invalid(detail, field=errors[0][0] if errors else None)
    refused.errors = errors
    return refused
