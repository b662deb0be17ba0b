"""`windlass runs` and `windlass explain`: list, inspect and control runs."""

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shutil import get_terminal_size
from textwrap import wrap
from typing import TYPE_CHECKING, Any
from uuid import UUID

import click

from windlass.cli import arguments
from windlass.cli.arguments import attempt_option, json_option, limit_option, reason_option
from windlass.cli.backend.interface import LETTERS, Backend, word
from windlass.cli.commands.run import wait
from windlass.cli.output import COLOURS, cell, note, record, say, show_fields, show_json, show_table, styled
from windlass.cli.runner import INTERRUPTED, backend, each, show_page
from windlass.core import duration
from windlass.core.compositions import title

if TYPE_CHECKING:
    from windlass.schemas.runs import Explanation, RestartPreview, Run, RunDetail, RunEvent, Trigger
    from windlass.schemas.tasks import Task, TaskLogLine

COLUMNS = ("id", "workflow", "version", "state", "s/f/k/total", "created", "duration")
STEP_COLUMNS = ("step", "state", "attempts", "duration", "worker", "what")
EVENT_COLUMNS = ("time", "event", "step", "reason", "actor")
HIDDEN = frozenset({"workflow_id", "task_counts", "retried", "cursor", "duration_ms", "attempts", "tasks"})
MAX_WIDTH = 100  # columns of a paragraph on a terminal

id_argument = click.argument("id_", metavar="ID")
ids_argument = click.argument("ids", nargs=-1, required=True, metavar="ID...")


@click.group()
def runs() -> None:
    """List, inspect, wait for, pause, cancel, retry and rerun runs."""


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
    filters["states"] = states
    filters["before"] = arguments.run_id(before) if before is not None else None
    page = backend(lambda app: app.runs(**filters))
    show_page("runs", page, COLUMNS, _row, "--before", json=json)


@runs.command()
@id_argument
@json_option
def show(id_: str, json: bool) -> None:
    """Show one run: its fields, its steps and its events."""

    async def action(app: Backend) -> "tuple[RunDetail, Any, list[RunEvent]]":
        run = await app.run(arguments.run_ref(id_))
        return await run.detail(), await run.output(), await run.events()

    run, output, events = backend(action)
    if json:
        show_json({**record(run), "output": output, "events": events})
        return
    visible = {name: value for name, value in record(run).items() if name not in HIDDEN}
    more = {"output": output, "duration": _time(run.duration_ms), "attempts": len(run.attempts)}
    show_fields({**visible, "trigger": _trigger(run.trigger), **more})
    say("\nsteps", "bold")
    show_table(STEP_COLUMNS, [_step(name, task) for name, task in run.tasks.items()])
    say("\nevents", "bold")
    show_table(EVENT_COLUMNS, [[one.at, _event(one), one.task, one.reason, one.actor] for one in events])
    note(f"hint: windlass explain {run.id} explains it in sentences")


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
    """Show the log lines of the steps of a run, ordered by time.

    \b
    Examples:
      windlass runs logs 01890a5d-ac96-774b-bcce-b302099a8057 --step load --index 7
      windlass runs logs 01890a5d-ac96-774b-bcce-b302099a8057 --follow
    """
    run_ref = arguments.run_ref(id_)

    async def action(app: Backend) -> int:
        run, count = await app.run(run_ref), 0
        fanned_out = {task.name for task in (await run.graph()).tasks if task.fan_out}
        async for line in run.lines(**options):
            show_json(line) if json else say(_log_line(line, fanned_out=line.task in fanned_out))
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
@click.option("--compensate", is_flag=True, help="Undo the steps that succeeded before the run ends.")
@json_option
def cancel(ids: tuple[str, ...], reason: str | None, compensate: bool, json: bool) -> None:
    """Cancel runs: waiting steps are cancelled immediately, running handlers are requested to stop."""

    async def act(app: Backend, id_: UUID) -> None:
        await (await app.run(id_)).cancel(reason=reason, compensate=compensate)

    each(arguments.run_ids(ids), "cancelled", act, json=json)


@runs.command()
@ids_argument
@reason_option
@json_option
def pause(ids: tuple[str, ...], reason: str | None, json: bool) -> None:
    """Pause runs: running jobs finish, no others start until the run is resumed.

    Timers continue. Child runs are paused, too.
    """

    async def act(app: Backend, id_: UUID) -> None:
        await (await app.run(id_)).pause(reason=reason)

    each(arguments.run_ids(ids), "paused", act, json=json)


@runs.command()
@ids_argument
@json_option
def resume(ids: tuple[str, ...], json: bool) -> None:
    """Resume paused runs: their jobs keep their original start times."""

    async def act(app: Backend, id_: UUID) -> None:
        await (await app.run(id_)).resume()

    each(arguments.run_ids(ids), "resumed", act, json=json)


version_option = click.option(
    "--version",
    type=click.Choice(["live"]),
    help="Continue with the live version of the workflow, if it does not differ in the finished steps.",
)
dry_run_option = click.option(
    "--dry-run", is_flag=True, help="Print which steps are kept and repeated; change nothing."
)


@runs.command()
@ids_argument
@version_option
@dry_run_option
@json_option
def retry(ids: tuple[str, ...], version: str | None, dry_run: bool, json: bool) -> None:
    """Repeat the failed steps and those that depend on them; the results of other steps are kept."""
    known = arguments.run_ids(ids)
    if dry_run:
        _show_previews(known, None, version, json=json)
        return

    async def act(app: Backend, id_: UUID) -> None:
        await (await app.run(id_)).retry(version=version)

    each(known, "retried", act, json=json)


def _show_previews(ids: list[UUID], step: str | None, version: str | None, *, json: bool) -> None:
    async def action(app: Backend) -> "list[RestartPreview]":
        return [await (await app.run(id_)).preview(step, version=version) for id_ in ids]

    previews = backend(action)
    if json:
        show_json([{"id": str(id_), **record(one)} for id_, one in zip(ids, previews, strict=True)])
        return
    for id_, one in zip(ids, previews, strict=True):
        say(f"run {id_}", "bold")
        show_fields({word: ", ".join(names) or None for word, names in record(one).items()})


@runs.command()
@id_argument
@click.option("--from", "step", required=True, metavar="STEP", help="The first step to repeat.")
@click.option("--input", "input_", metavar="JSON", help="New input of the run; - reads standard input.")
@click.option("--input-file", type=click.Path(path_type=Path), metavar="FILE", help="Read the new input from a file.")
@version_option
@dry_run_option
@json_option
def rerun(
    id_: str,
    step: str,
    input_: str | None,
    input_file: Path | None,
    version: str | None,
    dry_run: bool,
    json: bool,
) -> None:
    """Repeat a step and every step after it.

    \b
    Example:
      windlass runs rerun 01890a5d-ac96-774b-bcce-b302099a8057 --from load
    """
    document = arguments.document(input_, input_file, field="input")
    changes: dict[str, Any] = {"input": document} if input_ is not None or input_file is not None else {}
    if dry_run:
        _show_previews([arguments.run_id(id_)], step, version, json=json)
        return

    async def act(app: Backend, run_id: UUID) -> None:
        await (await app.run(run_id)).rerun(step, version=version, **changes)

    each([arguments.run_id(id_)], "rerun", act, json=json)


@click.command()
@id_argument
@json_option
def explain(id_: str, json: bool) -> None:
    """Explain the state of a run, step by step.

    It explains why each step ran, waits, failed or was skipped, and what the run waits for.
    """

    async def action(app: Backend) -> "tuple[RunDetail, Explanation]":
        run = await app.run(arguments.run_ref(id_))
        return await run.detail(), await run.explanation()

    run, explanation = backend(action)
    if json:
        head = {"id": run.id, "workflow": run.workflow, "version": run.version, "status": run.status}
        show_json({**head, **record(explanation)})
        return
    status = styled(run.status, COLOURS.get(run.status, "bold"))
    say(f"run {run.id} of {cell(run.workflow)} version {run.version}: {status}")
    _paragraph(explanation.run)
    if explanation.now:
        say("\nright now", "bold")
        for sentence in explanation.now:
            _paragraph([sentence], "- ")
    for task in explanation.tasks:
        state = word(task.status)
        say(f"\n{styled(cell(task.task), 'bold')}  {styled(state, COLOURS.get(state, ''))}  {cell(task.does)}")
        _paragraph(task.sentences)


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


def _log_line(line: "TaskLogLine", *, fanned_out: bool) -> str:
    instance = f"{line.task}[{line.index}]" if fanned_out else line.task
    attempt = f" attempt {line.attempt}" if line.attempt > 1 else ""
    moment = line.at.astimezone(UTC).replace(tzinfo=None).isoformat(sep=" ", timespec="milliseconds")
    return cell(f"{moment}Z {line.level:<7} {instance}{attempt}: {line.message}")


def _row(run: "Run") -> list[object]:
    counts = [run.task_counts.get(status, 0) for status in ("success", "failed", "timeout", "skipped")]
    progress = f"{counts[0]}/{counts[1] + counts[2]}/{counts[3]}/{sum(run.task_counts.values())}"
    took = None if run.started_at is None else (run.finished_at or datetime.now(UTC)) - run.started_at
    workflow = title(run.workflow, run.labels)
    return [run.id, workflow, run.version, run.status, progress, run.inserted_at, _brief(took)]


def _trigger(trigger: "Trigger") -> str:
    """Return the kind of a trigger, with the tick of a cron trigger or the run of a parent."""
    more = trigger.scheduled_for or trigger.parent_id
    return f"{trigger.kind} {cell(more)}" if more else trigger.kind


def _step(name: str, task: "Task") -> list[object]:
    attempts = None if task.attempt is None else f"{task.attempt}/{task.max_attempts}"
    return [name, word(task.status), attempts, _time(task.duration_ms), task.worker, cell(task.remark or None)]


def _event(event: "RunEvent") -> str:
    return word(event.event) if event.task is not None and event.event in LETTERS else event.event


def _time(milliseconds: int | None) -> str | None:
    return _brief(None if milliseconds is None else timedelta(milliseconds=milliseconds))


def _brief(span: timedelta | None) -> str | None:
    return None if span is None else duration.brief(max(span, timedelta()))
