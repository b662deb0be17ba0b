"""Does one thing to many objects, each by itself: one that fails does not stop the others, and is reported."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import typer

from windlass.cli.backend.interface import Backend
from windlass.cli.output import cell, note, say, show_json
from windlass.cli.runner import backend
from windlass.errors import WindlassError

T = TypeVar("T")


def each(
    things: Sequence[T], done: str, act: Callable[[Backend, T], Awaitable[None]], *, json: bool, key: str = "id"
) -> None:
    """Exit code 1 if any could not be done."""

    async def action(app: Backend) -> list[tuple[T, str | None]]:
        return [(thing, await _error(act(app, thing))) for thing in things]

    answers = backend(action)
    if json:
        show_json([{key: thing, done: error is None, "error": error} for thing, error in answers])
    for thing, error in answers if not json else ():
        note(cell(f"error: {error}")) if error else say(cell(f"{done} {thing}"))
    if any(error for _, error in answers):
        raise typer.Exit(1)


async def _error(act: Awaitable[None]) -> str | None:
    try:
        await act
    except WindlassError as error:
        return str(error)
    return None
