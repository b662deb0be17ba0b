"""Reads documents from files: JSON, and the subset of YAML that maps to JSON.

Errors are raised as `Invalid` with file, line and column. `core.definition.parser` interprets the documents.

YAML is read from the parser's events and without recursion. Only JSON's six types can result. Scalars follow YAML 1.2:
`on`, `yes`, `no`, `off` and dates are strings. Keys are strings as written, and unique. An alias counts with the size
of its value, so that a few lines cannot expand to billions (MAX_WEIGHT).
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from math import isinf
from pathlib import Path
from typing import Any

import yaml

from windlass.core.json_value import MAX_DEPTH
from windlass.errors import Invalid

MAX_FILE = 5_000_000
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml's loader, if the wheel includes it
MAX_WEIGHT = 5_000_000  # characters and values, with aliases expanded
_TAG = "tag:yaml.org,2002:"
_TEXT_TAGS = {"!", f"{_TAG}str"}
_PLAIN_TAGS = {f"{_TAG}{kind}" for kind in ("null", "bool", "int", "float")}
_CONTAINER_TAGS = {None, "!", f"{_TAG}map", f"{_TAG}seq"}
_CONSTANTS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_NUMBERS: tuple[tuple[re.Pattern[str], Callable[[str], int | float]], ...] = (
    (re.compile(r"[-+]?[0-9]+"), int),
    (re.compile(r"0o[0-7]+"), lambda text: int(text[2:], 8)),
    (re.compile(r"0x[0-9a-fA-F]+"), lambda text: int(text[2:], 16)),
    (re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?"), float),
)
_NOT_JSON = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)").fullmatch


class Unreadable(Exception):
    """A syntax error with its position; lines and columns count from 1, 0 means unknown."""

    def __init__(self, message: str, line: int = 0, column: int = 0) -> None:
        super().__init__(message)
        self.line, self.column = line, column


def read(path: str | Path) -> list[Any]:
    """Return the documents of a file: one in JSON, any number in YAML, without empty ones."""
    text = _text(Path(path))
    try:
        documents = [_json(text)] if Path(path).suffix.lower() == ".json" else load_yaml(text)
    except Unreadable as error:
        place = f":{error.line}:{error.column}" if error.line else ""
        raise Invalid(f"{path}{place}: {error}", field="file") from None
    if not documents:
        raise Invalid(f"{path}: the file is empty", field="file")
    return documents


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE + 1)
    except IsADirectoryError:
        raise Invalid(f"{path} is a folder: give the files in it, for example {path}/*.yaml", field="file") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise Invalid(f"cannot read {path}: {reason}", field="file") from None
    if len(data) > MAX_FILE:
        raise Invalid(f"{path} is larger than {MAX_FILE} bytes", field="file")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Invalid(f"{path}:{line}: it is not UTF-8 text", field="file") from None


def _json(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise Unreadable(f"it is not JSON: {error.msg}", error.lineno, error.colno) from None
    except RecursionError:
        raise Unreadable(f"it is nested deeper than {MAX_DEPTH} levels") from None
    except ValueError as error:
        raise Unreadable(f"it is not JSON: {error}") from None
    except _DuplicateKey as duplicate:
        load_yaml(text)  # JSON is also YAML, and the YAML reader raises an error with the line
        raise Unreadable(f"the key {duplicate.key!r} is a duplicate") from None


class _DuplicateKey(Exception):
    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


def _object(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise _DuplicateKey(key)
        result[key] = value
    return result


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def load_yaml(text: str) -> list[Any]:
    """Return the documents of a YAML string, without empty ones."""
    documents = []
    builder = _Builder()
    for event in _events(text):
        if isinstance(event, yaml.DocumentEndEvent):
            if builder.root is not None:
                documents.append(builder.root)
            builder = _Builder(builder.weight)
        else:
            builder.take(event)
    return documents


@dataclass
class _Open:
    """A list or object that is not complete yet."""

    value: Any
    event: Any
    weight: int = 0
    key: str | None = None
    merging: bool = False
    lines: dict[str, int] = field(default_factory=dict)  # key -> line
    merged: list[dict[str, Any]] = field(default_factory=list)


class _Builder:
    """Builds one document from parser events."""

    def __init__(self, weight: int = 0) -> None:
        self.root: Any = None
        self.weight = weight
        self._open: list[_Open] = []
        self._anchors: dict[str, tuple[Any, int]] = {}  # the value and its weight

    def take(self, event: Any) -> None:
        match event:
            case yaml.ScalarEvent():
                self._scalar(event)
            case yaml.AliasEvent():
                self._alias(event)
            case yaml.MappingStartEvent():
                self._begin({}, event)
            case yaml.SequenceStartEvent():
                self._begin([], event)
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                self._end()
            case _:  # start of the stream or document
                pass

    def _scalar(self, event: Any) -> None:
        if self._wants_key():
            self._key(event)
            return
        self._weigh(len(event.value) + 1, event)
        self._put(_scalar_value(event), event, len(event.value) + 1)

    def _alias(self, event: Any) -> None:
        if event.anchor not in self._anchors:
            raise _at(event, f"*{event.anchor} is undefined: there is no complete &{event.anchor} before it")
        value, weight = self._anchors[event.anchor]
        if self._wants_key():
            raise _at(event, "a key must be a string, not an alias")
        self._weigh(weight, event)
        self._put(value, event, weight, anchored=False)

    def _begin(self, value: Any, event: Any) -> None:
        if self._wants_key():
            raise _at(event, "a key must be a string, not a list or an object")
        if event.tag not in _CONTAINER_TAGS:
            raise _at(event, f"the tag {event.tag} is not supported")
        if len(self._open) >= MAX_DEPTH:
            raise _at(event, f"it is nested deeper than {MAX_DEPTH} levels")
        self._weigh(1, event)
        self._open.append(_Open(value, event, 1))

    def _end(self) -> None:
        done = self._open.pop()
        if done.merged:
            inherited: dict[str, Any] = {}
            for values in done.merged:
                for key, value in values.items():
                    inherited.setdefault(key, value)
            done.value = inherited | done.value
        self._put(done.value, done.event, done.weight)

    def _wants_key(self) -> bool:
        return bool(self._open) and isinstance(self._open[-1].value, dict) and self._open[-1].key is None

    def _key(self, event: Any) -> None:
        holder, key = self._open[-1], event.value
        self._weigh(len(key) + 1, event)
        holder.weight += len(key) + 1
        holder.key, holder.merging = key, key == "<<" and event.implicit[0]
        if not holder.merging:
            if key in holder.lines:
                raise _at(event, f"the key {key!r} is a duplicate, first in line {holder.lines[key]}")
            holder.lines[key] = event.start_mark.line + 1

    def _put(self, value: Any, event: Any, weight: int, *, anchored: bool = True) -> None:
        """Add a complete value to the innermost open container, or make it the root."""
        if anchored and event.anchor is not None:
            self._anchors[event.anchor] = value, weight
        if not self._open:
            self.root = value
            return
        holder = self._open[-1]
        holder.weight += weight
        if isinstance(holder.value, list):
            holder.value.append(value)
        elif holder.merging:
            holder.merged += _merged(value, event)
            holder.key = None
        else:
            holder.value[holder.key] = value
            holder.key = None

    def _weigh(self, weight: int, event: Any) -> None:
        self.weight += weight
        if self.weight > MAX_WEIGHT:
            raise _at(event, "the document is too large with its aliases expanded")


def _events(text: str) -> Iterator[Any]:
    try:
        yield from yaml.parse(text, Loader=LOADER)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = " ".join(str(part) for part in (error.context, error.problem) if part)
        raise Unreadable(
            f"it is not YAML: {problem}", mark.line + 1 if mark else 0, mark.column + 1 if mark else 0
        ) from None
    except yaml.YAMLError as error:
        raise Unreadable(f"it is not YAML: {' '.join(str(error).split())}") from None


def _scalar_value(event: Any) -> Any:
    text = event.value
    if event.tag in _TEXT_TAGS or (event.tag is None and not event.implicit[0]):
        return text
    if event.tag is not None and event.tag not in _PLAIN_TAGS:
        raise _at(event, f"the tag {event.tag} is not supported")
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _NOT_JSON(text):
        raise _at(event, f"{text} is not a JSON number")
    for pattern, make in _NUMBERS:
        if pattern.fullmatch(text):
            return _number(event, make)
    return text


def _number(event: Any, make: Callable[[str], int | float]) -> int | float:
    try:
        number = make(event.value)
    except ValueError:
        raise _at(event, f"the number has {len(event.value)} digits") from None
    if isinstance(number, float) and isinf(number):
        raise _at(event, f"{event.value} is out of range")
    return number


def _merged(value: Any, event: Any) -> list[dict[str, Any]]:
    values = value if isinstance(value, list) else [value]
    if not all(isinstance(each, dict) for each in values):
        raise _at(event, "<< must be an object or a list of objects")
    return values


def _at(event: Any, message: str) -> Unreadable:
    return Unreadable(message, event.start_mark.line + 1, event.start_mark.column + 1)
