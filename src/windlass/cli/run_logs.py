"""`windlass runs logs`: what the handlers of a run's steps logged, in the order of time."""

from datetime import UTC
from typing import Annotated

import typer

from windlass.cli import arguments, exit_codes
from windlass.cli.backend.interface import Backend, Row
from windlass.cli.output import Json, cell, note, say, show_json
from windlass.cli.runner import backend

EXAMPLES = """Examples:

windlass runs logs 01890a5d-ac96-774b-bcce-b302099a8057 --step load --index 7

windlass runs logs 01890a5d-ac96-774b-bcce-b302099a8057 --follow"""


def logs(
    id_: Annotated[str, typer.Argument(metavar="ID")],
    step: Annotated[str | None, typer.Option(help="Only of this step.")] = None,
    index: Annotated[int | None, typer.Option(min=0, max=2**31 - 1, help="Only of this instance, from 0.")] = None,
    attempt: Annotated[int | None, typer.Option(min=1, max=2**31 - 1, help="Only of this attempt.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the run has ended.")] = False,
    json: Json = False,
) -> None:
    """What the handlers of its steps logged, in the order of time."""
    run_id = arguments.run_ref(id_)

    async def action(app: Backend) -> int:
        run, count = await app.run(run_id), 0
        async for line in run.lines(step=step, index=index, attempt=attempt, follow=follow):
            _tell(line, json=json)
            count += 1
        return count

    try:
        count = backend(action)
    except KeyboardInterrupt:
        raise typer.Exit(exit_codes.INTERRUPTED) from None
    if not count and not json:
        note("nothing was logged")


def _tell(line: Row, *, json: bool) -> None:
    """One line each, as logs are."""
    if json:
        show_json(line)
        return
    which = f"{line['step']}[{line['item']}]" if line["fanned_out"] else line["step"]
    attempt = f" attempt {line['attempt']}" if line["attempt"] > 1 else ""
    moment = line["at"].astimezone(UTC).replace(tzinfo=None).isoformat(sep=" ", timespec="milliseconds")
    say(cell(f"{moment}Z {line['level']:<7} {which}{attempt}: {line['message']}"))
