"""`windlass queues`: how much lies in them, how fast it goes, and a switch for each."""

from datetime import timedelta
from typing import Annotated

import typer

from windlass.cli.backend.interface import Row
from windlass.cli.bulk import each
from windlass.cli.output import Json, note, show_json, show_table
from windlass.cli.runner import backend
from windlass.core import duration
from windlass.engine.database import PAGE_LIMIT

Names = Annotated[list[str], typer.Argument(metavar="NAME...")]
COLUMNS = ("name", "due", "scheduled", "leased", "oldest", "ended/s", "state")


def list_(
    limit: Annotated[int, typer.Option(min=1, max=PAGE_LIMIT)] = 100,
    after: Annotated[str, typer.Option(metavar="NAME", help="Go on after this name.")] = "",
    json: Json = False,
) -> None:
    """By name: those in which something lies, and those that were ever paused."""
    page = backend(lambda app: app.queues(after=after, limit=limit))
    if json:
        show_json({"queues": page.rows, "next": page.next})
        return
    show_table(COLUMNS, map(_row, page.rows))
    if page.next is not None:
        note(f"more: --after {page.next}")


def pause(names: Names, json: Json = False) -> None:
    """Claim nothing from them until resumed; what is held is finished."""
    each(names, "paused", lambda app, name: app.pause_queue(name), key="name", json=json)


def resume(names: Names, json: Json = False) -> None:
    """Go on."""
    each(names, "resumed", lambda app, name: app.resume_queue(name), key="name", json=json)


def _row(queue: Row) -> list[object]:
    more = "+" if queue["capped"] else ""
    counts = [f"{queue['due']}{more}", f"{queue['scheduled']}{more}", queue["leased"]]
    oldest = None if queue["oldest_seconds"] is None else duration.brief(timedelta(seconds=queue["oldest_seconds"]))
    state = "paused" if queue["paused"] else "on"
    return [queue["name"], *counts, oldest, f"{queue['ended_per_second']:.1f}", state]
