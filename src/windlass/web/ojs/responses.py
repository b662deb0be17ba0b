"""Answers of this face: exact media type, version, instants as the spec writes them."""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from windlass.core.events.ojs_event import instant

__all__ = ["answer", "created", "instant"]
MEDIA_TYPE = "application/openjobspec+json"
PLAIN = "application/json"
VERSION = "1.0"
PREFIX = "/ojs/v1"
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def answer(request: Request, body: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A client that accepts only plain JSON (a published SDK has to) gets that name for it."""
    accepted = request.headers.get("accept", "").partition(";")[0].strip().lower()
    # In `headers`, not as `media_type`: the type is compared as text, and nothing may be added to it.
    given = {"content-type": PLAIN if accepted == PLAIN else MEDIA_TYPE, "ojs-version": VERSION, **(headers or {})}
    return Response(_encode(body).encode(), status_code=status, headers=given)


def created(kind: str, id_: object) -> dict[str, str]:
    """Where what was made can be found. A header holds ASCII only, and an id may have anything but a slash."""
    return {"location": f"{PREFIX}/{kind}/{quote(str(id_), safe='')}"}
