"""`windlass run`: start a run of a workflow, and watch it if asked to."""

from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import typer

from windlass.cli import arguments, exit_codes
from windlass.cli.backend.interface import Backend, RunBackend
from windlass.cli.files import chosen, sound
from windlass.cli.output import Json, note, say, show_json
from windlass.cli.progress import display, watch
from windlass.cli.runner import backend
from windlass.core.runs.run import RunState
from windlass.core.workflows.workflow import Workflow
from windlass.errors import Invalid, NotFound

EXAMPLES = f"""Examples:

windlass run orders --input '{{"bucket": "landing"}}' --wait

windlass run orders.yaml -i bucket=landing -i limit=5 --label team=data --timeout 5m --wait

{exit_codes.MEANING}"""

SUFFIXES = {".yaml", ".yml", ".json"}


def run(
    target: Annotated[str, typer.Argument(metavar="NAME|FILE", help="A workflow; a file is deployed first.")],
    input_: Annotated[
        str | None, typer.Option("--input", metavar="JSON", help="What the run is given; - for standard input.")
    ] = None,
    input_file: Annotated[Path | None, typer.Option(help="Read the input from a file.")] = None,
    pair: Annotated[
        list[str] | None,
        typer.Option("-i", metavar="KEY=VALUE", help="A key of the input: JSON if it is, else text. May be repeated."),
    ] = None,
    workflow: Annotated[str | None, typer.Option(help="Which one, if the file has several.")] = None,
    key: Annotated[str | None, typer.Option(help="Idempotency key: a known one answers with its run.")] = None,
    label: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="May be repeated.")] = None,
    max_duration: Annotated[str | None, typer.Option(metavar="DURATION", help="End it after this: 1h.")] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Show how it goes on until it has ended.")] = False,
    timeout: Annotated[str | None, typer.Option(metavar="DURATION", help="With --wait, no longer than this.")] = None,
    json: Json = False,
) -> None:
    """Start a run; prints its id."""
    if timeout is not None and not wait:
        raise typer.BadParameter("--timeout says how long to wait: give --wait, too, or mean --max-duration")
    patience = arguments.span(timeout, field="timeout")
    options: dict[str, Any] = {
        "input": _input(input_, input_file, pair),
        "idempotency_key": key,
        "labels": arguments.labels(label or (), field="label"),
        "max_duration": arguments.span(max_duration, field="max-duration"),
    }
    given = _workflow(target, workflow)
    started: list[UUID] = []

    async def action(app: Backend) -> RunState | None:
        name = await _deployed(app, given) if given is not None else target
        found = await _start(app, name, options)
        started.append(found.id)
        if not json:
            say(str(found.id))
        if wait:
            return await until_ended(found, patience, json=json)
        if json:
            show_json({"id": found.id})
        return None

    try:
        state = backend(action)
    except KeyboardInterrupt:
        raise exit_codes.interrupted(started) from None
    exit_codes.leave([state] if state is not None else [])


async def until_ended(run_: RunBackend, patience: timedelta | None, *, json: bool) -> RunState:
    """Watch a run to its end and tell it, or say that it goes on; the state it is in."""
    with display(quiet=json) as shown:
        seen = await watch(run_, shown, patience)
    result = await run_.result()
    if seen.state is not result.state:  # it went on between the two looks
        seen = await run_.seen()
    if seen.is_live:
        exit_codes.still_running(run_.id, seen.state, patience)
    if json:
        show_json(exit_codes.fields(result))
    elif not seen.is_live:
        exit_codes.tell(seen, result, [] if result.state is RunState.COMPLETED else (await run_.explained())[1].run)
    return seen.state


async def _start(app: Backend, name: str, options: dict[str, Any]) -> RunBackend:
    try:
        return await app.start(name, **options)
    except NotFound as error:
        if Path(name).suffix.lower() in SUFFIXES or "/" in name:
            raise Invalid(f"there is neither a file nor a workflow {name!r}", field="target") from None
        raise error


async def _deployed(app: Backend, workflow: Workflow) -> str:
    [done] = (await app.deploy([workflow])).workflows
    note(f"deployed {done.name} version {done.number} ({done.change})")
    if done.address is not None:
        note(f"its address is {done.address}: this is told once")
    return done.name


def _workflow(target: str, name: str | None) -> Workflow | None:
    """That of a file; None if the target is the name of one."""
    if Path(target).suffix.lower() in SUFFIXES and Path(target).is_file():
        return chosen(Path(target), sound([Path(target)]), name)
    if name is not None:
        raise Invalid("--workflow goes with a file", field="workflow")
    return None


def _input(text: str | None, file: Path | None, pairs: list[str] | None) -> Any:
    if pairs and (text is not None or file is not None):
        raise typer.BadParameter("give the input once: with --input, with --input-file, or key by key with -i")
    return arguments.values(pairs, field="input") if pairs else arguments.document(text, file, field="input")
