"""The nodes of a compiled template. Each returns its value for the facts of a run, or raises `TemplateError`."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from windlass.core.expressions.paths import Path
from windlass.core.expressions.scope import Facts, Nothing, find
from windlass.core.json_value import RESULT_LIMIT
from windlass.core.templates.parser import Pieces, paths_of
from windlass.errors import TemplateError

MAX_TEXT = RESULT_LIMIT

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


class Template(Protocol):
    def value(self, facts: Facts) -> Any: ...

    def paths(self) -> Iterator[Path]: ...


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
    return TemplateError(f"{{{{{path.text}}}}} cannot stand here: {why}", path=path.text)


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
