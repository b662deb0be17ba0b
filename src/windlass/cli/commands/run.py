"""`windlass run` and `windlass runs wait`: start runs, and wait until they have ended."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import click

from windlass.cli import arguments
from windlass.cli.arguments import json_option
from windlass.cli.backend.interface import Backend, RunBackend, word
from windlass.cli.files import SUFFIXES, select, sound
from windlass.cli.output import COLOURS, block, note, say, show_json
from windlass.cli.runner import INTERRUPTED, backend
from windlass.core import duration
from windlass.core.runs.run import RunState
from windlass.core.workflows.workflow import Workflow
from windlass.errors import Invalid, NotFound

if TYPE_CHECKING:
    from windlass.schemas.runs import RunDetail

STILL_RUNNING = 4
EXIT_CODES = {
    RunState.COMPLETED: 0,
    RunState.FAILED: 1,
    RunState.CANCELLED: 3,
    RunState.TIMEOUT: 3,
    RunState.PENDING: STILL_RUNNING,
    RunState.RUNNING: STILL_RUNNING,
}
EXIT_CODES_HELP = (
    "Exit codes after waiting: 0 completed, 1 failed, 3 cancelled or timed out, 4 still running after --timeout, "
    "130 Ctrl-C. In the last two cases the run continues."
)


@click.command(epilog=EXIT_CODES_HELP)
@click.argument("target", metavar="NAME|FILE")
@click.option("--input", "input_", metavar="JSON", help="Input of the run; - reads standard input.")
@click.option("--input-file", type=click.Path(path_type=Path), metavar="FILE", help="Read the input from a file.")
@click.option(
    "-i", "pairs", multiple=True, metavar="KEY=VALUE", help="A key of the input, as JSON or text; repeatable."
)
@click.option("--workflow", metavar="NAME", help="Workflow to use if the file has several.")
@click.option("--key", metavar="KEY", help="Idempotency key: if a run has it, print that run's id and start nothing.")
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="Label of the run; repeatable.")
@click.option("--max-duration", metavar="DURATION", help="Stop the run when it takes longer: 1h.")
@click.option("--wait/--no-wait", default=False, help="Show progress until the run has ended.")
@click.option("--timeout", metavar="DURATION", help="With --wait: wait at most this long: 5m.")
@json_option
def run(
    target: str,
    input_: str | None,
    input_file: Path | None,
    pairs: tuple[str, ...],
    workflow: str | None,
    key: str | None,
    labels: tuple[str, ...],
    max_duration: str | None,
    wait: bool,
    timeout: str | None,
    json: bool,
) -> None:
    """Start a run and print its id.

    The argument is the name of a deployed workflow, or a file to deploy and run.

    \b
    Examples:
      windlass run orders --input '{"bucket": "landing"}' --wait
      windlass run orders.yaml -i bucket=landing -i limit=5 --label team=data --timeout 5m --wait
    """
    if timeout is not None and not wait:
        raise click.UsageError("--timeout needs --wait; to limit the run itself, use --max-duration")
    patience = arguments.span(timeout, field="timeout")
    options: dict[str, Any] = {
        "input": _input(input_, input_file, pairs),
        "idempotency_key": key,
        "labels": arguments.labels(labels, field="label"),
        "max_duration": arguments.span(max_duration, field="max-duration"),
    }
    definition = _definition(target, workflow)
    started: list[UUID] = []

    async def action(app: Backend) -> RunState | None:
        name = await _deploy(app, definition) if definition is not None else target
        run_ = await _start(app, name, options)
        started.append(run_.id)
        if not json:
            say(str(run_.id))
        if wait:
            return await _follow(run_, patience, json=json)
        if json:
            show_json({"id": run_.id})
        return None

    try:
        state = backend(action)
    except KeyboardInterrupt:
        raise _interrupted(started) from None
    _leave([state] if state is not None else [])


@click.command(epilog=f"{EXIT_CODES_HELP} For several runs the lowest code other than 0.")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option("--timeout", metavar="DURATION", help="Wait at most this long: 5m.")
@json_option
def wait(ids: tuple[str, ...], timeout: str | None, json: bool) -> None:
    """Wait until runs have ended; the progress of a single run is shown.

    \b
    Example:
      windlass runs wait 01890a5d-ac96-774b-bcce-b302099a8057 --timeout 5m
    """
    run_ids, patience = arguments.run_ids(ids), arguments.span(timeout, field="timeout")

    async def one(app: Backend) -> list[RunState]:
        return [await _follow(await app.run(run_ids[0]), patience, json=json)]

    async def several(app: Backend) -> list[RunState]:
        runs = [await app.run(id_) for id_ in run_ids]
        return list(await asyncio.gather(*(_ended(run_, patience, json=json) for run_ in runs)))

    try:
        states = backend(one if len(run_ids) == 1 else several)
    except KeyboardInterrupt:
        raise _interrupted(run_ids) from None
    _leave(states)


async def _follow(run_: RunBackend, patience: timedelta | None, *, json: bool) -> RunState:
    """Show the progress of a run until it ends or the timeout expires, print its result and return its state."""
    from windlass.cli.progress import display, watch  # imports rich, which only waiting needs

    async with display(run_, quiet=json) as shown:
        detail = await watch(run_, shown, patience)
    state = RunState(detail.status)
    if not detail.has_ended:
        _note_still_running(run_.id, state, patience)
    if json:
        show_json(await _result(run_, detail))
    elif detail.has_ended:
        await _print_result(run_, detail)
    return state


async def _ended(run_: RunBackend, patience: timedelta | None, *, json: bool) -> RunState:
    """Wait until a run ends or the timeout expires, without showing progress; print its result and return its state."""
    try:
        async with asyncio.timeout(patience.total_seconds() if patience is not None else None):
            await run_.ended()
        detail = await run_.detail()
    except TimeoutError:
        detail = await run_.detail()
        _note_still_running(run_.id, RunState(detail.status), patience)
    show_json(await _result(run_, detail)) if json else say(f"{run_.id} {detail.status}")
    return RunState(detail.status)


async def _print_result(run_: RunBackend, detail: "RunDetail") -> None:
    """Print the state of a run, then its output if it completed, otherwise the explanation."""
    took = "" if detail.duration_ms is None else f" in {duration.brief(timedelta(milliseconds=detail.duration_ms))}"
    say(f"{detail.status}{took}", COLOURS.get(detail.status, "bold"))
    if detail.status == RunState.COMPLETED:
        show_json(await run_.output())
        return
    for sentence in (await run_.explanation()).run:
        note(block(sentence))
    note(f"hint: windlass explain {run_.id} shows what happened to each step")


async def _result(run_: RunBackend, detail: "RunDetail") -> dict[str, Any]:
    steps = {name: word(task.status) for name, task in detail.tasks.items()}
    return {"id": run_.id, "state": detail.status, "output": await run_.output(), "steps": steps}


def _leave(states: list[RunState]) -> None:
    """Exit with the lowest code other than 0: a failure takes precedence over a cancelled or running run."""
    codes = {EXIT_CODES[state] for state in states} - {0}
    if codes:
        raise click.exceptions.Exit(min(codes))


def _note_still_running(id_: UUID, state: RunState, patience: timedelta | None) -> None:
    waited = duration.text(patience or timedelta())
    note(f"run {id_} is still {state} after {waited} and continues; wait again with: windlass runs wait {id_}")


def _interrupted(ids: list[UUID]) -> click.exceptions.Exit:
    """Print the commands that wait for, explain or cancel the runs, which continue after Ctrl-C; return the exit."""
    if ids:
        some = " ".join(map(str, ids[:10]))
        note(f"\nstopped waiting; the {'run continues' if len(ids) == 1 else 'runs continue'}. To return or cancel:")
        for command in (f"runs wait {some}", f"explain {ids[0]}", f"runs cancel {some}"):
            note(f"  windlass {command}")
    return click.exceptions.Exit(INTERRUPTED)


async def _start(app: Backend, name: str, options: dict[str, Any]) -> RunBackend:
    try:
        return await app.start(name, **options)
    except NotFound as error:
        if Path(name).suffix.lower() in SUFFIXES or "/" in name:
            raise Invalid(f"there is neither a file nor a workflow {name!r}", field="target") from None
        raise error


async def _deploy(app: Backend, workflow: Workflow) -> str:
    [deployed] = (await app.deploy([workflow])).workflows
    note(f"deployed {deployed.name} version {deployed.version} ({deployed.change})")
    if deployed.webhook_url is not None:
        note(f"its webhook address is {deployed.webhook_url}: it is not shown again")
    return deployed.name


def _definition(target: str, name: str | None) -> Workflow | None:
    """Return the workflow in a file, None if the target is the name of a workflow."""
    if Path(target).suffix.lower() in SUFFIXES and Path(target).is_file():
        return select(Path(target), sound([Path(target)]), name)
    if name is not None:
        raise Invalid("--workflow needs a file", field="workflow")
    return None


def _input(text: str | None, file: Path | None, pairs: tuple[str, ...]) -> Any:
    if pairs and (text is not None or file is not None):
        raise click.UsageError("more than one input: use one of --input, --input-file and -i")
    return arguments.values(pairs, field="input") if pairs else arguments.document(text, file, field="input")
