"""`windlass graph`: draw a workflow, from a file or as it is deployed. `windlass schema`: what editors need."""

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, assert_never

import typer

from windlass.app import Windlass
from windlass.cli.files import sound
from windlass.cli.output import note, show_json
from windlass.cli.running import use
from windlass.core.definition import parse
from windlass.core.drawing_mermaid import draw_mermaid
from windlass.core.drawing_svg import draw_svg
from windlass.core.drawing_tree import draw_tree
from windlass.core.json_schema import SCHEMA
from windlass.core.workflow import Workflow
from windlass.engine import workflows
from windlass.errors import Invalid

EXAMPLES = """Examples:

windlass graph orders.yaml

windlass graph orders --format svg --output orders.svg"""

SUFFIXES = {".yaml", ".yml", ".json"}


class Format(StrEnum):
    TREE = "tree"
    MERMAID = "mermaid"
    SVG = "svg"


def graph(
    target: Annotated[str, typer.Argument(metavar="FILE|NAME", help="A file, or the name of a deployed workflow.")],
    format_: Annotated[Format, typer.Option("--format", "-f")] = Format.TREE,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write to this file.")] = None,
    workflow: Annotated[str | None, typer.Option(help="Which one, if the file has several.")] = None,
    version: Annotated[int | None, typer.Option(min=1, help="Of a deployed workflow; else the live one.")] = None,
) -> None:
    """Draw a workflow: what comes after what, and on which condition."""
    named = not _is_file(target)
    if (workflow is not None and named) or (version is not None and not named):
        raise Invalid("--workflow goes with a file, --version with the name of a deployed workflow")
    wanted = _deployed(target, version) if named else _chosen(Path(target), workflow)
    drawn = _drawing(format_)(wanted)
    if output is None:
        typer.echo(drawn, nl=False)
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


def _chosen(file: Path, name: str | None) -> Workflow:
    found = {workflow.name: workflow for workflow in sound([file])}
    if name is None and len(found) == 1:
        return next(iter(found.values()))
    if name in found:
        return found[name]
    names = ", ".join(found)
    if name is None:
        raise Invalid(f"{file} has {len(found)} workflows: choose one with --workflow ({names})", field="workflow")
    raise Invalid(f"{file} has no workflow {name!r}, but {names}", field="workflow")


def _deployed(name: str, version: int | None) -> Workflow:
    async def action(app: Windlass) -> Workflow:
        return parse((await workflows.get(await app.open(), name, number=version)).document)

    return use(action)


def _drawing(format_: Format) -> Callable[[Workflow], str]:
    match format_:
        case Format.TREE:
            return draw_tree
        case Format.MERMAID:
            return draw_mermaid
        case Format.SVG:
            return draw_svg
        case _:
            assert_never(format_)
