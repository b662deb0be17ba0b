"""`windlass runs`: look at runs, and steer them."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import typer

from windlass.cli import arguments, exit_codes
from windlass.cli.backend.interface import Backend, Row, RunBackend, Seen, SeenStep
from windlass.cli.bulk import each
from windlass.cli.commands.run import until_ended
from windlass.cli.output import Json, cell, note, say, show_fields, show_json, show_table
from windlass.cli.runner import backend
from windlass.core import duration
from windlass.core.compositions import title
from windlass.core.runs.run import RunState
from windlass.engine.database import PAGE_LIMIT
from windlass.runtime.handle import RunResult

Id = Annotated[str, typer.Argument(metavar="ID")]
Ids = Annotated[list[str], typer.Argument(metavar="ID...")]
COLUMNS = ("id", "workflow", "version", "state", "s/f/k/total", "created", "duration")
HIDDEN = frozenset({"workflow_id", "version_id", "letters", "fans", "round", "cursor", "duration"})  # the tables tell
STEP_COLUMNS = ("step", "state", "attempts", "duration", "worker", "what")

LIST_EXAMPLES = """Examples:

windlass runs list --state failed --state timeout --workflow orders

windlass runs list --label team=data --limit 200 --json

The column s/f/k/total has the steps that succeeded, failed or timed out, and were skipped, of all."""
WAIT_EXAMPLES = f"""Examples:

windlass runs wait 01890a5d-ac96-774b-bcce-b302099a8057 --timeout 5m

{exit_codes.MEANING} Of several runs a failure counts most."""


def list_(
    workflow: Annotated[str | None, typer.Option(metavar="NAME")] = None,
    state: Annotated[list[str] | None, typer.Option(help="May be repeated.")] = None,
    label: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="May be repeated.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=PAGE_LIMIT)] = 50,
    before: Annotated[str | None, typer.Option(metavar="ID", help="Go on below this run.")] = None,
    json: Json = False,
) -> None:
    """Newest first."""
    filters: dict[str, Any] = {
        "workflow": workflow,
        "states": state,
        "labels": arguments.labels(label or (), field="label"),
        "before": arguments.run_id(before) if before is not None else None,
        "limit": limit,
    }
    page = backend(lambda app: app.runs(**filters))
    if json:
        show_json({"runs": page.rows, "next": page.next})
        return
    show_table(COLUMNS, map(_row, page.rows))
    if page.next is not None:
        note(f"more: --before {page.next}")


def show(id_: Id, json: Json = False) -> None:
    """Everything about one run: its fields, its steps, its events."""

    async def action(app: Backend) -> tuple[Row, list[Row], Seen]:
        run = await app.run(arguments.run_ref(id_))
        return *await run.shown(), await run.seen()

    row, events, seen = backend(action)
    fields = {**row, "duration": seen.took}
    if json:
        show_json({**fields, "steps": [{**step.more, **_step_fields(step)} for step in seen.steps], "events": events})
        return
    shown = {name: value for name, value in fields.items() if name not in HIDDEN}
    told = {"trigger": _origin(row["trigger"])} if row.get("trigger") else {}
    show_fields({**shown, **told, "duration": _time(seen.took), "rounds": row["round"] + 1})
    say("\nsteps", "bold")
    show_table(STEP_COLUMNS, map(_step, seen.steps))
    say("\nevents", "bold")
    names = ("created_at", "word", "step", "reason", "actor")
    show_table(("time", "event", "step", "reason", "actor"), [[event[name] for name in names] for event in events])
    note(f"hint: windlass explain {row['id']} tells it in sentences")


def cancel(
    ids: Ids, reason: Annotated[str | None, typer.Option(help="Kept in the trail.")] = None, json: Json = False
) -> None:
    """Stop runs: what waits ends at once, who works for them is asked to stop."""

    async def act(app: Backend, id_: UUID) -> None:
        await (await app.run(id_)).cancel(reason=reason)

    each(arguments.run_ids(ids), "cancelled", act, json=json)


def retry(ids: Ids, json: Json = False) -> None:
    """Do again what failed and what hung on it; what succeeded is kept."""

    async def act(app: Backend, id_: UUID) -> None:
        await (await app.run(id_)).retry()

    each(arguments.run_ids(ids), "retried", act, json=json)


def rerun(
    id_: Id,
    step: Annotated[str, typer.Option("--from", metavar="STEP", help="This step and everything after it.")],
    input_: Annotated[
        str | None, typer.Option("--input", metavar="JSON", help="Another input for the run; - for standard input.")
    ] = None,
    input_file: Annotated[Path | None, typer.Option(help="Read that input from a file.")] = None,
    json: Json = False,
) -> None:
    """Do a step again, and everything after it."""
    given = arguments.document(input_, input_file, field="input")
    changed = {"input": given} if input_ is not None or input_file is not None else {}

    async def act(app: Backend, run_id: UUID) -> None:
        await (await app.run(run_id)).rerun(step, **changed)

    each([arguments.run_id(id_)], "rerun", act, json=json)


def wait(
    ids: Ids,
    timeout: Annotated[str | None, typer.Option(metavar="DURATION", help="No longer than this.")] = None,
    json: Json = False,
) -> None:
    """Wait for the end of runs; one alone is watched."""
    wanted, patience = arguments.run_ids(ids), arguments.span(timeout, field="timeout")

    async def alone(app: Backend) -> list[RunState]:
        return [await until_ended(await app.run(wanted[0]), patience, json=json)]

    async def together(app: Backend) -> list[RunState]:
        runs = [await app.run(id_) for id_ in wanted]

        async def ended(run: RunBackend) -> RunState:
            try:
                result = await _waited(run, patience)
            except TimeoutError:
                result = await run.result()
                exit_codes.still_running(run.id, result.state, patience)
            show_json(exit_codes.fields(result)) if json else say(f"{run.id} {result.state}")
            return result.state

        return list(await asyncio.gather(*map(ended, runs)))

    try:
        states = backend(alone if len(wanted) == 1 else together)
    except KeyboardInterrupt:
        raise exit_codes.interrupted(wanted) from None
    exit_codes.leave(states)


def _row(run: dict[str, Any]) -> list[object]:
    letters = run["letters"]
    counts = [letters.count("s"), letters.count("f") + letters.count("t"), letters.count("k"), len(letters)]
    progress = "/".join(map(str, counts))
    workflow = title(run["workflow"], run["labels"])
    names = [run["id"], workflow, run["version"], run["state"].value, progress, run["created_at"]]
    return [*names, _time(run["duration"])]


def _origin(trigger: Row) -> str:
    """cron, for its tick; parent, and which run; else the kind says all."""
    more = trigger["scheduled_for"] or trigger["parent_id"]
    return f"{trigger['kind']} {cell(more)}" if more else str(trigger["kind"])


def _step(step: SeenStep) -> list[object]:
    return [step.name, step.word, step.attempts, _time(step.took), step.worker, cell(step.remark or None)]


def _step_fields(step: SeenStep) -> dict[str, Any]:
    return {"step": step.name, "state": step.word, "duration": step.took, "what": step.remark}


async def _waited(run: RunBackend, patience: timedelta | None) -> RunResult:
    await asyncio.wait_for(run.ended(), patience.total_seconds() if patience is not None else None)
    return await run.result()


def _time(span: Any) -> str | None:
    return duration.brief(span) if span is not None else None
