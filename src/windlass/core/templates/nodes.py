"""Splits a string with templates into literal text and paths, and compiles it to nodes.

Each node returns its value for the facts of a run, or raises `TemplateError`.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from windlass.core.expressions.paths import QUOTED, Path, read_path, unquoted
from windlass.core.expressions.scope import Facts, Nothing, find
from windlass.core.json_value import RESULT_LIMIT
from windlass.errors import InvalidExpression, TemplateError

OPEN, CLOSE = "{{", "}}"
MAX_TEXT = RESULT_LIMIT

Pieces = Sequence[str | Path]

_space = re.compile(r"\s*")
_quoted = re.compile(QUOTED, re.DOTALL)
_control = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]").search
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


class Template(Protocol):
    def value(self, facts: Facts) -> Any: ...

    def paths(self) -> Iterator[Path]: ...


def pieces(text: str) -> list[str | Path]:
    """Return the literal pieces and the paths in order; empty pieces are left out."""
    found: list[str | Path] = []
    start = 0
    while (at := text.find(OPEN, start)) >= 0:
        piece, end = _read_template(text, at)
        found += text[start:at], piece
        start = end
    found.append(text[start:])
    return [piece for piece in found if piece]


def paths_of(found: Pieces) -> Iterator[Path]:
    return (piece for piece in found if isinstance(piece, Path))


def _read_template(text: str, at: int) -> tuple[str | Path, int]:
    """Return the template that opens at `at`, and the position after it."""
    start = _after_space(text, at + len(OPEN))
    if start >= len(text):
        raise InvalidExpression("the template is not closed: }} is missing", source=text, column=at + 1)
    if text.startswith(CLOSE, start):
        raise InvalidExpression("the template is empty: write a path between {{ and }}", source=text, column=at + 1)
    piece, end = _read_inner(text, start)
    end = _after_space(text, end)
    if text.startswith(CLOSE, end):
        return piece, end + len(CLOSE)
    if text.find(CLOSE, end) < 0:
        raise InvalidExpression("the template is not closed: }} is missing", source=text, column=at + 1)
    raise InvalidExpression("a template must contain one path and nothing else", source=text, column=end + 1)


def _read_inner(text: str, start: int) -> tuple[str | Path, int]:
    if quoted := _quoted.match(text, start):
        return unquoted(quoted.group(), text, start), quoted.end()
    return read_path(text, start)


def _after_space(text: str, at: int) -> int:
    match = _space.match(text, at)
    return match.end() if match else at


def value_at(facts: Facts, path: Path) -> Any:
    """Return the value of a path; raise `TemplateError` if there is none."""
    value = find(facts, path)
    if value.__class__ is not Nothing:
        return value
    if value is Nothing.TRUNCATED:
        what = f"'{path.inside}' because the response from '{path.name}'"
        raise TemplateError(f"Cannot read {what} exceeded the 256KB limit and was truncated", path=path.text)
    raise TemplateError(f"Failed to resolve {{{{{path.text}}}}}", path=path.text)


def text_at(facts: Facts, path: Path) -> str:
    """Return the value of a path as a string: strings unchanged, everything else as compact JSON."""
    value = value_at(facts, path)
    if isinstance(value, str):
        return value
    try:
        return _encode(value)
    except (TypeError, ValueError, RecursionError):
        raise refusal(path, "it is not JSON") from None


def filled(facts: Facts, pieces: Pieces, written: Callable[[Facts, Path], str]) -> str:
    """Return the text with each path replaced by the result of `written`."""
    found, length = [], 0
    for piece in pieces:
        text = piece if isinstance(piece, str) else written(facts, piece)
        length += len(text)
        if length > MAX_TEXT and isinstance(piece, Path):
            raise refusal(piece, f"the text would be longer than {MAX_TEXT} characters")
        found.append(text)
    return "".join(found)


def refusal(path: Path, why: str) -> TemplateError:
    """Return an error without the value, which may be a secret."""
    return TemplateError(f"{{{{{path.text}}}}} cannot be used here: {why}", path=path.text)


@dataclass(frozen=True, slots=True)
class Constant:
    constant: Any

    def value(self, facts: Facts) -> Any:
        return self.constant

    def paths(self) -> Iterator[Path]:
        return iter(())


@dataclass(frozen=True, slots=True)
class Single:
    """A string that is a single template: the value keeps its type."""

    path: Path

    def value(self, facts: Facts) -> Any:
        return value_at(facts, self.path)

    def paths(self) -> Iterator[Path]:
        yield self.path


@dataclass(frozen=True, slots=True)
class Mixed:
    pieces: Pieces

    def value(self, facts: Facts) -> str:
        return filled(facts, self.pieces, text_at)

    def paths(self) -> Iterator[Path]:
        return paths_of(self.pieces)


@dataclass(frozen=True, slots=True)
class Header:
    """Text of a header. It must be one line: a line break would begin another header, or the body."""

    pieces: Pieces

    def value(self, facts: Facts) -> str:
        return filled(facts, self.pieces, one_line)

    def paths(self) -> Iterator[Path]:
        return paths_of(self.pieces)


def one_line(facts: Facts, path: Path) -> str:
    text = text_at(facts, path)
    if _control(text):
        raise refusal(path, "its value has a line break, a NUL or another control character")
    return text


@dataclass(frozen=True, slots=True)
class Items:
    items: tuple[Template, ...]

    def value(self, facts: Facts) -> list[Any]:
        return [item.value(facts) for item in self.items]

    def paths(self) -> Iterator[Path]:
        for item in self.items:
            yield from item.paths()


@dataclass(frozen=True, slots=True)
class Members:
    members: tuple[tuple[str, Template], ...]

    def value(self, facts: Facts) -> dict[str, Any]:
        return {key: member.value(facts) for key, member in self.members}

    def paths(self) -> Iterator[Path]:
        for _, member in self.members:
            yield from member.paths()
