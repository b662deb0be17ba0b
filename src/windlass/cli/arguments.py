"""What people type: documents, pairs, ids and times, each refused with a sentence that names the option."""

import sys
from collections.abc import Iterable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, BinaryIO
from uuid import UUID

import typer

from windlass.core import duration
from windlass.core import json_value as document_
from windlass.errors import Invalid

READ_LIMIT = 16 * document_.PAYLOAD_LIMIT  # white space may be generous; what never ends is not read to the end


def document(text: str | None, file: Path | None, *, field: str) -> Any:
    """JSON from the command line, from a file or from standard input (-); None if there is none."""
    if text is not None and file is not None:
        raise typer.BadParameter(f"give the {field} once: on the command line, or with --{field}-file")
    if file is not None and str(file) != "-":
        try:
            with file.open("rb") as source:
                text = _read(source, field)
        except OSError as error:
            raise Invalid(f"cannot read {file}: {error.strerror}", field=f"{field}-file") from None
    elif text == "-" or file is not None:
        text = _read(sys.stdin.buffer, field)
    return None if text is None else document_.parse(text, field=field)


def json_object(text: str, *, field: str) -> dict[str, Any]:
    value = document_.parse(text, field=field)
    if not isinstance(value, dict):
        raise Invalid(f"{field} is a {type(value).__name__}: it must be a JSON object", field=field)
    return value


def values(pairs: Iterable[str], *, field: str) -> dict[str, Any]:
    """key=value pairs whose values are JSON where they can be read as such, and texts where not."""
    return {key: _value(text, f"{field} {key}") for key, text in labels(pairs, field=field).items()}


def labels(pairs: Iterable[str], *, field: str) -> dict[str, str]:
    """key=value pairs of texts."""
    found: dict[str, str] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key:
            raise Invalid(f"{field} is {pair!r}: it must look like name=value", field=field)
        if key in found:
            raise Invalid(f"{field} {key} is given twice: once {found[key]!r}, once {text!r}", field=field)
        found[key] = text
    return found


def span(text: str | None, *, field: str) -> timedelta | None:
    """Return a duration that is positive."""
    if text is None:
        return None
    found = duration.parse(text, field=field)
    if found <= timedelta():
        raise Invalid(f"{field} is {text!r}: it must be positive", field=field)
    return found


def run_ids(texts: Sequence[str]) -> list[UUID]:
    """Ids of runs; each of them once."""
    return list(dict.fromkeys(map(run_id, texts)))


def run_id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise no_run(text) from None


def run_ref(text: str) -> UUID | str:
    """The id of a run, or what a client of the Open Job Spec calls its workflow."""
    try:
        return UUID(text)
    except ValueError:
        return text


def no_run(text: str) -> Invalid:
    return Invalid(
        f"{text!r} is not the id of a run: it looks like 01890a5d-ac96-774b-bcce-b302099a8057, and windlass runs "
        "list shows those there are",
        field="id",
    )


def _value(text: str, field: str) -> Any:
    try:
        return document_.parse(text, field=field)
    except Invalid:
        return text


def _read(source: BinaryIO, field: str) -> str:
    data = source.read(READ_LIMIT + 1)
    if len(data) > READ_LIMIT:
        raise Invalid(f"{field} is larger than {READ_LIMIT} bytes: pass a reference", field=field)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Invalid(f"{field} is not JSON: it is not UTF-8 text", field=field) from None
