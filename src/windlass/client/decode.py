"""Decodes answers: JSON becomes the dataclasses of `windlass.schemas`, problem documents become errors.

Keys that are not known here come from a newer server and are ignored. A key that an older server does not send gets the
default of its field, or None.
"""

import contextlib
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime
from enum import StrEnum
from functools import cache
from types import UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from windlass.errors import (
    Conflict,
    Gone,
    Invalid,
    InvalidWorkflow,
    NotFound,
    Refused,
    ServerUnreachable,
    Unavailable,
    WindlassError,
)
from windlass.schemas.common import Problem

T = TypeVar("T")
MAX_SHOWN = 200
ERRORS: Mapping[int, type[WindlassError]] = {
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


# Values


def decode(kind: type[T], value: Any) -> T:
    return cast(T, _decoded(kind, value))


def _decoded(kind: Any, value: Any) -> Any:
    if value is None or kind is Any:
        return value
    if get_origin(kind) in (Union, UnionType):
        [kind] = [part for part in get_args(kind) if part is not type(None)]
    if kind is datetime:
        return datetime.fromisoformat(value)
    if is_dataclass(kind):
        return _instance(cast(Any, kind), value)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        with contextlib.suppress(ValueError):  # a newer server may have more of them
            return kind(value)
    match get_origin(kind), get_args(kind):
        case (origin, (part,)) if origin is list:
            return [_decoded(part, item) for item in value]
        case (origin, (_, part)) if origin is dict:
            return {key: _decoded(part, item) for key, item in value.items()}
    return value


def _instance(kind: Any, value: Mapping[str, Any]) -> Any:
    values = {}
    for name, (key, hint, has_default) in _fields(kind).items():
        if key in value:
            values[name] = _decoded(hint, value[key])
        elif not has_default:
            values[name] = None
    return kind(**values)


@cache
def _fields(kind: Any) -> dict[str, tuple[str, Any, bool]]:
    """Return by name the key on the wire, the type, and whether there is a default."""
    hints = get_type_hints(kind)
    return {
        field.name: (
            field.metadata.get("alias", field.name),
            hints[field.name],
            field.default is not MISSING or field.default_factory is not MISSING,
        )
        for field in fields(kind)
    }


# Errors


def error_of(status: int, text: str, document: Any, address: str, invalid: type[Invalid] = Invalid) -> WindlassError:
    """Return the error of an answer, of the same type as the server raised.

    `text` is the body as it came, or, with status 0, why there was no answer.
    """
    if status == 0:
        return ServerUnreachable(text)
    problem = decode(Problem, document) if isinstance(document, dict) else None
    if problem is None or not isinstance(problem.detail, str):
        body = f": {text[:MAX_SHOWN].strip()}" if text.strip() else ""
        return Unavailable(f"{address} answered {status}, and not as Windlass would: check the address{body}")
    if status == 404:
        if problem.what is None:
            return NotFound("address", address, hint="is a Windlass server of this version there?")
        return NotFound(problem.what, problem.key, hint=problem.hint)
    if status in (413, 415, 422):
        return _invalid(problem, invalid)
    if kind := ERRORS.get(status):
        return kind(problem.detail)
    return WindlassError(f"{address} answered {status}: {problem.detail}")


def _invalid(problem: Problem, kind: type[Invalid]) -> Invalid:
    errors = [(one.field, one.message) for one in problem.errors or ()]
    if kind is InvalidWorkflow and errors:
        return InvalidWorkflow(errors)
    error = Invalid(problem.detail, field=errors[0][0] if errors else None)
    error.errors = errors
    return error
