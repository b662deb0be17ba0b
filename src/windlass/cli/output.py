"""Prints the output of commands: JSON for programs, tables and colours on a terminal, plain aligned columns in a pipe.

Nothing from the database reaches a terminal unescaped: SQL producers may store control characters in any string.
"""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import click

if TYPE_CHECKING:
    from windlass.schemas.jobs import JobProgress

BAR = 30  # characters
COLOURS = {
    "ok": "green",
    "succeeded": "green",
    "completed": "green",
    "running": "green",
    "active": "cyan",
    "dispatched": "cyan",
    "leased": "cyan",
    "pending": "yellow",
    "draining": "yellow",
    "warning": "yellow",
    "failed": "red",
    "timed out": "red",
    "timeout": "red",
    "skipped": "dim",
    "waiting": "dim",
    "problem": "red",
    "cancelled": "dim",
    "stopped": "dim",
}


def show_json(value: object) -> None:
    """Print JSON. On a terminal only ASCII is printed unescaped: JSON may contain C1 controls and bidi marks."""
    on_terminal = sys.stdout.isatty()
    click.echo(json.dumps(value, default=_plain_value, indent=2 if on_terminal else None, ensure_ascii=on_terminal))


def show_table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    cells = [[cell(value) for value in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(headers, *cells, strict=True)]
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(*headers, box=None, header_style="bold", pad_edge=False)
        for row in cells:
            table.add_row(*(Text(text, style=COLOURS.get(text, ""), no_wrap=True) for text in row))
        # Wider than the terminal if needed: it may wrap lines, but ids stay in one piece and can be copied.
        Console(markup=False, highlight=False, width=sum(widths) * 2 + 2 * len(widths)).print(table, soft_wrap=True)
        return
    for row in ([header.upper() for header in headers], *cells):
        click.echo("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())


def show_fields(fields: Mapping[str, object]) -> None:
    width = max(map(len, fields))
    for name, value in fields.items():
        first, *more = block(value).splitlines() or [""]
        click.echo(f"{styled(name.ljust(width), 'bold')}  {styled(first, COLOURS.get(first, ''))}")
        for line in more:
            click.echo(f"{' ' * width}  {line}")


def show_progress(progress: "JobProgress") -> None:
    """Print the progress of a job: a bar, and the message and data that its handler reported."""
    full = round(progress.fraction * BAR)
    bar = styled("━" * full, "green") + styled("─" * (BAR - full), "bright_black")
    say(f"\n{bar} {progress.fraction:4.0%}  {cell(progress.message or '')}".rstrip())
    if progress.data is not None:
        say(block(progress.data))


def say(line: str, style: str = "") -> None:
    click.echo(styled(line, style))


def note(line: str) -> None:
    """Print a message on standard error, escaped: it may contain data from a server."""
    click.echo(block(line), err=True)


def styled(text: str, style: str) -> str:
    if not style or not sys.stdout.isatty():
        return text
    from rich.console import Console
    from rich.text import Text

    console = Console(markup=False, highlight=False)
    with console.capture() as capture:
        console.print(Text(text, style=style), end="", soft_wrap=True)
    return capture.get()


def record(row: object) -> dict[str, Any]:
    """Return a row as a mapping, for JSON and tables."""
    assert is_dataclass(row)
    assert not isinstance(row, type)
    return asdict(row)


def cell(value: object) -> str:
    """Return a value as one line of printable text."""
    return block(value, keep="")


def block(value: object, *, keep: str = "\n\t") -> str:
    """Return a value as printable text; other characters are escaped, except those to keep."""
    text = _text(value)
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in keep else ascii(char)[1:-1] for char in text)


def _text(value: object) -> str:
    match value:
        case None:
            return "-"
        case list() | tuple() | dict() if not value:
            return "-"
        case datetime():
            return value.astimezone(UTC).isoformat(sep=" ", timespec="seconds").replace("+00:00", "Z")
        case list() | tuple() if all(isinstance(item, str) for item in value):
            return ", ".join(value)
        case dict() | list() | tuple() | bool():
            return json.dumps(value, ensure_ascii=False, default=_plain_value)
        case _:
            return str(value)


def _plain_value(value: object) -> object:
    match value:
        case datetime():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case UUID() | Path():
            return str(value)
        case _ if is_dataclass(value):
            return record(value)
        case _:
            raise TypeError(f"{type(value).__name__} has no JSON form")
