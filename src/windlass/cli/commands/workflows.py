"""`windlass deploy` and `windlass workflows`: publish workflows, list, inspect and control them."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from windlass.cli.arguments import after_option, json_option, limit_option
from windlass.cli.files import WorkflowFiles, load, print_mistakes
from windlass.cli.output import cell, note, record, say, show_fields, show_json
from windlass.cli.runner import backend, each, show_page
from windlass.core.definition.input_schema import describe
from windlass.core.definition.parser import parse
from windlass.core.diagrams import draw_tree, trigger

if TYPE_CHECKING:
    from windlass.schemas.workflows import ListedWorkflow, Version

COLUMNS = ("name", "version", "enabled", "steps", "trigger", "updated")
VERSION_COLUMNS = ("version", "live", "steps", "published", "fingerprint")
DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan"}

names_argument = click.argument("names", nargs=-1, required=True, metavar="NAME...")


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
@click.option("--dry-run", is_flag=True, help="Show what would change and change nothing.")
@json_option
def deploy(files: tuple[Path, ...], dry_run: bool, json: bool) -> None:
    """Publish the workflows of files: all of them, or none.

    If any file is invalid, all errors are printed and nothing is published. Files are YAML or JSON.

    \b
    Examples:
      windlass deploy orders.yaml reports.yaml --dry-run
      windlass deploy workflows/*.yaml
    """
    loaded = load(files)
    if loaded.mistakes:
        _refuse(loaded, json=json)
    _deploy(loaded, dry_run=dry_run, json=json)


@click.group()
def workflows() -> None:
    """List, inspect, enable, disable and delete deployed workflows."""


@workflows.command("list")
@limit_option(50, "Workflows")
@after_option
@json_option
def list_(limit: int, after: str, json: bool) -> None:
    """List workflows by name."""
    page = backend(lambda app: app.workflows(after=after, limit=limit))
    show_page("workflows", page, COLUMNS, _row, "--after", json=json)


@workflows.command()
@click.argument("name")
@click.option("--version", type=click.IntRange(1), metavar="N", help="A version.  [default: the live one]")
@json_option
def show(name: str, version: int | None, json: bool) -> None:
    """Show one workflow and its steps; with --json the whole document."""
    workflow, shown = backend(lambda app: app.workflow(name, version))
    if json:
        show_json({**record(workflow), **record(shown)})
        return
    definition = parse(shown.definition)
    show_fields(
        {
            "name": workflow.name,
            "id": workflow.id,
            "version": shown.version,
            "live": workflow.version,
            "enabled": workflow.enabled,
            "published": shown.inserted_at,
            "created": workflow.inserted_at,
            "updated": workflow.updated_at,
            "trigger": trigger(definition.trigger),
            "description": definition.description,
            "input": None if definition.input is None else describe(definition.input),
        }
    )
    say("")
    for line in draw_tree(definition).splitlines():
        say(cell(line))


@workflows.command()
@click.argument("name")
@limit_option(50, "Versions")
@click.option("--before", type=click.IntRange(1), metavar="N", help="Continue below this version.")
@json_option
def versions(name: str, limit: int, before: int | None, json: bool) -> None:
    """List the published versions of a workflow, newest first."""
    page = backend(lambda app: app.versions(name, before=before, limit=limit))
    show_page("versions", page, VERSION_COLUMNS, _version_row, "--before", json=json)


@workflows.command()
@names_argument
@json_option
def enable(names: tuple[str, ...], json: bool) -> None:
    """Enable workflows: new runs are accepted again."""
    each(names, "enabled", lambda app, name: app.enable_workflow(name), key="name", json=json)


@workflows.command()
@names_argument
@json_option
def disable(names: tuple[str, ...], json: bool) -> None:
    """Disable workflows: new runs are refused, live runs continue."""
    each(names, "disabled", lambda app, name: app.enable_workflow(name, False), key="name", json=json)


@workflows.command()
@click.argument("name")
@json_option
def rotate(name: str, json: bool) -> None:
    """Replace the webhook address of a workflow.

    The new address is printed once; the old one stops working.
    """
    address = backend(lambda app: app.rotate(name))
    if json:
        show_json({"name": name, "address": address})
        return
    say(address)
    note("store it: it is not shown again, and the old address no longer works")


@workflows.command()
@names_argument
@json_option
def delete(names: tuple[str, ...], json: bool) -> None:
    """Delete workflows and free their names; live runs finish on their version."""
    each(names, "deleted", lambda app, name: app.delete_workflow(name), key="name", json=json)


def _refuse(loaded: WorkflowFiles, *, json: bool) -> NoReturn:
    if json:
        show_json({"workflows": [], "warnings": [], "errors": loaded.mistakes})
    else:
        print_mistakes(loaded.mistakes)
        note("hint: nothing was deployed; windlass schema prints the JSON Schema of workflow files for editors")
    raise click.exceptions.Exit(1)


def _deploy(loaded: WorkflowFiles, *, dry_run: bool, json: bool) -> None:
    deployment = backend(lambda app: app.deploy(loaded.workflows, dry_run=dry_run))
    if json:
        show_json({"workflows": deployment.workflows, "warnings": deployment.warnings, "errors": []})
        return
    for workflow in deployment.workflows:
        style = "bold" if dry_run else "dim" if workflow.change == "unchanged" else ""
        say(cell(f"{workflow.change} {workflow.name} version {workflow.version}"), style)
        for line in workflow.lines if dry_run else ():
            say(cell(line), DIFF_STYLES.get(line[0], ""))
        if workflow.webhook_url is not None and not dry_run:
            say(cell(f"address of {workflow.name}: {workflow.webhook_url}"))
            note(cell(f"store it: it is not shown again; windlass workflows rotate {workflow.name} replaces it"))
    _warn(deployment.warnings)


def _warn(warnings: Iterable[str]) -> None:
    for warning in warnings:
        note(cell(f"warning: {warning}"))


def _row(line: "ListedWorkflow") -> list[object]:
    source = line.trigger if line.cron_expression is None else f"cron {line.cron_expression}"
    return [line.name, line.version, _yes_no(line.enabled), line.task_count, source, line.updated_at]


def _version_row(version: "Version") -> list[object]:
    live = _yes_no(version.live)
    return [version.version, live, version.task_count, version.inserted_at, version.fingerprint]


def _yes_no(value: bool) -> str:
    return "yes" if value else "no"
