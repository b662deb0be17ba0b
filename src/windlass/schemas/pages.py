"""A part of a list, as clients and commands have it; on the wire it is `{"data": [...], "next": cursor}`."""

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A part of a list. `next` leads to the following part; None means the end."""

    items: list[T]
    next: str | None
