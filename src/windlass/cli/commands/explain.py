"""`windlass explain`: why a run is as it is, step by step."""

import sys
from shutil import get_terminal_size
from textwrap import wrap
from typing import Annotated
from uuid import UUID

import typer

from windlass.cli import arguments
from windlass.cli.backend.interface import Backend, Seen
from windlass.cli.output import COLOURS, Json, cell, record, say, show_json, styled
from windlass.cli.runner import backend
from windlass.core.explain.explanation import Explanation

WIDEST = 100


def explain(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The id of a run, or of a workflow of the Open Job Spec.")],
    json: Json = False,
) -> None:
    """Why each step ran, waits, was skipped or failed, and what the run is waiting for."""

    async def action(app: Backend) -> tuple[UUID, Seen, Explanation]:
        found = await app.run(arguments.run_ref(run))
        return found.id, *await found.explained()

    id_, seen, found = backend(action)
    if json:
        head = {"id": id_, "workflow": seen.workflow, "version": seen.version, "state": seen.state}
        show_json({**head, **record(found)})
        return
    state = styled(seen.state, COLOURS.get(seen.state, "bold"))
    say(f"run {id_} of {cell(seen.workflow)} version {seen.version}: {state}")
    _paragraph(found.run)
    if found.now:
        say("\nright now", "bold")
        for told in found.now:
            _paragraph([told], "- ")
    for step in found.steps:
        say(
            f"\n{styled(cell(step.step), 'bold')}  {styled(step.state, COLOURS.get(step.state, ''))}  {cell(step.does)}"
        )
        _paragraph(step.sentences)


def _paragraph(sentences: list[str], first: str = "  ") -> None:
    """Wrapped for a reader, one line for a pipe."""
    text = cell(" ".join(sentences))
    if not sys.stdout.isatty():
        say(f"{first}{text}")
        return
    width = min(get_terminal_size().columns, WIDEST)
    for line in wrap(
        text, width, initial_indent=first, subsequent_indent="  ", break_on_hyphens=False, break_long_words=False
    ):
        say(line)
