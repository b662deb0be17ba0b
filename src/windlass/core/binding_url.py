"""Templates in a URL. A value can fill its place and nothing more: it never changes which host, path or query is meant.

A template at the start is the base, which the author trusts: it stands as it is, and whoever sends must check its
scheme and its host. Behind it values are percent-encoded; in the host only what a host is made of may stand.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from urllib.parse import quote

from windlass.core.binding_read import Pieces, paths_of
from windlass.core.binding_value import refusal, text_at, value_at
from windlass.core.expression_path import Path
from windlass.core.facts import Facts

MAX_VALUE = 8192
STAND_IN = "x"  # for a template, where only the text around it matters
HOLLOW = frozenset({"", ".", ".."})  # segments of a path that name nothing, or something above

_host = re.compile(r"[A-Za-z0-9._:\[\]-]+").fullmatch
_unfit = re.compile(r"[\x00-\x20\x7f]").search
_end_of_path = re.compile(r"[?#]")


class Place(Enum):
    TEXT = auto()  # what the author wrote
    HOST = auto()
    PATH = auto()
    QUERY = auto()


@dataclass(frozen=True, slots=True)
class Url:
    base: Path | None
    tail: tuple[tuple[str | Path, Place], ...]
    hollow: int  # hollow segments that the author wrote

    @classmethod
    def of(cls, pieces: Pieces) -> "Url":
        base = pieces[0] if pieces and isinstance(pieces[0], Path) else None
        tail: list[tuple[str | Path, Place]] = []
        before = ""
        for piece in pieces if base is None else pieces[1:]:
            tail.append((piece, Place.TEXT if isinstance(piece, str) else _place(_behind(base, before))))
            before += piece if isinstance(piece, str) else STAND_IN
        return cls(base, tuple(tail), _hollow(_behind(base, before)))

    def value(self, facts: Facts) -> str:
        base = "" if self.base is None else _base(facts, self.base)
        tail = "".join(piece if isinstance(piece, str) else _fit(facts, piece, place) for piece, place in self.tail)
        if _hollow(_behind(self.base, tail)) > self.hollow:
            raise refusal(self._first(Place.PATH), "a part of the URL's path would be empty or dots")
        return base + tail

    def paths(self) -> Iterator[Path]:
        if self.base is not None:
            yield self.base
        yield from paths_of([piece for piece, _ in self.tail])

    def _first(self, wanted: Place) -> Path:
        return next(piece for piece, place in self.tail if isinstance(piece, Path) and place is wanted)


def _behind(base: Path | None, text: str) -> str:
    """What stands behind the scheme; a base has one of its own."""
    return text if base is not None else text.partition("://")[2]


def _place(behind: str) -> Place:
    """Where a template stands, judged by what the author wrote before it."""
    if _end_of_path.search(behind):
        return Place.QUERY
    return Place.PATH if "/" in behind else Place.HOST


def _base(facts: Facts, path: Path) -> str:
    value = value_at(facts, path)
    if not isinstance(value, str) or not value:
        raise refusal(path, "a URL begins with a text")
    if _unfit(value):
        raise refusal(path, "its value has a space or a control character")
    return value


def _fit(facts: Facts, path: Path, place: Place) -> str:
    if value_at(facts, path) is None:
        raise refusal(path, "its value is null, which says nothing in a URL")
    text = text_at(facts, path)
    if len(text) > MAX_VALUE:
        raise refusal(path, f"its value is {len(text)} characters long, the limit in a URL is {MAX_VALUE}")
    if place is Place.HOST:
        if not _host(text):
            raise refusal(path, "its value is no part of a host; if it is a path, write a / before the template")
        return text
    try:
        return quote(text, safe="")
    except UnicodeEncodeError:
        raise refusal(path, "its value has half of a surrogate pair, which is not text") from None


def _hollow(behind: str) -> int:
    path = _end_of_path.split(behind, maxsplit=1)[0]
    segments = path.lower().replace("%2e", ".").split("/")[1:]
    return sum(segment in HOLLOW for segment in segments)
