"""Reads and validates request bodies, JSON or YAML. Errors name the field.

Definitions of workflows are not validated here: `core.definition.parser` reads them and reports every error.
"""

import asyncio
from typing import Any, TypeVar

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, ValidationError

from windlass.core.json_value import PAYLOAD_LIMIT
from windlass.effects.documents import Unreadable, load_yaml
from windlass.errors import Invalid
from windlass.web import json_bodies

ROOM = 65_536  # bytes beside a payload: labels, keys, names
SMALL = 65_536  # bytes of a body without a payload
NOTHING: Any = object()


class RequestBody(BaseModel):
    """Base class of request bodies. Unknown fields are refused, and strings are not converted to numbers."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    @classmethod
    def unknown(cls) -> str:
        """Return the hint for an unknown field."""
        return f"use {', '.join(cls.model_fields)}"


Body = TypeVar("Body", bound=RequestBody)


async def value(request: Request, *, limit: int = PAYLOAD_LIMIT, default: Any = NOTHING) -> Any:
    """Return the body, any JSON value without duplicate keys; `default` if the body is empty."""
    body = await json_bodies.read(request, limit=limit)
    if not body.strip():
        if default is NOTHING:
            raise Invalid("the body is empty: send JSON", field="body")
        return default
    return await json_bodies.parsed(body, unique=True)


async def yaml_document(request: Request, *, limit: int) -> Any:
    """Return the only document of a YAML body. As in files, only JSON values and no duplicate keys are allowed."""
    body = await json_bodies.read(request, limit=limit)
    try:
        documents = await asyncio.to_thread(load_yaml, body.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise Invalid(f"the body is not valid UTF-8: byte {error.start}", field="body") from None
    except Unreadable as error:
        place = f"line {error.line}, column {error.column}: " if error.line else ""
        raise Invalid(f"the body is not YAML: {place}{error}", field="body") from None
    if len(documents) != 1:
        raise Invalid(f"the body has {len(documents)} YAML documents: send one", field="body")
    return documents[0]


async def model(request: Request, kind: type[Body], *, limit: int = SMALL) -> Body:
    """Return the validated body; an empty body is an empty object."""
    document = await value(request, limit=limit, default={})
    try:
        return kind.model_validate(document)
    except ValidationError as error:
        errors = error.errors(include_url=False, include_input=False)
        for item in errors:
            if item["type"] == "extra_forbidden" and len(item["loc"]) == 1:
                item |= {"type": "unknown_field", "msg": f"is unknown: {kind.unknown()}"}
        raise RequestValidationError(errors) from None


def described(kind: type[RequestBody], example: Any) -> dict[str, Any]:
    """Return the description of an optional body for the OpenAPI document."""
    schema = kind.model_json_schema()
    schema = _inlined(schema, schema.pop("$defs", {}))
    return {"requestBody": {"content": {"application/json": {"schema": schema, "example": example}}}}


def _inlined(part: Any, parts: dict[str, Any]) -> Any:
    """Return a schema with its `$defs` inlined: references to them would not resolve in the OpenAPI document."""
    if isinstance(part, list):
        return [_inlined(item, parts) for item in part]
    if not isinstance(part, dict):
        return part
    if "$ref" in part:
        return _inlined(parts[part["$ref"].rpartition("/")[2]], parts)
    return {key: _inlined(value, parts) for key, value in part.items()}
