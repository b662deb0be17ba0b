"""`windlass workflows`: what is deployed, and switches for it."""

from typing import Annotated, Any

import typer

from windlass.cli.bulk import each
from windlass.cli.output import Json, cell, note, say, show_fields, show_json, show_table
from windlass.cli.runner import backend
from windlass.core.definition.parser import parse
from windlass.core.diagrams.labels import trigger
from windlass.core.diagrams.tree import draw_tree
from windlass.engine.database import PAGE_LIMIT

Name = Annotated[str, typer.Argument(metavar="NAME")]
Names = Annotated[list[str], typer.Argument(metavar="NAME...")]
Limit = Annotated[int, typer.Option(min=1, max=PAGE_LIMIT)]
COLUMNS = ("name", "version", "enabled", "steps", "trigger", "updated")


def list_(
    limit: Limit = 50,
    after: Annotated[str, typer.Option(metavar="NAME", help="Go on after this name.")] = "",
    json: Json = False,
) -> None:
    """By name."""
    page = backend(lambda app: app.workflows(after=after, limit=limit))
    if json:
        show_json({"workflows": page.rows, "next": page.next})
        return
    show_table(COLUMNS, map(_row, page.rows))
    if page.next is not None:
        note(f"more: --after {page.next}")


def show(
    name: Name,
    version: Annotated[int | None, typer.Option(min=1, help="This version; the live one if left out.")] = None,
    json: Json = False,
) -> None:
    """One workflow with its steps; with --json the whole document."""
    row = backend(lambda app: app.workflow(name, version))
    if json:
        show_json(row)
        return
    workflow = parse(row["document"])
    fields = {key: value for key, value in row.items() if key not in ("document", "fingerprint")}
    show_fields({**fields, "trigger": trigger(workflow.trigger), "description": workflow.description})
    say("")
    for line in draw_tree(workflow).splitlines():
        say(cell(line))


def versions(
    name: Name,
    limit: Limit = 50,
    before: Annotated[int | None, typer.Option(min=1, help="Go on below this version.")] = None,
    json: Json = False,
) -> None:
    """Every version that was published, newest first."""
    page = backend(lambda app: app.versions(name, before=before, limit=limit))
    if json:
        show_json({"versions": page.rows, "next": page.next})
        return
    names = ("number", "live", "steps", "created_at", "fingerprint")
    show_table(
        ("version", "live", "steps", "published", "fingerprint"), [[_word(row[n]) for n in names] for row in page.rows]
    )
    if page.next is not None:
        note(f"more: --before {page.next}")


def enable(names: Names, json: Json = False) -> None:
    """Let new runs start again."""
    each(names, "enabled", lambda app, name: app.enable_workflow(name), key="name", json=json)


def disable(names: Names, json: Json = False) -> None:
    """Refuse new runs; live ones go on."""
    each(names, "disabled", lambda app, name: app.enable_workflow(name, False), key="name", json=json)


def rotate(name: Name, json: Json = False) -> None:
    """A new address for a workflow with a webhook trigger: shown once, and the old one stops working."""
    address = backend(lambda app: app.rotate(name))
    if json:
        show_json({"name": name, "address": address})
        return
    say(address)
    note("keep it: it is not shown again, and the old address does not work any more")


def delete(names: Names, json: Json = False) -> None:
    """Free the names; live runs finish on their version."""
    each(names, "deleted", lambda app, name: app.delete_workflow(name), key="name", json=json)


def _row(line: dict[str, Any]) -> list[object]:
    started = line["trigger"]
    word = started if isinstance(started, str) else f"cron {started.get('cron')}"
    return [line["name"], line["live"], _word(line["enabled"]), line["steps"], word, line["updated_at"]]


def _word(value: object) -> object:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else value
