"""Reads and validates bodies of requests: of bounded size, JSON or YAML. Errors name the field.

Definitions are not held to a model here: `core.definition.parser` reads them, and tells every mistake.
"""

import asyncio
from typing import Any, TypeVar

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, ValidationError

from windlass.core.json_value import PAYLOAD_LIMIT
from windlass.effects.documents import Unreadable, load_yaml
from windlass.errors import Invalid
from windlass.web.json_bodies import parsed, read

__all__ = ["NOTHING", "ROOM", "SMALL", "RequestBody", "described", "model", "parsed", "read", "value", "yaml_document"]

ROOM = 65_536  # beside a payload: labels, keys, names
SMALL = 65_536
NOTHING: Any = object()

Body = TypeVar("Body", bound="RequestBody")


class RequestBody(BaseModel):
    """What may stand in a body; anything else is a mistake, and strings are not converted to numbers."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    @classmethod
    def unknown(cls) -> str:
        """What is said about a field that the body may not have."""
        return f"use {', '.join(cls.model_fields)}"


async def value(request: Request, *, limit: int = PAYLOAD_LIMIT, default: Any = NOTHING) -> Any:
    """Any JSON value whose keys are there once; `default` if there is no body."""
    body = await read(request, limit=limit)
    if not body.strip():
        if default is NOTHING:
            raise Invalid("the body is empty: send JSON", field="body")
        return default
    return await parsed(body, unique=True)


async def yaml_document(request: Request, *, limit: int) -> Any:
    """The one document of a YAML body, read as files are: bounded, nothing but JSON's values, keys once."""
    body = await read(request, limit=limit)
    try:
        found = await asyncio.to_thread(load_yaml, body.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise Invalid(f"the body is not UTF-8 text: byte {error.start} is no part of one", field="body") from None
    except Unreadable as error:
        place = f"line {error.line}, column {error.column}: " if error.line else ""
        raise Invalid(f"the body is not YAML: {place}{error}", field="body") from None
    if len(found) != 1:
        raise Invalid(f"the body has {len(found)} YAML documents: send one", field="body")
    return found[0]


async def model(request: Request, kind: type[Body], *, limit: int = SMALL) -> Body:
    """The body as one of ours; none is as good as an empty object."""
    given = await value(request, limit=limit, default={})
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        for one in found:
            if one["type"] == "extra_forbidden" and len(one["loc"]) == 1:
                one |= {"type": "unknown_field", "msg": f"it is not known here: {kind.unknown()}"}
        raise RequestValidationError(found) from None


def described(kind: type[RequestBody], example: Any) -> dict[str, Any]:
    """The body for the OpenAPI document; all of these may be left out."""
    schema = kind.model_json_schema()
    schema = _whole(schema, schema.pop("$defs", {}))
    return {"requestBody": {"content": {"application/json": {"schema": schema, "example": example}}}}


def _whole(part: Any, parts: dict[str, Any]) -> Any:
    """With its parts in their places: `#/$defs/` is a place in this schema, not in the document it will stand in."""
    if isinstance(part, list):
        return [_whole(one, parts) for one in part]
    if not isinstance(part, dict):
        return part
    if "$ref" in part:
        return _whole(parts[part["$ref"].rpartition("/")[2]], parts)
    return {key: _whole(value, parts) for key, value in part.items()}
