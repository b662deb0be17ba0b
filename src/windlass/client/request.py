"""Calls as values: what to request, and how to read the answer. Both clients share it.

A `Flow` is a generator that yields requests and pauses, and is sent answers. `transport` has the two that perform one:
blocking and awaiting.
"""

import random
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from windlass.client.decode import decode, error_of
from windlass.errors import Invalid, ServerUnreachable
from windlass.schemas.common import Page

T = TypeVar("T")
NOTHING: Any = object()  # no value was given; None is one
PREFIX = "/api/v1"
AGAIN = frozenset({429, 502, 503, 504})  # come back later, they say
FIRST_PAUSE, MOST_PAUSE = 0.2, 10.0
MOST_PATIENCE = 60.0  # a server that asks for more is not waited for


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One operation of the API. `path` is the template of the OpenAPI document, `values` fill it."""

    method: str
    path: str
    read: Callable[[Any], T]
    values: Mapping[str, object] = field(default_factory=dict)
    query: Mapping[str, object] = field(default_factory=dict)
    body: Any = NOTHING
    headers: Mapping[str, str] = field(default_factory=dict)
    refused: type[Invalid] = Invalid  # what a 422 becomes
    patience: float = 0.0  # seconds the server may take on top of the usual
    kind: type | None = None  # what the answer's data is made of, and whether it is a list: for the check
    many: bool = False

    @property
    def address(self) -> str:
        """The path with its values, none of which can reach beyond its place."""
        return PREFIX + self.path.format(**{name: quote(str(value), safe="") for name, value in self.values.items()})

    @property
    def parameters(self) -> list[tuple[str, str]]:
        return [(name, _text(one)) for name, value in self.query.items() for one in _each(value)]

    @property
    def is_repeatable(self) -> bool:
        """Whether asking twice is as good as asking once."""
        return self.method == "GET" or "Idempotency-Key" in self.headers

    def asking(self, **query: object) -> "Call[T]":
        return replace(self, query={**self.query, **query})


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back. Status 0: nothing did, and `text` says why."""

    status: int
    text: str
    headers: Mapping[str, str]
    json: Any = None


@dataclass(frozen=True, slots=True)
class Pause:
    seconds: float


Flow = Generator[Call[Any] | Pause, Answer, T]


def one(kind: type[T], method: str, path: str, values: Mapping[str, object] | None = None, **more: Any) -> Call[T]:
    """A call whose answer is {"data": {...}}."""
    return Call(method, path, lambda answer: decode(kind, answer["data"]), values or {}, kind=kind, **_given(more))


def page(kind: type[T], path: str, values: Mapping[str, object] | None = None, /, **query: object) -> Call[Page[T]]:
    """A call whose answer is {"data": [...], "next": cursor}."""

    def read(answer: Any) -> Page[T]:
        return Page([decode(kind, item) for item in answer["data"]], answer.get("next"))

    return Call("GET", path, read, values or {}, given(query), kind=kind, many=True)


def given(values: Mapping[str, object]) -> dict[str, object]:
    """Return the values that are set."""
    return {name.rstrip("_"): value for name, value in values.items() if value is not None and value is not NOTHING}


def performed(call: Call[T], url: str, retries: int) -> Flow[T]:
    """Ask, and ask again where that is safe and worth it. Raises our own errors."""
    pause = FIRST_PAUSE
    while True:
        answer = yield call
        if 200 <= answer.status < 300:
            try:
                return call.read(answer.json)
            except (AttributeError, KeyError, TypeError, ValueError):  # not an answer of Windlass
                raise error_of(answer.status, answer.text, None, f"{url}{call.address}") from None
        wait = _wait(answer, pause)
        if retries <= 0 or not call.is_repeatable or answer.status not in AGAIN | {0} or wait > MOST_PATIENCE:
            raise error_of(answer.status, answer.text, answer.json, f"{url}{call.address}", call.refused)
        yield Pause(wait)
        retries, pause = retries - 1, min(pause * 2, MOST_PAUSE)


def unreachable(url: str, why: object) -> ServerUnreachable:
    return ServerUnreachable(f"cannot reach the server at {url}: {why}")


def _wait(answer: Answer, pause: float) -> float:
    """What the server asked for, or our own guess; spread, so that many do not come back together."""
    asked = answer.headers.get("retry-after", "")
    if asked.isdigit():
        return float(asked)
    return pause * random.uniform(0.5, 1.0)


def _given(more: dict[str, Any]) -> dict[str, Any]:
    if "query" in more:
        more["query"] = given(more["query"])
    return more


def _each(value: object) -> list[object]:
    return list(value) if isinstance(value, list | tuple | set | frozenset) else [value]


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    moment = getattr(value, "isoformat", None)
    return str(moment()) if moment is not None else str(value)
