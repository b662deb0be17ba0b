"""How commands that wait for runs end: what they print, and their exit codes."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import typer

from windlass.cli.backend.interface import Seen
from windlass.cli.output import COLOURS, block, note, say, show_json
from windlass.core import duration
from windlass.core.runs.run import RunState
from windlass.runtime.handle import RunResult

STILL_RUNNING = 4
INTERRUPTED = 130
EXIT_CODES = {
    RunState.COMPLETED: 0,
    RunState.FAILED: 1,
    RunState.CANCELLED: 3,
    RunState.TIMEOUT: 3,
    RunState.PENDING: STILL_RUNNING,
    RunState.RUNNING: STILL_RUNNING,
}
MEANING = (
    "Exit codes with --wait: 0 completed, 1 failed, 3 cancelled or out of time, 4 still under way when --timeout was "
    "over, 130 Ctrl-C. The run goes on in the last two cases."
)


def tell(seen: Seen, result: RunResult, sentences: list[str]) -> None:
    """The state, then the output of a run that completed, or why it did not."""
    took = seen.took
    say(f"{result.state}{f' in {duration.brief(took)}' if took is not None else ''}", COLOURS.get(result.state, "bold"))
    if result.state is RunState.COMPLETED:
        show_json(result.output)
        return
    for sentence in sentences:
        note(block(sentence))
    note(f"hint: windlass explain {result.id} tells what happened to each step")


def fields(result: RunResult) -> dict[str, Any]:
    """For programs."""
    return {"id": result.id, "state": result.state, "output": result.output, "steps": result.steps}


def leave(states: list[RunState]) -> None:
    """A failure counts most, then what was stopped."""
    codes = {EXIT_CODES[state] for state in states} - {0}
    if codes:
        raise typer.Exit(min(codes))


def still_running(id_: UUID, state: RunState, patience: timedelta | None) -> None:
    waited = duration.text(patience or timedelta())
    note(f"run {id_} is still {state} after {waited} and goes on; wait again with: windlass runs wait {id_}")


def interrupted(ids: list[UUID]) -> typer.Exit:
    """Ctrl-C ends the looking, not the runs."""
    if ids:
        some = " ".join(map(str, ids[:10]))
        note(f"\nno longer watching; the {'run goes' if len(ids) == 1 else 'runs go'} on. To look again, or to stop:")
        for command in (f"runs wait {some}", f"explain {ids[0]}", f"runs cancel {some}"):
            note(f"  windlass {command}")
    return typer.Exit(INTERRUPTED)
