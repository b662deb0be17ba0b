"""The values that a step's `if` and templates can read, and the paths into them: `tasks.send-receipt.body.items[0].id`.

A parsed path has a known root and a known field. Whether the step it names exists is checked with the definition.
Bodies may be passed as `JsonText`, which is parsed on first access. Facts hold JSON values and are never modified: a
resolved template may share parts of them.
"""

import itertools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import Enum
from typing import Any, Final

from windlass.core.json_value import cleaned, needs_cleaning, refuse_constant
from windlass.errors import InvalidExpression

Part = str | int

ROOTS = ("tasks", "trigger", "input", "wait", "item", "index", "run", "secrets")
FIELDS: Mapping[str, Sequence[str]] = {
    "tasks": ("status", "status_code", "body", "output", "headers", "error", "attempt", "artifacts"),
    "trigger": ("body", "headers"),
    "wait": ("url",),
    "run": ("id", "attempt"),
}
NAMED = frozenset({"tasks", "wait"})  # roots followed by the name of a step
WHOLE = frozenset({"wait", "run", "index", "secrets"})  # roots whose values have no members
MAX_PARTS = 64
LONGEST_WORD = 60
LONGEST_INDEX = 9

QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
ESCAPES = {"\\": "\\", "'": "'", '"': '"', "n": "\n", "r": "\r", "t": "\t"}

NAMES_OF_SECRETS = "use 1 to 63 letters, digits and underscores, not beginning with a digit"
is_secret_name = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}").fullmatch
_NAME = r"[\w$@-]+"
_match_path = re.compile(rf"[^\W\d][\w$@-]*(?:\.{_NAME}|\[(?:[0-9]{{1,9}}|{QUOTED})\])*", re.DOTALL).match
_part = re.compile(rf"\.?({_NAME})|\[([0-9]+)\]|\[({QUOTED})\]", re.DOTALL)
match_quoted = re.compile(QUOTED, re.DOTALL).match
_space = re.compile(r"\s*").match
_escape = re.compile(r"\\(.)", re.DOTALL)
_plain = re.compile(_NAME).fullmatch


# Paths


@dataclass(frozen=True, slots=True)
class Path:
    """A parsed path. `text` is its source, `rest` the path inside the value of the field."""

    text: str
    root: str  # tasks, trigger, wait, item, index, run or secrets
    name: str = ""  # the step, for tasks and wait; the secret, for secrets
    field: str = ""
    rest: tuple[Part, ...] = ()

    @property
    def inside(self) -> str:
        """The path without the step: `body.items[0]`."""
        return self.field + "".join(_format_part(part) for part in self.rest)


def read_path(source: str, start: int) -> tuple[Path, int]:
    """Return the path that begins at `start`, and the position of its end."""
    match = _match_path(source, start)
    if match is None:
        raise InvalidExpression("a path is missing here", column=start + 1)
    after = source[match.end() : match.end() + 1]
    if after in (".", "["):
        problem = "a name must follow the dot" if after == "." else "[ ] must contain a number or a quoted string"
        raise InvalidExpression(problem, column=match.end() + 1)
    return _checked_path(match.group(), _PathParts(start, match.group())), match.end()


def source_path(text: str) -> Path:
    """Parse the path of a fan-out, which begins with a step or the run's input: `discover.files`, `input.files`."""
    head, *rest = text.split(".")
    if head == "trigger" and rest and rest[0] in FIELDS["trigger"]:
        return Path(text, "trigger", "", rest[0], tuple(rest[1:]))
    if head in ("input", "trigger"):
        return Path(text, "trigger", "", "body", tuple(rest))
    return Path(text, "tasks", head, "body", tuple(rest))


def unquoted(text: str, start: int) -> str:
    """Return the value of a quoted string that begins at `start` of the source."""
    if "\\" not in text:
        return text[1:-1]
    for match in _escape.finditer(text):
        if match[1] not in ESCAPES:
            problem = r"invalid escape: write \\ for a backslash; \n, \r, \t and \ before a quote are allowed"
            raise InvalidExpression(problem, column=start + match.start() + 1)
    return _escape.sub(lambda match: ESCAPES[match[1]], text[1:-1])


def after_space(text: str, at: int) -> int:
    """Return the position of the first character from `at` on that is not white space."""
    match = _space(text, at)
    return match.end() if match else at


def nearest(word: str, known: Sequence[str]) -> str:
    """Return the end of a message about an unknown name: a suggestion, or the known names."""
    near = get_close_matches(word, known, n=1) if len(word) <= LONGEST_WORD else []
    return f": did you mean {near[0]!r}?" if near else f": it must be one of {', '.join(known)}"


def _checked_path(text: str, parts: "_PathParts") -> Path:
    root = parts.choose("name", ROOTS)
    name = parts.step() if root in NAMED else parts.secret() if root == "secrets" else ""
    field = parts.choose(f"field of `{root}`", FIELDS[root]) if root in FIELDS else ""
    rest = parts.rest(whole=root in WHOLE)
    if root == "input":
        return Path(text, "trigger", "", "body", rest)
    if field == "headers" and rest:  # header names are case-insensitive
        rest = (str(rest[0]).lower(), *rest[1:])
    if field == "artifacts":
        rest = _artifact(parts, rest)
    return Path(text, root, name, field, rest)


def _artifact(parts: "_PathParts", rest: tuple[Part, ...]) -> tuple[Part, ...]:
    """Return the rest of a path with the name of the artifact as one part: it may contain dots."""
    name = list(itertools.takewhile(lambda part: isinstance(part, str), rest))
    if not name:
        raise parts.missing("the name of an artifact")
    return (".".join(map(str, name)), *rest[len(name) :])


class _PathParts:
    """The parts of a path, consumed from the left, with their columns for error messages."""

    def __init__(self, start: int, text: str) -> None:
        self._text = text
        matches = list(_part.finditer(text))
        self._columns = [start + match.start(1 if match[1] else 0) + 1 for match in matches]
        self._parts = [_part_value(match, start) for match in matches]
        self._taken = 0
        if len(matches) > MAX_PARTS:
            raise self._error(f"the path has {len(matches)} parts, the limit is {MAX_PARTS}")

    def choose(self, what: str, known: Sequence[str]) -> str:
        word = self._next(f"a {what}: one of {', '.join(known)}")
        if word not in known:
            raise self._error(f"unknown {what} {_quote_part(word)}{nearest(str(word), known)}")
        self._taken += 1
        return str(word)

    def step(self) -> str:
        name = self._next("the name of a step")
        if not isinstance(name, str):
            raise self._error("a step must be given by its name")
        self._taken += 1
        return name

    def secret(self) -> str:
        name = self._next("the name of a secret")
        if not isinstance(name, str) or not is_secret_name(name):
            raise self._error(f"{_quote_part(name)} is not the name of a secret: {NAMES_OF_SECRETS}")
        self._taken += 1
        return name

    def rest(self, *, whole: bool) -> tuple[Part, ...]:
        rest = tuple(self._parts[self._taken :])
        if rest and whole:
            raise self._error("the value has no members")
        return rest

    def _next(self, what: str) -> Part:
        if self._taken == len(self._parts):
            raise self.missing(what)
        return self._parts[self._taken]

    def missing(self, what: str) -> InvalidExpression:
        problem = f"{cut(self._text)} must be followed by {what}"
        return InvalidExpression(problem, column=self._columns[0])

    def _error(self, problem: str) -> InvalidExpression:
        return InvalidExpression(problem, column=self._columns[self._taken])


def _part_value(match: re.Match[str], start: int) -> Part:
    name, number, quoted = match.groups()
    if quoted is not None:
        return unquoted(quoted, start + match.start(3))
    return name if number is None else int(number)


def _format_part(part: Part) -> str:
    if isinstance(part, int):
        return f"[{part}]"
    return f".{part}" if _plain(part) else f"[{part!r}]"


def _quote_part(part: Part) -> str:
    return repr(cut(part)) if isinstance(part, str) else str(part)


def cut(text: str, length: int = LONGEST_WORD) -> str:
    """Return the string, shortened to at most `length` characters; a shortened one ends with three dots."""
    return text if len(text) <= length else text[: length - 3] + "..."


# Values


class Nothing(Enum):
    """The reason why a path has no value."""

    MISSING = "missing"
    TRUNCATED = "truncated"


MISSING: Final = Nothing.MISSING
TRUNCATED: Final = Nothing.TRUNCATED


class JsonText:
    """JSON text that is parsed on first access. Text that is not JSON is its own value."""

    __slots__ = ("_text", "_value")

    def __init__(self, text: str) -> None:
        self._text = text
        self._value: Any = MISSING

    @property
    def value(self) -> Any:
        if self._value is MISSING:
            self._value = _read(self._text)
        return self._value


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFacts:
    """The result of a step. An unset field is null in expressions and has no value in templates."""

    status: str  # success, failed, timeout, skipped, received, template_error, ...
    status_code: int | None = None
    body: Any = MISSING  # a JSON value or a `JsonText`
    headers: Mapping[str, str] | None = None  # with names in lower case
    error: Any = None
    attempt: int | None = None
    artifacts: Mapping[str, Any] | None = None  # references by name; for a fanned-out step, lists by index
    truncated: bool = False  # the body exceeded the limit and was cut


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The scope of one evaluation. `tasks` and `waits` need only the steps that the expression or template names."""

    trigger_body: Any = None  # a JSON value or a `JsonText`
    trigger_headers: Mapping[str, str] = field(default_factory=dict)  # with names in lower case
    tasks: Mapping[str, TaskFacts] = field(default_factory=dict)
    waits: Mapping[str, str] = field(default_factory=dict)  # the callback URL of each wait step
    item: Any = MISSING
    index: int | None = None
    run_id: str | None = None
    run_attempt: int = 1
    ancestors_failed: bool = False  # for failure(): a direct or indirect predecessor failed or timed out
    all_succeeded: bool = True  # for success(): every predecessor succeeded


def find(facts: Facts, path: Path) -> Any:
    """Return the value at a path; `MISSING` if there is none, `TRUNCATED` if the body that contains it was cut."""
    value = _start(facts, path)
    if value.__class__ is JsonText:
        value = value.value
    for part in path.rest:
        value = value.get(part, MISSING) if value.__class__ is dict else _inside(value, part)
    return value


def _start(facts: Facts, path: Path) -> Any:
    match path.root:
        case "tasks":
            return _of_task(facts.tasks.get(path.name), path.field)
        case "trigger":
            return facts.trigger_body if path.field == "body" else facts.trigger_headers
        case "wait":
            return facts.waits.get(path.name, MISSING)
        case "item":
            return facts.item
        case "index":
            return _or_missing(facts.index)
        case _:
            return _or_missing(facts.run_id) if path.field == "id" else facts.run_attempt


def _of_task(task: TaskFacts | None, name: str) -> Any:
    if task is None:
        return MISSING
    if name in ("body", "output"):
        return TRUNCATED if task.truncated else task.body
    return _or_missing(getattr(task, name))


def _or_missing(value: Any) -> Any:
    return MISSING if value is None else value


def _inside(value: Any, part: Part) -> Any:
    if isinstance(value, Mapping):
        return value.get(part, MISSING)
    if isinstance(value, list | tuple):
        index = part if isinstance(part, int) else _index(part)
        return value[index] if 0 <= index < len(value) else MISSING
    return value if value is TRUNCATED else MISSING


def _index(part: str) -> int:
    """Return the list index that a path part names (`items.0` is the first item), or -1."""
    return int(part) if part.isascii() and part.isdecimal() and len(part) <= LONGEST_INDEX else -1


def _read(text: str) -> Any:
    """Return the parsed value, or the text itself if it is not JSON.

    Strings that Postgres cannot store (NUL, half of a surrogate pair) are cleaned, because steps pass values on.
    """
    try:
        value = json.loads(text, parse_constant=refuse_constant, parse_float=_finite)
        return cleaned(value) if needs_cleaning(text) else value
    except (ValueError, RecursionError):
        return text


def _finite(digits: str) -> float:
    number = float(digits)
    if number - number != 0:
        raise ValueError("out of range")
    return number
