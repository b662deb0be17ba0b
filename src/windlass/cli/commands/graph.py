"""`windlass graph` and `windlass schema`: draw a workflow, and print the JSON Schema of workflow files."""

import sys
from pathlib import Path
from uuid import UUID

import click

from windlass.cli import arguments
from windlass.cli.backend.interface import LETTERS, Backend
from windlass.cli.files import SUFFIXES, select, sound
from windlass.cli.output import COLOURS, note, say, show_json
from windlass.cli.runner import backend
from windlass.core.definition.json_schema import SCHEMA
from windlass.core.definition.parser import parse
from windlass.core.diagrams import MARKS, draw_mermaid, draw_tree
from windlass.core.svg import draw_svg
from windlass.core.workflows.workflow import Workflow
from windlass.errors import Invalid

DRAWINGS = {"tree": draw_tree, "mermaid": draw_mermaid, "svg": draw_svg}


@click.command()
@click.argument("target", metavar="[FILE|NAME]", required=False)
@click.option("--run", metavar="ID", help="Draw the workflow of this run with the states of its steps.")
@click.option("--format", "-f", "format_", type=click.Choice(list(DRAWINGS)), default="tree", help="Format.")
@click.option("--output", "-o", type=click.Path(path_type=Path), metavar="FILE", help="Write to this file.")
@click.option("--workflow", metavar="NAME", help="Workflow to use if the file has several.")
@click.option("--version", type=click.IntRange(1), metavar="N", help="A version.  [default: the live one]")
def graph(
    target: str | None, run: str | None, format_: str, output: Path | None, workflow: str | None, version: int | None
) -> None:
    """Draw a workflow or a run.

    The argument is a workflow file or the name of a deployed workflow. The drawing shows the order of the steps, their
    conditions and, with --run, their states.

    \b
    Examples:
      windlass graph orders.yaml
      windlass graph orders --format svg --output orders.svg
      windlass graph --run 01890a5d-ac96-774b-bcce-b302099a8057
    """
    definition, letters = _load(target, run, workflow, version)
    drawing = DRAWINGS[format_](definition, letters)
    if output is None:
        _print(drawing, coloured=letters is not None and format_ == "tree")
        return
    try:
        output.write_text(drawing, "utf-8")
    except OSError as error:
        raise Invalid(f"cannot write {output}: {error.strerror}", field="output") from None
    note(f"wrote {output}")


@click.command()
def schema() -> None:
    """Print the JSON Schema of workflow files, for editors.

    \b
    Example:
      windlass schema > windlass.schema.json
    """
    show_json(SCHEMA)


def _load(
    target: str | None, run: str | None, workflow: str | None, version: int | None
) -> tuple[Workflow, str | None]:
    """Return the workflow to draw and, for a run, the letters of its steps."""
    if (target is None) == (run is None):
        raise click.UsageError("name one of these: a file, a deployed workflow, or a run with --run")
    deployed = target is not None and not _is_file(target)
    if (workflow is not None and (target is None or deployed)) or (version is not None and not deployed):
        raise Invalid("--workflow needs a file, --version the name of a deployed workflow")
    if run is not None:
        return _of_run(arguments.run_ref(run))
    assert target is not None
    if deployed:
        return parse(backend(lambda app: app.workflow(target, version))[1].definition), None
    return select(Path(target), sound([Path(target)]), workflow), None


def _is_file(target: str) -> bool:
    return Path(target).suffix.lower() in SUFFIXES or "/" in target or Path(target).exists()


def _of_run(id_: UUID | str) -> tuple[Workflow, str]:
    async def action(app: Backend) -> tuple[Workflow, str]:
        run = await app.run(id_)
        tasks = (await run.detail()).tasks
        return await run.definition(), "".join(LETTERS[task.status] for task in tasks.values())

    return backend(action)


def _print(drawing: str, *, coloured: bool) -> None:
    if not coloured or not sys.stdout.isatty():
        click.echo(drawing, nl=False)
        return
    colours = {mark: COLOURS[state] for state, mark in MARKS.items()}
    for line in drawing.splitlines():
        marks = (colours[char] for char in line if char in colours)
        say(line, next(marks, "bold"))
