"""Shared options of commands, and parsers of arguments: JSON documents, pairs, ids, durations and times."""

import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO, TypeVar
from uuid import UUID

import click

from windlass.core import duration, json_value
from windlass.errors import Invalid
from windlass.schemas.common import PAGE_LIMIT

READ_LIMIT = 16 * json_value.PAYLOAD_LIMIT  # bytes: leaves room for white space, and ends an endless input
FC = TypeVar("FC", bound=Callable[..., Any] | click.Command)
EXAMPLE_ID = "01890a5d-ac96-774b-bcce-b302099a8057"

json_option = click.option("--json", is_flag=True, help="Print JSON.")
log_format_option = click.option(
    "--log-format", metavar="text|json", help="Format of the log.  [default: WINDLASS_LOG_FORMAT, else text]"
)
after_option = click.option("--after", default="", show_default=False, metavar="NAME", help="Continue after this name.")
reason_option = click.option("--reason", metavar="TEXT", help="Reason, recorded in the events.")
attempt_option = click.option(
    "--attempt", type=click.IntRange(1, 2**31 - 1), metavar="N", help="Only this attempt, counted from 1."
)


def limit_option(default: int, items: str, most: int = PAGE_LIMIT) -> Callable[[FC], FC]:
    """Return the option --limit of a list."""
    return click.option("--limit", type=click.IntRange(1, most), default=default, metavar="N", help=f"{items} at most.")


def document(text: str | None, file: Path | None, *, field: str) -> Any:
    """Parse JSON from the command line, a file or standard input (-); return None if there is none."""
    if text is not None and file is not None:
        raise click.UsageError(f"more than one {field}: pass it on the command line or with --{field}-file")
    if file is not None and str(file) != "-":
        try:
            with file.open("rb") as source:
                text = read_text(source, field)
        except OSError as error:
            raise Invalid(f"cannot read {file}: {error.strerror}", field=f"{field}-file") from None
    elif text == "-" or file is not None:
        text = read_text(sys.stdin.buffer, field)
    return None if text is None else json_value.parse(text, field=field)


def json_object(text: str, *, field: str) -> dict[str, Any]:
    value = json_value.parse(text, field=field)
    if not isinstance(value, dict):
        raise Invalid(f"{field} is a {type(value).__name__}: it must be a JSON object", field=field)
    return value


def values(pairs: Iterable[str], *, field: str) -> dict[str, Any]:
    """Parse key=value pairs. A value that is valid JSON is decoded, any other is a string."""
    return {key: _value(text, f"{field} {key}") for key, text in labels(pairs, field=field).items()}


def labels(pairs: Iterable[str], *, field: str) -> dict[str, str]:
    """Parse key=value pairs of strings."""
    result: dict[str, str] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key:
            raise Invalid(f"{field} is {pair!r}: it must look like name=value", field=field)
        if key in result:
            raise Invalid(f"{field} {key} is set twice: to {result[key]!r} and to {text!r}", field=field)
        result[key] = text
    return result


def span(text: str | None, *, field: str) -> timedelta | None:
    """Parse a positive duration."""
    if text is None:
        return None
    result = duration.parse(text, field=field)
    if result <= timedelta():
        raise Invalid(f"{field} is {text!r}: it must be positive", field=field)
    return result


def moment(text: str, *, field: str) -> datetime:
    """Parse a time with a time zone."""
    try:
        result = datetime.fromisoformat(text)
    except ValueError:
        result = None
    if result is None or result.utcoffset() is None:
        raise Invalid(f"--{field} is {text!r}: it must look like 2030-01-31T12:00:00Z, with a time zone", field=field)
    return result


def job_ids(texts: Sequence[str]) -> list[UUID]:
    return list(map(job_id, texts))


def job_id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise Invalid(f"{text!r} is not a job id: it looks like {EXAMPLE_ID}", field="id") from None


def approval_id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise Invalid(
            f"{text!r} is not the id of an approval: it looks like {EXAMPLE_ID}; windlass approvals list shows ids",
            field="id",
        ) from None


def run_ids(texts: Sequence[str]) -> list[UUID]:
    """Parse the ids of runs; return them without duplicates."""
    return list(dict.fromkeys(map(run_id, texts)))


def run_id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise no_run(text) from None


def run_ref(text: str) -> UUID | str:
    """Return the id of a run, or the id that a client of the Open Job Spec chose for its workflow."""
    try:
        return UUID(text)
    except ValueError:
        return text


def no_run(text: str) -> Invalid:
    return Invalid(f"{text!r} is not a run id: it looks like {EXAMPLE_ID}; windlass runs list shows ids", field="id")


def _value(text: str, field: str) -> Any:
    try:
        return json_value.parse(text, field=field)
    except Invalid:
        return text


def read_text(source: BinaryIO, field: str) -> str:
    """Read a file or standard input as UTF-8."""
    data = source.read(READ_LIMIT + 1)
    if len(data) > READ_LIMIT:
        raise Invalid(f"{field} is larger than {READ_LIMIT} bytes: pass a reference", field=field)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Invalid(f"{field} is not UTF-8 text", field=field) from None
