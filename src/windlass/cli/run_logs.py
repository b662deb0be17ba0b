"""`windlass runs logs`: what the handlers of a run's steps logged, in the order of time."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, timedelta
from typing import Annotated, Any

import typer

from windlass.app import Windlass
from windlass.cli import arguments, ending
from windlass.cli.output import Json, cell, note, record, say, show_json
from windlass.cli.running import use
from windlass.engine.accounts import BEGINNING, LINES_LIMIT, Place, RunLine
from windlass.runtime.handle import Run

OVERLAP = timedelta(seconds=60)  # how late the lines of one worker may arrive after those of another
PAUSE = 0.5
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
    run_id = arguments.run_id(id_)
    wanted = {"step": step, "index": index, "attempt": attempt}

    async def action(app: Windlass) -> int:
        run, count = await app.run(run_id), 0
        async for name, line in _following(run, wanted) if follow else _all(run, wanted):
            _tell(name, line, json=json)
            count += 1
        return count

    try:
        count = use(action)
    except KeyboardInterrupt:
        raise typer.Exit(ending.INTERRUPTED) from None
    if not count and not json:
        note("nothing was logged")


async def _all(run: Run, wanted: dict[str, Any], after: Place = BEGINNING) -> AsyncIterator[tuple[str, RunLine]]:
    """Page by page."""
    while True:
        page = await run.lines(**wanted, after=after)
        for found in page:
            yield found
        if len(page) < LINES_LIMIT:
            return
        after = page[-1][1].place


async def _following(run: Run, wanted: dict[str, Any]) -> AsyncIterator[tuple[str, RunLine]]:
    """Lines of several workers do not arrive in order: the last minute is read again, what was told is not repeated."""
    told: dict[Place, None] = {}
    end = asyncio.ensure_future(run.ended())
    try:
        while True:
            last_look = end.done()
            newest = max(told, default=BEGINNING)
            after = newest if newest is BEGINNING else newest._replace(at=newest.at - OVERLAP)
            told = {place: None for place in told if place >= after}
            async for name, line in _all(run, wanted, after):
                if line.place not in told:
                    told[line.place] = None
                    yield name, line
            if last_look:
                end.result()
                return
            await asyncio.wait({end}, timeout=PAUSE)
    finally:
        end.cancel()


def _tell(name: str, line: RunLine, *, json: bool) -> None:
    """One line each, as logs are."""
    if json:
        show_json({**record(line), "step": name})
        return
    which = f"{name}[{line.item}]" if line.fanned_out else name
    attempt = f" attempt {line.attempt}" if line.attempt > 1 else ""
    moment = line.at.astimezone(UTC).replace(tzinfo=None).isoformat(sep=" ", timespec="milliseconds")
    say(cell(f"{moment}Z {line.level:<7} {which}{attempt}: {line.message}"))
