"""`windlass schedules`: list schedules, pause and resume them, preview and backfill their ticks."""

from typing import TYPE_CHECKING

import click

from windlass.cli import arguments
from windlass.cli.arguments import after_option, json_option, limit_option
from windlass.cli.output import note, say, show_json, show_table
from windlass.cli.runner import backend, each, show_page
from windlass.schemas.common import CREATE_LIMIT, PAGE_LIMIT

if TYPE_CHECKING:
    from windlass.schemas.schedules import Schedule

COLUMNS = ("name", "starts", "cron", "timezone", "next", "last", "state")

names_argument = click.argument("names", nargs=-1, required=True, metavar="NAME...")


@click.group()
def schedules() -> None:
    """List schedules, pause, resume, run, preview and backfill them.

    A schedule has the name of its workflow.
    """


@schedules.command("list")
@limit_option(50, "Schedules")
@after_option
@json_option
def list_(limit: int, after: str, json: bool) -> None:
    """List the schedules of workflows by name, then those that plain SQL created."""
    page = backend(lambda app: app.schedules(after=after, limit=limit))
    show_page("schedules", page, COLUMNS, _row, "--after", json=json)


@schedules.command()
@names_argument
@click.option("--reason", metavar="TEXT", help="Reason, shown in the list.")
@json_option
def pause(names: tuple[str, ...], reason: str | None, json: bool) -> None:
    """Pause schedules: no ticks start runs until they are resumed; live runs continue."""
    each(names, "paused", lambda app, name: app.pause_schedule(name, reason=reason), key="name", json=json)


@schedules.command()
@names_argument
@json_option
def resume(names: tuple[str, ...], json: bool) -> None:
    """Resume schedules with the next tick; ticks during the pause are skipped."""
    each(names, "resumed", lambda app, name: app.resume_schedule(name), key="name", json=json)


@schedules.command()
@click.argument("name")
@json_option
def run(name: str, json: bool) -> None:
    """Start a run now with the input of the schedule; its ticks do not change."""
    id_ = backend(lambda app: app.run_schedule(name))
    if json:
        show_json({"run": id_})
    else:
        say(id_)


@schedules.command()
@click.argument("name")
@click.option("--count", "-n", type=click.IntRange(1, PAGE_LIMIT), default=10, metavar="N", help="How many ticks.")
@json_option
def preview(name: str, count: int, json: bool) -> None:
    """Print the next ticks of a schedule, even if it is paused."""
    ticks = backend(lambda app: app.ticks(name, count=count))
    if json:
        show_json(ticks)
    elif ticks:
        show_table(("utc", "local"), [(tick, tick.isoformat(sep=" ", timespec="seconds")) for tick in ticks])
    else:
        note("the schedule has no future ticks")


@schedules.command()
@click.argument("name")
@click.option("--from", "start", required=True, metavar="TIME", help="First time: 2030-01-31T00:00Z.")
@click.option("--to", "end", metavar="TIME", help="End, not included.  [default: now]")
@limit_option(1000, "Ticks", CREATE_LIMIT)
@json_option
def backfill(name: str, start: str, end: str | None, limit: int, json: bool) -> None:
    """Start the runs of past ticks.

    It is safe to repeat: a tick that has a run is skipped.

    \b
    Example:
      windlass schedules backfill orders --from 2030-01-01T00:00Z --to 2030-02-01T00:00Z
    """
    first = arguments.moment(start, field="from")
    last = None if end is None else arguments.moment(end, field="to")
    result = backend(lambda app: app.backfill(name, first, last, limit=limit))
    if json:
        show_json(result)
        return
    show_table(("tick", "run"), [(one.tick, one.run_id) for one in result.runs])
    note(f"{result.started} started, {len(result.runs) - result.started} already existed")
    if result.next is not None:
        note(f"more: --from {result.next.isoformat().replace('+00:00', 'Z')}")


def _row(schedule: "Schedule") -> list[object]:
    times = (schedule.next_run_at, schedule.last_run_at)
    return [schedule.name, schedule.starts, schedule.cron, schedule.timezone, *times, _state(schedule)]


def _state(schedule: "Schedule") -> str:
    if schedule.starts == "job":
        return "paused (plain SQL)" if schedule.paused else "on (plain SQL)"
    if schedule.paused:
        return f"paused: {schedule.paused_reason}" if schedule.paused_reason else "paused"
    return "on" if schedule.enabled else "disabled"
