"""References to secrets in resolved templates: the string keeps `{{secrets.NAME}}`, and its position is recorded.

A stored payload never contains the value of a secret. Only characters at a recorded position are a reference: the same
characters in a value of the run are not replaced, so no input can make a step send a secret.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from windlass.core.expressions.scope import Path

Place = tuple[str | int, ...]  # the keys and indexes that lead from the payload to a string


class Form(StrEnum):
    """How the value of a secret is inserted."""

    TEXT = "text"  # unchanged
    BASE = "base"  # the beginning of a URL
    HOST = "host"
    PORT = "port"
    QUOTED = "quoted"  # percent-encoded, in the path or the query of a URL


class Span(NamedTuple):
    start: int
    name: str
    form: Form

    @property
    def end(self) -> int:
        return self.start + len(written(self.name))


class SecretText(str):
    """A string with references to secrets. Characters that came from values of the run are never part of a span."""

    __slots__ = ("spans",)
    spans: tuple[Span, ...]

    def __new__(cls, text: str, spans: tuple[Span, ...]) -> "SecretText":
        made = super().__new__(cls, text)
        made.spans = spans
        return made


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference as it is stored with a payload."""

    at: Place
    span: Span


def written(name: str) -> str:
    return f"{{{{secrets.{name}}}}}"


def refer(path: Path, form: Form = Form.TEXT) -> SecretText:
    """Return the placeholder for a secret, which each attempt replaces with the value."""
    return SecretText(written(path.name), (Span(0, path.name, form),))


def join(parts: Sequence[str]) -> str:
    """Join strings and keep the references in them."""
    text = "".join(parts)
    if not any(part.__class__ is SecretText for part in parts):
        return text
    spans: list[Span] = []
    length = 0
    for part in parts:
        if isinstance(part, SecretText):
            spans += [span._replace(start=length + span.start) for span in part.spans]
        length += len(part)
    return SecretText(text, tuple(spans))


def noted(payload: dict[str, Any]) -> dict[str, Any]:
    """Return a payload with the list of its references."""
    references = [
        {"at": list(at), "start": span.start, "name": span.name, "form": str(span.form)}
        for at, text in _texts(payload, ())
        for span in text.spans
    ]
    return {**payload, "secrets": references}


def read(references: Iterable[Mapping[str, Any]]) -> list[Reference]:
    """Return the references that are stored with a payload."""
    return [Reference(tuple(one["at"]), Span(one["start"], one["name"], Form(one["form"]))) for one in references]


def text_at(value: Any, at: Place) -> str:
    for part in at:
        value = value[part]
    assert isinstance(value, str)
    return value


def reveal(text: str, spans: Sequence[Span], values: Mapping[str, str]) -> str:
    """Return the string with each span replaced by the value of its secret; the spans must be in order."""
    pieces, end = [], 0
    for span in spans:
        pieces += [text[end : span.start], values[span.name]]
        end = span.end
    return "".join([*pieces, text[end:]])


def replaced(value: Any, at: Place, text: str) -> Any:
    """Return a copy of a JSON value with the string at this position replaced; unchanged members are shared."""
    if not at:
        return text
    first, *rest = at
    member = replaced(value[first], tuple(rest), text)
    if isinstance(value, list):
        return [member if n == first else item for n, item in enumerate(value)]
    return {**value, first: member}


def _texts(value: Any, at: Place) -> Iterator[tuple[Place, SecretText]]:
    if isinstance(value, SecretText):
        yield at, value
    elif isinstance(value, Mapping):
        for key, member in value.items():
            yield from _texts(member, (*at, key))
    elif isinstance(value, list | tuple):
        for n, item in enumerate(value):
            yield from _texts(item, (*at, n))
