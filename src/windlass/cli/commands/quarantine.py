"""`windlass quarantine`: what was set aside after an unforeseen error."""

from typing import Annotated

import typer

from windlass.cli.backend.interface import Row
from windlass.cli.output import Json, cell, note, say, show_json, show_table
from windlass.cli.runner import backend
from windlass.engine.quarantine import Kind

COLUMNS = ("kind", "key", "failures", "last failed", "next try", "reason")
RETRY_EXAMPLES = "windlass quarantine retry run 01a1dda3-07b5-7e5c-8f1a-0d6a2f0b4a11"


def list_(limit: Annotated[int, typer.Option(min=1, max=1000)] = 100, json: Json = False) -> None:
    """List what could not be processed, the latest first. It is tried again by itself, with growing pauses."""
    rows = backend(lambda app: app.quarantine(limit=limit))
    if json:
        show_json({"quarantine": rows})
        return
    show_table(COLUMNS, map(_row, rows))
    if not rows:
        note("nothing is set aside")


def retry(
    kind: Annotated[Kind, typer.Argument(metavar="KIND")],
    key: Annotated[str, typer.Argument(metavar="KEY", help="As `quarantine list` shows it.")],
    json: Json = False,
) -> None:
    """Try something again now, for example after its cause was mended."""
    row = backend(lambda app: app.retry_quarantined(kind, key))
    show_json(row) if json else say(cell(f"{kind} {key} is tried again within a second"))


def _row(entry: Row) -> list[object]:
    again = entry["retry_at"] or "never"
    return [
        entry["kind"],
        entry["key"],
        entry["failures"],
        entry["last_at"],
        again,
        f"{entry['error_type']}: {entry['reason']}",
    ]
