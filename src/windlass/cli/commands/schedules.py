"""`windlass schedules`: what runs by the clock, when it comes next, and switches for it."""

from datetime import datetime
from typing import Annotated, Any

import typer

from windlass.cli.bulk import each
from windlass.cli.output import Json, note, say, show_json, show_table
from windlass.cli.runner import backend
from windlass.engine.database import PAGE_LIMIT
from windlass.engine.runs.start import MAX_BATCH
from windlass.errors import Invalid

Name = Annotated[str, typer.Argument(metavar="NAME", help="Of the workflow.")]
Names = Annotated[list[str], typer.Argument(metavar="NAME...", help="Of workflows.")]
COLUMNS = ("name", "starts", "cron", "timezone", "next", "last", "state")

BACKFILL_EXAMPLES = """Examples:

windlass schedules backfill orders --from 2030-01-01T00:00Z --to 2030-02-01T00:00Z

Safe to repeat: a time that has its run is left alone."""


def list_(
    limit: Annotated[int, typer.Option(min=1, max=PAGE_LIMIT)] = 50,
    after: Annotated[str, typer.Option(metavar="NAME", help="Go on after this name.")] = "",
    json: Json = False,
) -> None:
    """Schedules of workflows by name, and at the end those that plain SQL made and that enqueue jobs."""
    page, jobs = backend(lambda app: app.schedules(after=after, limit=limit))
    if json:
        show_json({"schedules": page.rows, "jobs": jobs, "next": page.next})
        return
    show_table(COLUMNS, [*map(_run_row, page.rows), *map(_job_row, jobs)])
    if page.next is not None:
        note(f"more: --after {page.next}")


def pause(
    names: Names, reason: Annotated[str | None, typer.Option(help="Shown in the list.")] = None, json: Json = False
) -> None:
    """Start no runs by the clock until resumed; runs under way go on."""
    each(names, "paused", lambda app, name: app.pause_schedule(name, reason=reason), key="name", json=json)


def resume(names: Names, json: Json = False) -> None:
    """Go on with the next time; those of the pause are not made up for."""
    each(names, "resumed", lambda app, name: app.resume_schedule(name), key="name", json=json)


def run(name: Name, json: Json = False) -> None:
    """Start a run now, with the input of the schedule; its ticks stay as they are."""
    id_ = backend(lambda app: app.run_schedule(name))
    if json:
        show_json({"run": id_})
    else:
        say(id_)


def preview(
    name: Name, count: Annotated[int, typer.Option("--count", "-n", min=1, max=PAGE_LIMIT)] = 10, json: Json = False
) -> None:
    """The next times, also of a schedule that is paused."""
    ticks = backend(lambda app: app.ticks(name, count=count))
    if json:
        show_json(ticks)
    elif ticks:
        show_table(("utc", "local"), [(tick, tick.isoformat(sep=" ", timespec="seconds")) for tick in ticks])
    else:
        note("it never comes by itself")


def backfill(
    name: Name,
    start: Annotated[str, typer.Option("--from", metavar="TIME", help="From this time on: 2030-01-31T00:00Z.")],
    end: Annotated[str | None, typer.Option("--to", metavar="TIME", help="Before this time; now if left out.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=MAX_BATCH, help="So many times at most.")] = 1000,
    json: Json = False,
) -> None:
    """Start the runs of past times; those that have their run are left alone."""
    first, last = _moment(start, "from"), None if end is None else _moment(end, "to")
    done = backend(lambda app: app.backfill(name, first, last, limit=limit))
    if json:
        runs = [{"tick": tick, "run": id_} for tick, id_ in done["runs"]]
        show_json({**done, "runs": runs})
        return
    show_table(("tick", "run"), done["runs"])
    note(f"{done['started']} started, {len(done['runs']) - done['started']} there already")
    if done["next"] is not None:
        note(f"more: --from {done['next'].isoformat().replace('+00:00', 'Z')}")


def _run_row(row: dict[str, Any]) -> list[object]:
    state = "on" if row["enabled"] else "disabled"
    if row["paused"]:
        state = f"paused: {row['paused_reason']}" if row["paused_reason"] else "paused"
    times = (row["next_run_at"], row["last_run_at"])
    return [row["workflow"], "run", row["cron"], row["timezone"], *times, state]


def _job_row(row: dict[str, Any]) -> list[object]:
    state = "on (plain SQL)" if row["enabled"] else "paused (plain SQL)"
    times = (row["next_run_at"] if row["enabled"] else None, row["last_run_at"])
    return [row["type"], "job", row["schedule"], row["timezone"], *times, state]


def _moment(text: str, option: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.utcoffset() is None:
        raise Invalid(f"--{option} is {text!r}: it must look like 2030-01-31T12:00:00Z, with a time zone", field=option)
    return found
