"""Splits a string with templates into literal text and paths."""

import re
from collections.abc import Iterator, Sequence

from windlass.core.expressions.paths import Path, read_path
from windlass.core.expressions.text import QUOTED, unquoted
from windlass.errors import InvalidExpression

OPEN, CLOSE = "{{", "}}"

Pieces = Sequence[str | Path]

_space = re.compile(r"\s*")
_quoted = re.compile(QUOTED, re.DOTALL)


def pieces(text: str) -> list[str | Path]:
    """Return the literal pieces and the paths in order; empty pieces are left out."""
    found: list[str | Path] = []
    start = 0
    while (at := text.find(OPEN, start)) >= 0:
        piece, end = _template(text, at)
        found += text[start:at], piece
        start = end
    found.append(text[start:])
    return [piece for piece in found if piece]


def paths_of(found: Pieces) -> Iterator[Path]:
    return (piece for piece in found if isinstance(piece, Path))


def _template(text: str, at: int) -> tuple[str | Path, int]:
    """Return the template that opens at `at`, and the position after it."""
    start = _after_space(text, at + len(OPEN))
    if start >= len(text):
        raise InvalidExpression("the template is not closed: }} is missing", source=text, column=at + 1)
    if text.startswith(CLOSE, start):
        raise InvalidExpression("the template is empty: write a path between {{ and }}", source=text, column=at + 1)
    piece, end = _inner(text, start)
    end = _after_space(text, end)
    if text.startswith(CLOSE, end):
        return piece, end + len(CLOSE)
    if text.find(CLOSE, end) < 0:
        raise InvalidExpression("the template is not closed: }} is missing", source=text, column=at + 1)
    raise InvalidExpression("a template holds one path and nothing else", source=text, column=end + 1)


def _inner(text: str, start: int) -> tuple[str | Path, int]:
    if quoted := _quoted.match(text, start):
        return unquoted(quoted.group(), text, start), quoted.end()
    return read_path(text, start)


def _after_space(text: str, at: int) -> int:
    match = _space.match(text, at)
    return match.end() if match else at
