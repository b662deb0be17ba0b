"""Paths into the data of a run, in expressions and templates: `tasks.send-receipt.body.items[0].id`.

A parsed path has a known root and a known field. Whether the step it names exists is checked with the definition.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from windlass.errors import InvalidExpression

Part = str | int

ROOTS = ("tasks", "trigger", "input", "wait", "item", "index", "run")
FIELDS: Mapping[str, Sequence[str]] = {
    "tasks": ("status", "status_code", "body", "output", "headers", "error", "attempt"),
    "trigger": ("body", "headers"),
    "wait": ("url",),
    "run": ("id", "attempt"),
}
NAMED = frozenset({"tasks", "wait"})  # roots followed by the name of a step
WHOLE = frozenset({"wait", "run", "index"})  # roots whose values have no members
MAX_PARTS = 64
LONGEST_WORD = 60

QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
ESCAPES = {"\\": "\\", "'": "'", '"': '"', "n": "\n", "r": "\r", "t": "\t"}

_NAME = r"[\w$@-]+"
_path = re.compile(rf"[^\W\d][\w$@-]*(?:\.{_NAME}|\[(?:[0-9]{{1,9}}|{QUOTED})\])*", re.DOTALL).match
_part = re.compile(rf"\.?({_NAME})|\[([0-9]+)\]|\[({QUOTED})\]", re.DOTALL)
_escape = re.compile(r"\\(.)", re.DOTALL)
_plain = re.compile(_NAME).fullmatch


@dataclass(frozen=True, slots=True)
class Path:
    """A parsed path. `text` is its source, `rest` the path inside the value of the field."""

    text: str
    root: str  # tasks, trigger, wait, item, index or run
    name: str = ""  # the step, for tasks and wait
    field: str = ""
    rest: tuple[Part, ...] = ()

    @property
    def inside(self) -> str:
        """The path without the step: `body.items[0]`."""
        return self.field + "".join(_written(part) for part in self.rest)


def read_path(source: str, start: int) -> tuple[Path, int]:
    """Return the path that begins at `start`, and the position of its end."""
    match = _path(source, start)
    if match is None:
        raise InvalidExpression("a path is missing here", source=source, column=start + 1)
    after = source[match.end() : match.end() + 1]
    if after in (".", "["):
        problem = "a name must follow the dot" if after == "." else "[ ] must contain a number or a quoted string"
        raise InvalidExpression(problem, source=source, column=match.end() + 1)
    return _checked_path(match.group(), _Words(source, start, match.group())), match.end()


def source_path(text: str) -> Path:
    """Parse the path of a fan-out, which begins with a step or the run's input: `discover.files`, `input.files`."""
    head, *rest = text.split(".")
    if head == "trigger" and rest and rest[0] in FIELDS["trigger"]:
        return Path(text, "trigger", "", rest[0], tuple(rest[1:]))
    if head in ("input", "trigger"):
        return Path(text, "trigger", "", "body", tuple(rest))
    return Path(text, "tasks", head, "body", tuple(rest))


def unquoted(text: str, source: str, start: int) -> str:
    """Return the value of a quoted string that begins at `start` of the source."""
    if "\\" not in text:
        return text[1:-1]
    for match in _escape.finditer(text):
        if match[1] not in ESCAPES:
            problem = r"invalid escape: write \\ for a backslash; \n, \r, \t and \ before a quote are allowed"
            raise InvalidExpression(problem, source=source, column=start + match.start() + 1)
    return _escape.sub(lambda match: ESCAPES[match[1]], text[1:-1])


def nearest(word: str, known: Sequence[str]) -> str:
    """Return the end of a message about an unknown name: a suggestion, or the known names."""
    near = get_close_matches(word, known, n=1) if len(word) <= LONGEST_WORD else []
    return f": did you mean {near[0]!r}?" if near else f": it must be one of {', '.join(known)}"


def _checked_path(text: str, words: "_Words") -> Path:
    root = words.choose("name", ROOTS)
    name = words.step() if root in NAMED else ""
    field = words.choose(f"field of `{root}`", FIELDS[root]) if root in FIELDS else ""
    rest = words.rest(whole=root in WHOLE)
    if root == "input":
        return Path(text, "trigger", "", "body", rest)
    if field == "headers" and rest:  # header names are case-insensitive
        rest = (str(rest[0]).lower(), *rest[1:])
    return Path(text, root, name, field, rest)


class _Words:
    """The parts of a path, consumed from the left, with their columns for error messages."""

    def __init__(self, source: str, start: int, text: str) -> None:
        self._source, self._text = source, text
        matches = list(_part.finditer(text))
        self._columns = [start + match.start(1 if match[1] else 0) + 1 for match in matches]
        self._parts = [_value(match, source, start) for match in matches]
        self._taken = 0
        if len(matches) > MAX_PARTS:
            raise self._wrong(f"the path has {len(matches)} parts, the limit is {MAX_PARTS}")

    def choose(self, what: str, known: Sequence[str]) -> str:
        word = self._next(f"a {what}: one of {', '.join(known)}")
        if word not in known:
            raise self._wrong(f"unknown {what} {_shown(word)}{nearest(str(word), known)}")
        self._taken += 1
        return str(word)

    def step(self) -> str:
        name = self._next("the name of a step")
        if not isinstance(name, str):
            raise self._wrong("a step must be given by its name")
        self._taken += 1
        return name

    def rest(self, *, whole: bool) -> tuple[Part, ...]:
        rest = tuple(self._parts[self._taken :])
        if rest and whole:
            raise self._wrong("the value has no members")
        return rest

    def _next(self, what: str) -> Part:
        if self._taken == len(self._parts):
            raise InvalidExpression(
                f"{cut(self._text)} must be followed by {what}", source=self._source, column=self._columns[0]
            )
        return self._parts[self._taken]

    def _wrong(self, problem: str) -> InvalidExpression:
        return InvalidExpression(problem, source=self._source, column=self._columns[self._taken])


def _value(match: re.Match[str], source: str, start: int) -> Part:
    name, number, quoted = match.groups()
    if quoted is not None:
        return unquoted(quoted, source, start + match.start(3))
    return name if number is None else int(number)


def _written(part: Part) -> str:
    if isinstance(part, int):
        return f"[{part}]"
    return f".{part}" if _plain(part) else f"[{part!r}]"


def _shown(part: Part) -> str:
    return repr(cut(part)) if isinstance(part, str) else str(part)


def cut(text: str, length: int = LONGEST_WORD) -> str:
    """Return the text, shortened to a length that ends with three dots."""
    return text if len(text) <= length else text[: length - 3] + "..."
