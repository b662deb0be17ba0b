"""`windlass runs` and `windlass explain`: list, inspect and control runs."""

import sys
from datetime import UTC, timedelta
from pathlib import Path
from shutil import get_terminal_size
from textwrap import wrap
from typing import TYPE_CHECKING, Any
from uuid import UUID

import click

from windlass.cli import arguments
from windlass.cli.arguments import attempt_option, json_option, limit_option, reason_option
from windlass.cli.backend.interface import Backend, Row, Seen, SeenStep
from windlass.cli.commands.run import wait
from windlass.cli.output import COLOURS, cell, note, record, say, show_fields, show_json, show_table, styled
from windlass.cli.runner import INTERRUPTED, backend, each, show_page
from windlass.core import duration
from windlass.core.compositions import title

if TYPE_CHECKING:
    from windlass.core.explain.explanation import Explanation

COLUMNS = ("id", "workflow", "version", "state", "s/f/k/total", "created", "duration")
STEP_COLUMNS = ("step", "state", "attempts", "duration", "worker", "what")
EVENT_COLUMNS = ("time", "event", "step", "reason", "actor")
HIDDEN = frozenset({"workflow_id", "version_id", "letters", "fans", "round", "cursor", "duration"})  # shown as tables
MAX_WIDTH = 100  # columns of a paragraph on a terminal

id_argument = click.argument("id_", metavar="ID")
ids_argument = click.argument("ids", nargs=-1, required=True, metavar="ID...")


@click.group()
def runs() -> None:
    """List, inspect, wait for, cancel, retry and rerun runs."""


@runs.command("list")
@click.option("--workflow", metavar="NAME", help="Runs of this workflow.")
@click.option("--state", "states", multiple=True, metavar="STATE", help="Runs in this state; repeatable.")
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="Runs with this label; repeatable.")
@limit_option(50, "Runs")
@click.option("--before", metavar="ID", help="Continue below this run.")
@json_option
def list_(states: tuple[str, ...], labels: tuple[str, ...], before: str | None, json: bool, **filters: Any) -> None:
    """List runs, newest first.

    The column s/f/k/total counts the steps that succeeded, failed or timed out, were skipped, and all steps.

    \b
    Examples:
      windlass runs list --state failed --state timeout --workflow orders
      windlass runs list --label team=data --limit 200 --json
    """
    filters["labels"] = arguments.labels(labels, field="label")
    filters["states"] = states or None
    filters["before"] = arguments.run_id(before) if before is not None else None
    page = backend(lambda app: app.runs(**filters))
    show_page("runs", page, COLUMNS, _row, "--before", json=json)


@runs.command()
@id_argument
@json_option
def show(id_: str, json: bool) -> None:
    """Show one run: its fields, its steps, its events."""

    async def action(app: Backend) -> tuple[Row, list[Row], Seen]:
        run = await app.run(arguments.run_ref(id_))
        return *await run.shown(), await run.seen()

    row, events, seen = backend(action)
    fields = {**row, "duration": seen.took}
    if json:
        show_json({**fields, "steps": [{**step.more, **_step_fields(step)} for step in seen.steps], "events": events})
        return
    visible = {name: value for name, value in fields.items() if name not in HIDDEN}
    trigger = {"trigger": _trigger(row["trigger"])} if row.get("trigger") else {}
    show_fields({**visible, **trigger, "duration": _time(seen.took), "rounds": row["round"] + 1})
    say("\nsteps", "bold")
    show_table(STEP_COLUMNS, map(_step, seen.steps))
    say("\nevents", "bold")
    names = ("created_at", "word", "step", "reason", "actor")
    show_table(EVENT_COLUMNS, [[event[name] for name in names] for event in events])
    note(f"hint: windlass explain {row['id']} explains it in sentences")


@runs.command()
@id_argument
@click.option("--step", metavar="NAME", help="Only this step.")
@click.option(
    "--index", type=click.IntRange(0, 2**31 - 1), metavar="N", help="With --step: only this instance, from 0."
)
@attempt_option
@click.option("--follow", "-f", is_flag=True, help="Continue until the run has ended.")
@json_option
def logs(id_: str, json: bool, **options: Any) -> None:
    """Show what the handlers of its steps logged, in order of time.

    \b
    Examples:
      windlass runs logs 01890a5d-ac96-774b-bcce-b302099a8057 --step load --index 7
      windlass runs logs 01890a5d-ac96-774b-bcce-b302099a8057 --follow
    """
    run_ref = arguments.run_ref(id_)

    async def action(app: Backend) -> int:
        run, count = await app.run(run_ref), 0
        async for line in run.lines(**options):
            _print_line(line, json=json)
            count += 1
        return count

    try:
        count = backend(action)
    except KeyboardInterrupt:
        raise click.exceptions.Exit(INTERRUPTED) from None
    if not count and not json:
        note("nothing was logged")


runs.add_command(wait)


@runs.command()
@ids_argument
@reason_option
@json_option
def cancel(ids: tuple[str, ...], reason: str | None, json: bool) -> None:
    """Cancel runs: waiting steps end at once, running ones are asked to stop."""

    async def act(app: Backend, id_: UUID) -> None:
        await (await app.run(id_)).cancel(reason=reason)

    each(arguments.run_ids(ids), "cancelled", act, json=json)


@runs.command()
@ids_argument
@json_option
def retry(ids: tuple[str, ...], json: bool) -> None:
    """Repeat the failed steps and those that depend on them; the results of other steps are kept."""

    async def act(app: Backend, id_: UUID) -> None:
        await (await app.run(id_)).retry()

    each(arguments.run_ids(ids), "retried", act, json=json)


@runs.command()
@id_argument
@click.option("--from", "step", required=True, metavar="STEP", help="The first step to repeat.")
@click.option("--input", "input_", metavar="JSON", help="New input of the run; - reads standard input.")
@click.option("--input-file", type=click.Path(path_type=Path), metavar="FILE", help="Read the new input from a file.")
@json_option
def rerun(id_: str, step: str, input_: str | None, input_file: Path | None, json: bool) -> None:
    """Repeat a step and every step after it.

    \b
    Example:
      windlass runs rerun 01890a5d-ac96-774b-bcce-b302099a8057 --from load
    """
    document = arguments.document(input_, input_file, field="input")
    changes = {"input": document} if input_ is not None or input_file is not None else {}

    async def act(app: Backend, run_id: UUID) -> None:
        await (await app.run(run_id)).rerun(step, **changes)

    each([arguments.run_id(id_)], "rerun", act, json=json)


@click.command()
@id_argument
@json_option
def explain(id_: str, json: bool) -> None:
    """Explain the state of a run, step by step.

    It says why each step ran, waits, failed or was skipped, and what the run waits for.
    """

    async def action(app: Backend) -> "tuple[UUID, Seen, Explanation]":
        run = await app.run(arguments.run_ref(id_))
        return run.id, *await run.explained()

    run_id, seen, explanation = backend(action)
    if json:
        head = {"id": run_id, "workflow": seen.workflow, "version": seen.version, "state": seen.state}
        show_json({**head, **record(explanation)})
        return
    state = styled(seen.state, COLOURS.get(seen.state, "bold"))
    say(f"run {run_id} of {cell(seen.workflow)} version {seen.version}: {state}")
    _paragraph(explanation.run)
    if explanation.now:
        say("\nright now", "bold")
        for sentence in explanation.now:
            _paragraph([sentence], "- ")
    for step in explanation.steps:
        name, state = styled(cell(step.step), "bold"), styled(step.state, COLOURS.get(step.state, ""))
        say(f"\n{name}  {state}  {cell(step.does)}")
        _paragraph(step.sentences)


def _paragraph(sentences: list[str], first: str = "  ") -> None:
    """Print sentences wrapped on a terminal, as one line in a pipe."""
    text = cell(" ".join(sentences))
    if not sys.stdout.isatty():
        say(f"{first}{text}")
        return
    width = min(get_terminal_size().columns, MAX_WIDTH)
    options: dict[str, Any] = {"break_on_hyphens": False, "break_long_words": False}
    for line in wrap(text, width, initial_indent=first, subsequent_indent="  ", **options):
        say(line)


def _print_line(line: Row, *, json: bool) -> None:
    if json:
        show_json(line)
        return
    instance = f"{line['step']}[{line['item']}]" if line["fanned_out"] else line["step"]
    attempt = f" attempt {line['attempt']}" if line["attempt"] > 1 else ""
    moment = line["at"].astimezone(UTC).replace(tzinfo=None).isoformat(sep=" ", timespec="milliseconds")
    say(cell(f"{moment}Z {line['level']:<7} {instance}{attempt}: {line['message']}"))


def _row(run: Row) -> list[object]:
    letters = run["letters"]
    counts = [letters.count("s"), letters.count("f") + letters.count("t"), letters.count("k"), len(letters)]
    workflow = title(run["workflow"], run["labels"])
    names = [run["id"], workflow, run["version"], run["state"].value, "/".join(map(str, counts)), run["created_at"]]
    return [*names, _time(run["duration"])]


def _trigger(trigger: Row) -> str:
    """Return the kind of a trigger, with the tick of a cron trigger or the run of a parent."""
    more = trigger["scheduled_for"] or trigger["parent_id"]
    return f"{trigger['kind']} {cell(more)}" if more else str(trigger["kind"])


def _step(step: SeenStep) -> list[object]:
    return [step.name, step.word, step.attempts, _time(step.took), step.worker, cell(step.remark or None)]


def _step_fields(step: SeenStep) -> dict[str, Any]:
    return {"step": step.name, "state": step.word, "duration": step.took, "what": step.remark}


def _time(span: timedelta | None) -> str | None:
    return duration.brief(span) if span is not None else None
