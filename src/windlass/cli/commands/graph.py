"""`windlass graph`: draw a workflow, from a file or as it is deployed. `windlass schema`: what editors need."""

import sys
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, assert_never
from uuid import UUID

import typer

from windlass.cli import arguments
from windlass.cli.backend.interface import Backend
from windlass.cli.files import chosen, sound
from windlass.cli.output import COLOURS, note, say, show_json
from windlass.cli.runner import backend
from windlass.core.definition.json_schema import SCHEMA
from windlass.core.definition.parser import parse
from windlass.core.diagrams.mermaid import draw_mermaid
from windlass.core.diagrams.svg import draw_svg
from windlass.core.diagrams.tree import MARKS, draw_tree
from windlass.core.workflows.workflow import Workflow
from windlass.errors import Invalid

EXAMPLES = """Examples:

windlass graph orders.yaml

windlass graph orders --format svg --output orders.svg

windlass graph --run 01890a5d-ac96-774b-bcce-b302099a8057"""

SUFFIXES = {".yaml", ".yml", ".json"}


class Format(StrEnum):
    TREE = "tree"
    MERMAID = "mermaid"
    SVG = "svg"


def graph(
    target: Annotated[
        str | None, typer.Argument(metavar="FILE|NAME", help="A file, or the name of a deployed workflow.")
    ] = None,
    run: Annotated[str | None, typer.Option(metavar="ID", help="The workflow of this run, with its states.")] = None,
    format_: Annotated[Format, typer.Option("--format", "-f")] = Format.TREE,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write to this file.")] = None,
    workflow: Annotated[str | None, typer.Option(help="Which one, if the file has several.")] = None,
    version: Annotated[int | None, typer.Option(min=1, help="Of a deployed workflow; else the live one.")] = None,
) -> None:
    """Draw a workflow: what comes after what, on which condition, and in a run what became of it."""
    wanted, letters = _wanted(target, run, workflow, version)
    drawn = _drawing(format_)(wanted, letters)
    if output is None:
        _print(drawn, coloured=letters is not None and format_ is Format.TREE)
        return
    try:
        output.write_text(drawn, "utf-8")
    except OSError as error:
        raise Invalid(f"cannot write {output}: {error.strerror}", field="output") from None
    note(f"wrote {output}")


def schema() -> None:
    """Print the JSON Schema of workflow files."""
    show_json(SCHEMA)


def _is_file(target: str) -> bool:
    return Path(target).suffix.lower() in SUFFIXES or "/" in target or Path(target).exists()


def _wanted(
    target: str | None, run: str | None, workflow: str | None, version: int | None
) -> tuple[Workflow, str | None]:
    if (target is None) == (run is None):
        raise typer.BadParameter("name a file, a deployed workflow, or a run with --run: one of them")
    named = target is not None and not _is_file(target)
    if (workflow is not None and (target is None or named)) or (version is not None and not named):
        raise Invalid("--workflow goes with a file, --version with the name of a deployed workflow")
    if run is not None:
        return _of_run(arguments.run_ref(run))
    assert target is not None
    return (_deployed(target, version) if named else chosen(Path(target), sound([Path(target)]), workflow)), None


def _of_run(id_: UUID | str) -> tuple[Workflow, str]:
    async def action(app: Backend) -> tuple[Workflow, str]:
        return await (await app.run(id_)).drawn()

    return backend(action)


def _print(drawn: str, *, coloured: bool) -> None:
    if not coloured or not sys.stdout.isatty():
        typer.echo(drawn, nl=False)
        return
    colours = {mark: COLOURS[state] for state, mark in MARKS.items()}
    for line in drawn.splitlines():
        marks = (colours[char] for char in line if char in colours)
        say(line, next(marks, "bold"))


def _deployed(name: str, version: int | None) -> Workflow:
    return parse(backend(lambda app: app.workflow(name, version))["document"])


def _drawing(format_: Format) -> Callable[[Workflow, str | None], str]:
    match format_:
        case Format.TREE:
            return draw_tree
        case Format.MERMAID:
            return draw_mermaid
        case Format.SVG:
            return draw_svg
        case _:
            assert_never(format_)
