"""`windlass schedules`: what runs by the clock, when it comes next, and switches for it."""

from datetime import datetime
from typing import Annotated, Any

import typer

from windlass.app import Windlass
from windlass.cli.each import each
from windlass.cli.output import Json, note, record, show_json, show_table
from windlass.cli.running import use
from windlass.engine import schedules, triggers
from windlass.engine.starts import MAX_BATCH
from windlass.engine.triggers import Backfill, Page
from windlass.engine.workflows import PAGE_LIMIT
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

    async def action(app: Windlass) -> tuple[Page, list[dict[str, Any]]]:
        unit = await app.open()
        page = await triggers.list_(unit, after=after, limit=limit)
        return page, [record(job) for job in await schedules.list_(unit)] if page.next is None else []

    page, jobs = use(action)
    rows = [record(row) for row in page.schedules]
    if json:
        show_json({"schedules": rows, "jobs": jobs, "next": page.next})
        return
    show_table(COLUMNS, [*map(_run_row, rows), *map(_job_row, jobs)])
    if page.next is not None:
        note(f"more: --after {page.next}")


def pause(
    names: Names, reason: Annotated[str | None, typer.Option(help="Shown in the list.")] = None, json: Json = False
) -> None:
    """Start no runs by the clock until resumed; runs under way go on."""

    async def act(app: Windlass, name: str) -> None:
        await triggers.pause(await app.open(), name, reason=reason)

    each(names, "paused", act, key="name", json=json)


def resume(names: Names, json: Json = False) -> None:
    """Go on with the next time; those of the pause are not made up for."""

    async def act(app: Windlass, name: str) -> None:
        await triggers.resume(await app.open(), name)

    each(names, "resumed", act, key="name", json=json)


def preview(
    name: Name, count: Annotated[int, typer.Option("--count", "-n", min=1, max=PAGE_LIMIT)] = 10, json: Json = False
) -> None:
    """The next times, also of a schedule that is paused."""

    async def action(app: Windlass) -> list[datetime]:
        return await triggers.preview(await app.open(), name, count=count)

    ticks = use(action)
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

    async def action(app: Windlass) -> Backfill:
        return await triggers.backfill(await app.open(), name, first, last, limit=limit)

    done = use(action)
    if json:
        runs = [{"tick": tick, "run": id_} for tick, id_ in done.runs]
        show_json({"runs": runs, "started": done.started, "next": done.next})
        return
    show_table(("tick", "run"), done.runs)
    note(f"{done.started} started, {len(done.runs) - done.started} there already")
    if done.next is not None:
        note(f"more: --from {done.next.isoformat().replace('+00:00', 'Z')}")


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
