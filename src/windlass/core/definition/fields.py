"""Reads one object of a definition document, key by key, and checks the names of steps and workflows.

Reading does not stop at a mistake: it records the mistake with its path and continues with the default, so that all
mistakes are reported at once. A key whose value is null counts as missing. Names are restricted because they are
used in paths, URLs, expressions and shells.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta
from difflib import get_close_matches
from enum import StrEnum
from typing import Any, TypeGuard, TypeVar

from windlass.core import duration
from windlass.core.expressions.scope import cut
from windlass.core.jobs.spec import check_name
from windlass.errors import Invalid

MAX_SUGGESTIONS = 20  # searching for similar names is slow, and a document may have many mistakes
WORDS = {True: "true", False: "false", None: "null"}
LONGEST_SHOWN = 60
LONGEST_MESSAGE = 300
MAX_NAME = 100
STEP_NAME = r"^[A-Za-z0-9_-]{1,100}$"
WORKFLOW_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"

Word = TypeVar("Word", bound=StrEnum)

_PLAIN_KEY = re.compile(r"[A-Za-z0-9_$-]{1,100}").fullmatch
_STEP = re.compile(STEP_NAME.strip("^$")).fullmatch
_WORKFLOW = re.compile(WORKFLOW_NAME.strip("^$")).fullmatch
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE).fullmatch


class Mistakes:
    """The mistakes found so far: (path, message).

    A stored version is not validated again: rules may have become stricter since, and a newer release may have written
    keys that this one does not know. Only values that cannot be understood are recorded (`unreadable`), because
    continuing with a default would change what the workflow does.
    """

    def __init__(self, *, stored: bool = False) -> None:
        self.errors: list[tuple[str, str]] = []
        self.stored = stored
        self._suggestions = 0

    def add(self, path: str, message: str) -> None:
        """Record that a value breaks a rule; ignored for stored versions, because the value was understood."""
        if not self.stored:
            self.errors.append((path, message))

    def unreadable(self, path: str, message: str) -> None:
        """Record a value that cannot be understood."""
        self.errors.append((path, message))

    def add_invalid(self, path: str, error: Invalid, field: str = "it") -> None:
        """Record an error of another module; a leading `field` in its message becomes "it", since the path names it."""
        self.add(path, _about(error, field))

    def unreadable_invalid(self, path: str, error: Invalid, field: str = "it") -> None:
        self.unreadable(path, _about(error, field))

    def unknown(self, path: str, what: str, name: object, known: Iterable[str]) -> None:
        self.add(path, f"unknown {what} {format_value(name)}{self._suggestion(name, known)}")

    def _suggestion(self, name: object, known: Iterable[str]) -> str:
        if name is True:
            return ": YAML 1.1 reads a bare `on` or `yes` as true; put it in quotes"
        if not isinstance(name, str) or len(name) > LONGEST_SHOWN or self._suggestions >= MAX_SUGGESTIONS:
            return ""
        self._suggestions += 1
        near = get_close_matches(name, list(known), n=1)
        return f": did you mean {near[0]!r}?" if near else ""


class Fields:
    """The keys of one object."""

    def __init__(self, values: Mapping[Any, Any], path: str, mistakes: Mistakes) -> None:
        self.values = {key: value for key, value in values.items() if value is not None}
        self.nulls = [key for key, value in values.items() if value is None]
        self.path = path
        self.mistakes = mistakes

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def at(self, key: str) -> str:
        return inside(self.path, key)

    def refuse(self, key: str, message: str) -> None:
        self.mistakes.add(self.at(key), message)

    def refuse_value(self, key: str, rule: str) -> None:
        self.refuse(key, f"it is {format_value(self.values[key])}: it must be {rule}")

    def unreadable(self, key: str, rule: str) -> None:
        """Record a value of an invalid type, or one that this release does not know."""
        self.mistakes.unreadable(self.at(key), f"it is {format_value(self.values[key])}: it must be {rule}")

    def refuse_unknown(self, known: Collection[str]) -> None:
        if self.mistakes.stored:
            return  # a newer release may have written it
        for key in [*self.values, *self.nulls]:
            if key not in known:
                self.mistakes.unknown(inside(self.path, key), "key", key, known)

    def one_of(self, *keys: str) -> str | None:
        """Return the key that is present. The keys are alternatives: a second one is a mistake."""
        present = [key for key in keys if key in self]
        for other in present[1:]:
            self.refuse(other, f"`{present[0]}` is given too: give one of them")
        return present[0] if present else None

    def text(self, key: str, *, limit: int = 1000) -> str | None:
        """Return a string that is not blank."""
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, str) or not value.strip():
            self.unreadable(key, "a string that is not empty")
            return None
        if len(value) > limit:
            self.refuse(key, f"it is {len(value)} characters long, the limit is {limit}")
            return value if self.mistakes.stored else None
        return value

    def name(self, key: str, advice: str) -> str | None:
        """Return a single-line name, as for job types and queues."""
        value = self.text(key, limit=255)
        if value is not None:
            try:
                check_name(value, "it", advice)
            except Invalid as error:
                self.mistakes.add_invalid(self.at(key), error)
        return value

    def whole(self, key: str, least: int, most: int) -> int | None:
        value = self.values.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            self.unreadable(key, "an integer")
            return None
        if not least <= value <= most:
            self.refuse_value(key, f"between {least} and {most}")
            return value if self.mistakes.stored else None
        return value

    def flag(self, key: str) -> bool:
        value = self.values.get(key, False)
        if not isinstance(value, bool):
            self.unreadable(key, "true or false")
        return value is True

    def choice(self, key: str, words: type[Word], default: Word) -> Word:
        value = self.values.get(key)
        if value is None:
            return default
        if isinstance(value, str) and value in list(words):
            return words(value)
        self.unreadable(key, f"one of {', '.join(words)}")
        return default

    def span(self, key: str, *, unit: timedelta | None, positive: bool = True) -> timedelta | None:
        """Return a duration: a string with units, or a number of `unit`s."""
        value = self.values.get(key)
        if value is None:
            return None
        length = self._span(key, value, unit)
        if length is not None and positive and length <= timedelta():
            self.refuse_value(key, "positive")
            return None
        return length

    def _span(self, key: str, value: object, unit: timedelta | None) -> timedelta | None:
        if isinstance(value, str) and len(value) <= LONGEST_SHOWN:
            try:
                return duration.parse(value, field="it")
            except Invalid as error:
                self.mistakes.unreadable_invalid(self.at(key), error)
        elif unit is not None and is_number(value):
            if 0 <= value <= duration.LONGEST / unit:
                return value * unit
            self.unreadable(key, f"at least 0 and at most {duration.LONGEST.days}d")
        else:
            self.unreadable(key, duration.ALLOWED)
        return None

    def object(self, key: str) -> "Fields | None":
        value = self.values.get(key)
        if value is None:
            return None
        if isinstance(value, Mapping):
            return Fields(value, self.at(key), self.mistakes)
        self.unreadable(key, "an object")
        return None


def step_name_mistake(name: object) -> str | None:
    if isinstance(name, str) and _STEP(name):
        return None
    return f"{format_value(name)} is not a valid step name: use up to {MAX_NAME} letters, digits, _ and -"


def workflow_name_mistake(name: object) -> str | None:
    if not isinstance(name, str) or not _WORKFLOW(name):
        rule = f"up to {MAX_NAME} letters, digits, _, - and ., beginning with a letter or a digit"
        return f"{format_value(name)} is not a valid workflow name: use {rule}"
    if _ID(name):
        return f"{format_value(name)} looks like an id: choose a name that cannot be mistaken for one"
    return None


def _about(error: Invalid, field: str) -> str:
    text = str(error)
    return cut("it" + text.removeprefix(field) if text.startswith(field) else text, LONGEST_MESSAGE)


def is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def inside(path: str, key: object) -> str:
    """Return the path of a key; a key with special characters is quoted."""
    written = key if isinstance(key, str) and _PLAIN_KEY(key) else f"[{format_value(key)}]"
    return f"{path}.{written}" if path and not written.startswith("[") else f"{path}{written}"


def format_value(value: object) -> str:
    """Return a value for a message, with the literals of JSON and YAML: true, false and null."""
    return WORDS[value] if value is None or isinstance(value, bool) else cut(repr(value), LONGEST_SHOWN)
