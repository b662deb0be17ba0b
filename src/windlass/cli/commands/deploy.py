"""`windlass deploy`: make the workflows of files live, all of them or none."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from windlass.cli.backend.interface import Deployed
from windlass.cli.files import Loaded, load, tell
from windlass.cli.output import Json, cell, note, record, say, show_json
from windlass.cli.runner import backend
from windlass.engine.workflows.control import Change

EXAMPLES = """Examples:

windlass deploy orders.yaml reports.yaml --dry-run

windlass deploy workflows/*.yaml"""


def deploy(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="YAML or JSON.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")] = False,
    json: Json = False,
) -> None:
    """Make the workflows of these files live: all of them, or none if there is a mistake in any."""
    loaded = load(files)
    if loaded.mistakes:
        _refuse(loaded, json=json)
    elif dry_run:
        _show_previews(loaded, json=json)
    else:
        _publish(loaded, json=json)


def _refuse(loaded: Loaded, *, json: bool) -> None:
    if json:
        _show_json([], errors=[record(mistake) for mistake in loaded.mistakes])
    else:
        tell(loaded.mistakes)
        note("hint: nothing was deployed; windlass schema prints what editors need to find mistakes as you type")
    raise typer.Exit(1)


def _publish(loaded: Loaded, *, json: bool) -> None:
    done = backend(lambda app: app.deploy(loaded.workflows))
    if json:
        _show_json([_fields(one) for one in done.workflows], done.warnings)
        return
    for one in done.workflows:
        say(cell(f"{one.change} {one.name} version {one.number}"), "dim" if one.change is Change.UNCHANGED else "")
        if one.address is not None:
            say(cell(f"address of {one.name}: {one.address}"))
            note(cell(f"keep it: it is not shown again; windlass workflows rotate {one.name} makes another"))
    _warn(done.warnings)


def _show_previews(loaded: Loaded, *, json: bool) -> None:
    seen = backend(lambda app: app.deploy(loaded.workflows, dry_run=True))
    if json:
        _show_json([{**_fields(one), "diff": one.diff} for one in seen.workflows], seen.warnings)
        return
    for one in seen.workflows:
        say(cell(f"{one.change} {one.name} version {one.number}"), "bold")
        for line in one.diff:
            say(cell(line), {"+": "green", "-": "red", "@": "cyan"}.get(line[0], ""))
    _warn(seen.warnings)


def _show_json(
    found: list[dict[str, Any]], warnings: Sequence[str] = (), errors: Sequence[dict[str, Any]] = ()
) -> None:
    show_json({"workflows": found, "warnings": warnings, "errors": errors})


def _warn(warnings: Iterable[str]) -> None:
    for warning in warnings:
        note(cell(f"warning: {warning}"))


def _fields(one: Deployed) -> dict[str, Any]:
    address = {} if one.address is None else {"address": one.address}
    return {"name": one.name, **one.ids, "number": one.number, "change": one.change, **address}
