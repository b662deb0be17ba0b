"""Templates: `{{ path }}` in any JSON value. Compiled once for each step, resolved for each job.

Strict: a path without a value is a `TemplateError`, never an empty string. Typed: a string that is a single template
becomes the value itself. In a longer string, strings are inserted unchanged; numbers, true, false, null, lists and
objects as compact JSON. Inserted values are not searched for templates, and keys are not templates. `{{ '...' }}`
yields the quoted string, for literal braces. The manual: docs/reference/templates.md.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from windlass.core import json_value
from windlass.core.expressions.scope import Facts, Nothing, Path, after_space, find, match_quoted, read_path, unquoted
from windlass.core.templates.references import join, refer
from windlass.errors import Invalid, InvalidExpression, TemplateError

OPEN, CLOSE = "{{", "}}"
MAX_TEXT = MAX_WEIGHT = json_value.RESULT_LIMIT
FEW = 8  # up to this many references the size of the result is not checked
NODE_WEIGHT = 8
NO_FACTS = Facts()

Pieces = Sequence[str | Path]

_control = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]").search
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


class Template(Protocol):
    """A node of a compiled value. `value` raises `TemplateError` if a path has no value."""

    def value(self, facts: Facts) -> Any: ...

    def paths(self) -> Iterator[Path]: ...


class Binding:
    """A compiled value with templates. The result of `resolve` may be shared: do not change it."""

    def __init__(self, template: Template) -> None:
        paths = list(template.paths())
        self.references = tuple(dict.fromkeys(paths))
        self._template = template
        self._heavy = len(paths) > FEW

    def resolve(self, facts: Facts) -> Any:
        """Return the value with every template resolved; raise `TemplateError` if one has no value."""
        value = self._template.value(facts)
        if self._heavy and _too_heavy(value):
            raise TemplateError(
                f"the resolved templates have more than {MAX_WEIGHT} bytes", path=self.references[0].text
            )
        return value


def compile(value: Any) -> Binding:  # noqa: A001 - called as `template.compile`, like `re.compile`
    """Compile any JSON value. Raise `InvalidExpression` for an invalid template."""
    if json_value.depth(value) > json_value.MAX_DEPTH:
        raise Invalid(f"the value is nested deeper than {json_value.MAX_DEPTH} levels")
    return Binding(_template(value))


def compile_header(text: str) -> Binding:
    """Compile a header. It resolves to a single-line string."""
    return compile_text(text, lambda parts: Mixed(parts, one_line))


def compile_text(text: str, template: Callable[[Pieces], Template]) -> Binding:
    """Compile a string with rules of its own, such as a URL; `template` builds the node from literal text and paths."""
    parts = pieces(text)
    return Binding(Constant("".join(map(str, parts))) if is_plain(parts) else template(parts))


def _template(value: Any) -> Template:
    if isinstance(value, str):
        return _text(value) if OPEN in value else Constant(value)
    if isinstance(value, Mapping):
        return _resolved_if_constant(Members(tuple((key, _template(member)) for key, member in value.items())))
    if isinstance(value, list | tuple):
        return _resolved_if_constant(Items(tuple(_template(item) for item in value)))
    return Constant(value)


def _text(value: str) -> Template:
    match pieces(value):
        case [Path() as path]:
            return Single(path)
        case parts if is_plain(parts):
            return Constant("".join(map(str, parts)))
        case parts:
            return Mixed(parts)


def is_plain(parts: Pieces) -> bool:
    """Return whether there is only literal text."""
    return all(isinstance(piece, str) for piece in parts)


def _resolved_if_constant(template: Template) -> Template:
    """Resolve a value without templates now. The result is a copy: the caller may change the original later."""
    return template if any(True for _ in template.paths()) else Constant(template.value(NO_FACTS))


def _too_heavy(value: Any) -> bool:
    """Return whether a value exceeds the limit: a short definition can reference one large value many times."""
    weight, waiting = 0, [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str | dict | list):
            weight += len(item) if isinstance(item, str) else len(item) * NODE_WEIGHT
        if weight > MAX_WEIGHT:
            return True
        if isinstance(item, dict | list):
            waiting += item.values() if isinstance(item, dict) else item
    return False


# Reading


def pieces(text: str) -> list[str | Path]:
    """Return the literal pieces and the paths in order; empty pieces are left out."""
    parts: list[str | Path] = []
    start = 0
    while (at := text.find(OPEN, start)) >= 0:
        piece, end = _read_template(text, at)
        parts += text[start:at], piece
        start = end
    parts.append(text[start:])
    return [piece for piece in parts if piece]


def secret_named(text: str) -> str | None:
    """Return the name of the secret if the text is a single `{{secrets.NAME}}`."""
    try:
        parts = pieces(text) if OPEN in text else []
    except InvalidExpression:
        return None
    match parts:
        case [Path(root="secrets", name=name)]:
            return name
        case _:
            return None


def paths_of(parts: Pieces) -> Iterator[Path]:
    return (piece for piece in parts if isinstance(piece, Path))


def _read_template(text: str, at: int) -> tuple[str | Path, int]:
    """Return the template that opens at `at`, and the position after it."""
    start = after_space(text, at + len(OPEN))
    if start >= len(text):
        raise InvalidExpression("the template is not closed: }} is missing", column=at + 1)
    if text.startswith(CLOSE, start):
        raise InvalidExpression("the template is empty: write a path between {{ and }}", column=at + 1)
    piece: str | Path
    if quoted := match_quoted(text, start):
        piece, end = unquoted(quoted.group(), start), quoted.end()
    else:
        piece, end = read_path(text, start)
    end = after_space(text, end)
    if text.startswith(CLOSE, end):
        return piece, end + len(CLOSE)
    if text.find(CLOSE, end) < 0:
        raise InvalidExpression("the template is not closed: }} is missing", column=at + 1)
    raise InvalidExpression("a template must contain one path and nothing else", column=end + 1)


# Values


def value_at(facts: Facts, path: Path) -> Any:
    """Return the value of a path; raise `TemplateError` if there is none. For a secret, return a reference to it."""
    if path.root == "secrets":
        return refer(path)
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


def refusal(path: Path, why: str) -> TemplateError:
    """Return an error without the value, which may be a secret."""
    return TemplateError(f"{{{{{path.text}}}}} cannot be used here: {why}", path=path.text)


def one_line(facts: Facts, path: Path) -> str:
    """Return the value of a path for a header; refuse line breaks, which would begin another header or the body."""
    text = text_at(facts, path)
    if _control(text):
        raise refusal(path, "its value has a line break, a NUL or another control character")
    return text


# Nodes


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
    """Literal text with templates in it; `written` returns the value of a path as a string."""

    pieces: Pieces
    written: Callable[[Facts, Path], str] = text_at

    def value(self, facts: Facts) -> str:
        parts, length = [], 0
        for piece in self.pieces:
            text = piece if isinstance(piece, str) else self.written(facts, piece)
            length += len(text)
            if length > MAX_TEXT and isinstance(piece, Path):
                raise refusal(piece, f"the text would be longer than {MAX_TEXT} characters")
            parts.append(text)
        return join(parts)

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
