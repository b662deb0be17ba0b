"""The envelopes of answers, and the problems that a route may answer with."""

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")
MEANINGS = {
    404: "There is no such thing.",
    409: "It exists, but not in a state that allows this.",
    413: "The body is too large.",
    422: "The request is invalid; `errors` names every field.",
}


@dataclass(frozen=True, slots=True)
class Data(Generic[T]):
    data: T


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """A page. `next` goes into `before` or `after`, whichever the list has; null: the end."""

    data: list[T]
    next: str | None = None


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the entries of these statuses for the OpenAPI document."""
    schema = {"$ref": "#/components/schemas/Problem"}
    return {
        status: {"description": MEANINGS[status], "content": {"application/problem+json": {"schema": schema}}}
        for status in statuses
    }


def text_or_none(value: object) -> str | None:
    """Return a cursor as lists have it."""
    return None if value is None else str(value)
