"""Bodies of requests: JSON objects, bounded. What cannot be read is `invalid_payload`, before anything is done."""

from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request

from windlass.core.json_value import PAYLOAD_LIMIT
from windlass.errors import Invalid
from windlass.web import json_bodies
from windlass.web.ojs.errors import INVALID_PAYLOAD, INVALID_REQUEST, TOO_LARGE, Refusal

ENVELOPE_LIMIT = PAYLOAD_LIMIT
RESULT_ROOM = 16 * PAYLOAD_LIMIT + 65_536
BULK_LIMIT = json_bodies.BATCH_LIMIT


async def object_(request: Request, *, limit: int = ENVELOPE_LIMIT, optional: bool = False) -> dict[str, Any]:
    """The body as an object; `optional`: none is as good as an empty one."""
    try:
        raw = await json_bodies.read(request, limit=limit)
        if raw.strip():
            found = await json_bodies.parsed(raw)
        elif optional:
            return {}
        else:
            raise Refusal(INVALID_PAYLOAD, "the body is empty: send a JSON object")
    except HTTPException as error:
        if error.status_code != 413:  # too slow, or too much at a time: said by `routes` like everywhere
            raise
        raise Refusal(TOO_LARGE, str(error.detail)) from None
    except Invalid as error:
        raise Refusal(INVALID_PAYLOAD, str(error)) from None
    if not isinstance(found, dict):
        raise Refusal(INVALID_PAYLOAD, "the body must be a JSON object")
    return found


def text(body: dict[str, Any], name: str, *, required: bool = False) -> str | None:
    """A text of the body."""
    value = body.get(name)
    if value is None and not required:
        return None
    if not isinstance(value, str) or not value:
        raise Refusal(INVALID_REQUEST, f"{name} must be a text", details={"field": name})
    return value


def whole(body: dict[str, Any], name: str, *, least: int, most: int, default: int | None = None) -> int | None:
    """A whole number of the body."""
    value = body.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        told = f"{name} must be a whole number from {least} to {most}"
        raise Refusal(INVALID_REQUEST, told, details={"field": name})
    return value


def texts(body: dict[str, Any], name: str) -> list[str]:
    """A list of texts of the body; none is an empty one."""
    value = body.get(name)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise Refusal(INVALID_REQUEST, f"{name} must be a list of texts", details={"field": name})
    return value
