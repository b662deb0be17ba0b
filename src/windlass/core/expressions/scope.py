"""The values that a step's `if` and templates can read, and the lookup of a path in them.

Bodies may be passed as `JsonText`, which is parsed on first access. Facts hold JSON values and are never modified: a
resolved template may share parts of them.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from windlass.core.expressions.paths import Part, Path
from windlass.core.json_value import cleaned, needs_cleaning

LONGEST_INDEX = 9


class Nothing(Enum):
    """Why a path has no value."""

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
    headers: Mapping[str, str] | None = None  # their names in lower case
    error: Any = None
    attempt: int | None = None
    truncated: bool = False  # the body exceeded the limit and was cut


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The scope of one evaluation. `tasks` and `waits` need only the steps that the expression or template names."""

    trigger_body: Any = None  # a JSON value or a `JsonText`
    trigger_headers: Mapping[str, str] = field(default_factory=dict)  # their names in lower case
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
            return _given(facts.index)
        case _:
            return _given(facts.run_id) if path.field == "id" else facts.run_attempt


def _of_task(task: TaskFacts | None, asked: str) -> Any:
    if task is None:
        return MISSING
    if asked in ("body", "output"):
        return TRUNCATED if task.truncated else task.body
    return _given(getattr(task, asked))


def _given(value: Any) -> Any:
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
        value = json.loads(text, parse_constant=_refuse, parse_float=_finite)
        return cleaned(value) if needs_cleaning(text) else value
    except (ValueError, RecursionError):
        return text


def _finite(digits: str) -> float:
    number = float(digits)
    if number - number != 0:
        raise ValueError("out of range")
    return number


def _refuse(name: str) -> None:
    raise ValueError(name)
