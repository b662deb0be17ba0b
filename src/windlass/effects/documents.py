"""Reads documents from files: JSON, and the subset of YAML that maps to JSON.

Errors are raised as `Invalid` with file, line and column. `core.definition.parser` interprets the documents.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from windlass.core.json_value import MAX_DEPTH
from windlass.effects.yaml_documents import Unreadable, load
from windlass.errors import Invalid

MAX_FILE = 5_000_000


def read(path: str | Path) -> list[Any]:
    """Return the documents of a file: one in JSON, any number in YAML, without empty ones."""
    text = _text(Path(path))
    try:
        found = [_json(text)] if Path(path).suffix.lower() == ".json" else load(text)
    except Unreadable as error:
        place = f":{error.line}:{error.column}" if error.line else ""
        raise Invalid(f"{path}{place}: {error}", field="file") from None
    if not found:
        raise Invalid(f"{path}: there is nothing in it", field="file")
    return found


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE + 1)
    except IsADirectoryError:
        raise Invalid(f"{path} is a folder: name the files in it, for example {path}/*.yaml", field="file") from None
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) else error
        raise Invalid(f"cannot read {path}: {said}", field="file") from None
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
    except _Twice as twice:
        load(text)  # JSON is also YAML, and the YAML reader raises an error with the line
        raise Unreadable(f"the key {twice.key!r} is there twice") from None


class _Twice(Exception):
    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


def _object(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _Twice(key)
        found[key] = value
    return found


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")
