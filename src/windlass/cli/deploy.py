"""`windlass deploy`: make the workflows of files live, all of them or none."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from windlass.app import Windlass
from windlass.cli.files import Loaded, load, tell
from windlass.cli.output import Json, cell, note, record, say, show_json
from windlass.cli.running import use
from windlass.engine import triggers, workflows
from windlass.engine.unit import Unit
from windlass.engine.workflows import Change, Preview, Published

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
    async def action(app: Windlass) -> tuple[list[Published], list[str], dict[str, str]]:
        unit = await app.open()
        published = await workflows.publish_many(unit, loaded.workflows)
        addresses = {one.name: triggers.address(unit, one.token) for one in published if one.token is not None}
        return published, await _warnings(unit, loaded), addresses

    published, warnings, addresses = use(action)
    if json:
        _show_json([_fields(one, addresses.get(one.name)) for one in published], warnings)
        return
    for one in published:
        say(f"{_change(one)} {one.name} version {one.number}", "" if one.changed else "dim")
        if one.name in addresses:
            say(f"address of {one.name}: {addresses[one.name]}")
            note(f"keep it: it is not shown again; windlass workflows rotate {one.name} makes another")
    _warn(warnings)


def _show_previews(loaded: Loaded, *, json: bool) -> None:
    async def action(app: Windlass) -> tuple[list[Preview], list[str]]:
        unit = await app.open()
        return await workflows.preview_many(unit, loaded.workflows), await _warnings(unit, loaded)

    previews, warnings = use(action)
    if json:
        _show_json([record(preview) for preview in previews], warnings)
        return
    for preview in previews:
        say(f"{preview.change} {preview.name} version {preview.number}", "bold")
        for line in preview.diff:
            say(cell(line), {"+": "green", "-": "red", "@": "cyan"}.get(line[0], ""))
    _warn(warnings)


def _show_json(
    found: list[dict[str, Any]], warnings: Sequence[str] = (), errors: Sequence[dict[str, Any]] = ()
) -> None:
    show_json({"workflows": found, "warnings": warnings, "errors": errors})


async def _warnings(unit: Unit, loaded: Loaded) -> list[str]:
    return [
        f"step {step} of {name} runs workflow {child}, which is not deployed"
        for name, step, child in await workflows.missing_children(unit, loaded.workflows)
    ]


def _warn(warnings: Iterable[str]) -> None:
    for warning in warnings:
        note(f"warning: {warning}")


def _fields(published: Published, address: str | None) -> dict[str, Any]:
    fields = record(published)
    del fields["created"], fields["changed"], fields["token"]
    shown = {} if address is None else {"address": address}
    return {**fields, "change": _change(published), **shown}


def _change(published: Published) -> Change:
    if published.created:
        return Change.NEW
    return Change.CHANGED if published.changed else Change.UNCHANGED
