"""Calls as values: what to request and how to decode the response. Both clients share this module.

A `Flow` is a generator that yields requests and pauses, and receives responses. `transport` has a blocking and an async
implementation that execute it.
"""

import contextlib
import random
from collections.abc import Callable, Generator, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cache
from types import UnionType
from typing import Any, Generic, TypeVar, Union, cast, get_args, get_origin, get_type_hints
from urllib.parse import quote

from windlass.errors import (
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    InvalidWorkflow,
    NotFound,
    QuotaExceeded,
    Refused,
    ServerUnreachable,
    Unavailable,
    WindlassError,
)
from windlass.schemas.common import Page, Problem

T = TypeVar("T")
NOTHING: Any = object()  # no value was passed: None is a value
PREFIX = "/api/v1"
AGAIN = frozenset({429, 502, 503, 504})  # statuses that may be temporary: the request is retried if that is safe
FIRST_PAUSE, MOST_PAUSE = 0.2, 10.0
MOST_PATIENCE = 60.0  # seconds; if Retry-After is longer, the request is not retried
MAX_SHOWN = 200
ERRORS: Mapping[int, type[WindlassError]] = {
    401: Refused,
    409: Conflict,
    410: Gone,
    421: Refused,
    429: Unavailable,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """A call of an operation. `path` is its path template in the OpenAPI document, which `values` fill in."""

    method: str
    path: str
    read: Callable[[Any], T]
    values: Mapping[str, object] = field(default_factory=dict)
    query: Mapping[str, object] = field(default_factory=dict)
    body: Any = NOTHING
    headers: Mapping[str, str] = field(default_factory=dict)
    refused: type[Invalid] = Invalid  # the exception for a 422
    patience: float = 0.0  # seconds by which to extend the client's timeout
    kind: type | None = None  # the type of the response's data, and whether that is a list: for the tests
    many: bool = False

    @property
    def address(self) -> str:
        """The path with its values, quoted so that no value can change another part of the URL."""
        return PREFIX + self.path.format(**{name: quote(str(value), safe="") for name, value in self.values.items()})

    @property
    def parameters(self) -> list[tuple[str, str]]:
        return [(name, _text(one)) for name, value in self.query.items() for one in _each(value)]

    @property
    def is_repeatable(self) -> bool:
        """Whether the request is idempotent, so that it may be retried."""
        return self.method == "GET" or "Idempotency-Key" in self.headers

    def asking(self, **query: object) -> "Call[T]":
        return replace(self, query={**self.query, **query})


@dataclass(frozen=True, slots=True)
class Answer:
    """A response. Status 0 means that none arrived; `text` is then the reason."""

    status: int
    text: str
    headers: Mapping[str, str]
    json: Any = None


@dataclass(frozen=True, slots=True)
class Pause:
    seconds: float


Flow = Generator[Call[Any] | Pause, Answer, T]


def one(kind: type[T], method: str, path: str, values: Mapping[str, object] | None = None, **more: Any) -> Call[T]:
    """Return a call whose response is {"data": {...}}."""
    return Call(method, path, lambda answer: decode(kind, answer["data"]), values or {}, kind=kind, **_with_query(more))


def page(kind: type[T], path: str, values: Mapping[str, object] | None = None, /, **query: object) -> Call[Page[T]]:
    """Return a call whose response is {"data": [...], "next": cursor}."""

    def read(answer: Any) -> Page[T]:
        return Page([decode(kind, item) for item in answer["data"]], answer.get("next"))

    return Call("GET", path, read, values or {}, present(query), kind=kind, many=True)


def present(values: Mapping[str, object]) -> dict[str, object]:
    """Return those values of a mapping or a method's `locals()` that are set, converted for JSON and query strings."""
    return {
        name.rstrip("_"): _plain(value)
        for name, value in values.items()
        if name != "self" and value is not None and value is not NOTHING and value not in ((), [])
    }


def perform(call: Call[T], url: str, retries: int) -> Flow[T]:
    """Perform a call; retry it after a temporary failure if it is idempotent. Failures raise `WindlassError`."""
    pause = FIRST_PAUSE
    while True:
        answer = yield call
        if 200 <= answer.status < 300:
            try:
                return call.read(answer.json)
            except (AttributeError, KeyError, TypeError, ValueError):  # not a response of Windlass
                raise error_of(answer.status, answer.text, None, f"{url}{call.address}") from None
        wait = _wait(answer, pause)
        if retries <= 0 or not call.is_repeatable or answer.status not in AGAIN | {0} or wait > MOST_PATIENCE:
            error = error_of(answer.status, answer.text, answer.json, f"{url}{call.address}", call.refused)
            if isinstance(error, QuotaExceeded) and "retry-after" in answer.headers:
                error.retry_after = wait
            raise error
        yield Pause(wait)
        retries, pause = retries - 1, min(pause * 2, MOST_PAUSE)


def unreachable(url: str, why: object) -> ServerUnreachable:
    return ServerUnreachable(f"cannot reach the server at {url}: {why}")


def _wait(answer: Answer, pause: float) -> float:
    """Return the Retry-After of the server, or our own pause with jitter, so that clients do not retry together."""
    retry_after = answer.headers.get("retry-after", "")
    if retry_after.isdigit():
        return float(retry_after)
    return pause * random.uniform(0.5, 1.0)


def _with_query(more: dict[str, Any]) -> dict[str, Any]:
    if "query" in more:
        more["query"] = present(more["query"])
    return more


def _each(value: object) -> list[object]:
    return list(value) if isinstance(value, list | tuple | set | frozenset) else [value]


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _plain(value: object) -> object:
    match value:
        case datetime():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case tuple():
            return list(value)
        case _:
            return value


# Responses: JSON becomes the dataclasses of `windlass.schemas`. Unknown keys come from a newer server and are ignored.
# A field that an older server does not send gets its default, or None.


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
        with contextlib.suppress(ValueError):  # a newer server may send other values
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
    """Return for each field name the key in JSON, the type and whether there is a default."""
    hints = get_type_hints(kind)
    return {
        field.name: (
            field.metadata.get("alias", field.name),
            hints[field.name],
            field.default is not MISSING or field.default_factory is not MISSING,
        )
        for field in fields(kind)
    }


# Errors: problem documents become exceptions


def error_of(status: int, text: str, document: Any, address: str, invalid: type[Invalid] = Invalid) -> WindlassError:
    """Return the error of a response, of the type that the server raised.

    `text` is the raw body or, with status 0, the reason why no response arrived.
    """
    if status == 0:
        return ServerUnreachable(text)
    problem = decode(Problem, document) if isinstance(document, dict) else None
    if problem is None or not isinstance(problem.detail, str):
        body = f": {text[:MAX_SHOWN].strip()}" if text.strip() else ""
        return Unavailable(f"{address} answered {status}, which is not a response of Windlass: check the address{body}")
    if status == 404:
        if problem.what is None:
            return NotFound("address", address, hint="check that a Windlass server of this version runs there")
        return NotFound(problem.what, problem.key, hint=problem.hint)
    if status in (413, 415, 422):
        return _invalid(problem, invalid)
    if status == 403:
        return Forbidden(problem.detail, scope=problem.scope)
    if problem.code is not None and problem.limit is not None and problem.used is not None:
        return QuotaExceeded(
            problem.detail,
            code=problem.code,
            limit=problem.limit,
            used=problem.used,
            resets_at=problem.resets_at,
        )
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
