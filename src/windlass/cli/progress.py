"""The progress of a run, on standard error: a live tree on a terminal, a line per change in a pipe."""

import asyncio
import contextlib
import math
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from windlass.cli.backend.interface import RunBackend, Seen, SeenStep
from windlass.cli.output import COLOURS, cell, note
from windlass.core import duration
from windlass.core.diagrams.tree import MARKS
from windlass.core.runs.run import BAD, Letter
from windlass.errors import Unavailable

PAUSE = 0.25  # seconds between two queries, at least
SHARE = 5  # and at least this many times the duration of a query, so that large runs are not queried all the time
ROOM = 4  # lines of a terminal that are not for steps


class Display(Protocol):
    def show(self, seen: Seen) -> None: ...


async def watch(run: RunBackend, display: Display, patience: timedelta | None = None) -> Seen:
    """Show each change until the run has ended or the patience is over; return its last state."""
    over = math.inf if patience is None else time.monotonic() + patience.total_seconds()
    end = asyncio.ensure_future(run.ended())
    try:
        while True:
            began = time.monotonic()
            seen = await _look(run, display, last=began >= over)
            if seen is not None and (began >= over or not seen.is_live):
                return seen
            if end.done():  # it ended and was retried
                end.result()
                end = asyncio.ensure_future(run.ended())
            now = time.monotonic()
            await asyncio.wait({end}, timeout=min(max(PAUSE, SHARE * (now - began)), max(over - now, 0)))
    finally:
        end.cancel()


async def _look(run: RunBackend, display: Display, *, last: bool) -> Seen | None:
    """Return the state of the run, None if the database is unavailable and this is not the last query."""
    try:
        seen = await run.seen()
    except Unavailable:
        if last:
            raise
        return None
    display.show(seen)
    return seen


@contextlib.contextmanager
def display(*, quiet: bool) -> Iterator[Display]:
    """Return the display for this kind of output."""
    console = Console(stderr=True, markup=False, highlight=False)
    if quiet:
        yield Nothing()
    elif not console.is_terminal or not sys.stderr.isatty():
        yield Lines()
    else:
        tree = Tree(console)
        with Live(console=console, get_renderable=tree.render, refresh_per_second=8, transient=False):
            yield tree


class Nothing:
    def show(self, seen: Seen) -> None:
        """Show nothing: programs wait for the result."""


class Lines:
    """Prints NAME: STATE, REMARK for each change of a step."""

    def __init__(self) -> None:
        self._lines: dict[int, str] = {}
        self._state = ""

    def show(self, seen: Seen) -> None:
        if seen.state == "pending" and seen.state != self._state:
            note("the run waits to start")
        self._state = seen.state
        for n, step in enumerate(seen.steps):
            line = ", ".join(filter(None, [step.word, step.remark]))
            if line != self._lines.get(n, "waiting"):
                self._lines[n] = line
                note(cell(f"{step.name}: {line}{self._time(step)}"))

    def _time(self, step: SeenStep) -> str:
        took = step.took if step.letter is not Letter.ACTIVE else None
        return f" ({duration.brief(took)})" if took is not None else ""


class Tree:
    """Is drawn several times a second, so that durations advance between two queries."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last: Seen | None = None
        self._at = 0.0

    def show(self, seen: Seen) -> None:
        self._last, self._at = seen, time.monotonic()

    def render(self) -> Group:
        seen = self._last
        if seen is None:
            return Group(Text("..."))
        since = timedelta(seconds=time.monotonic() - self._at) if seen.is_live else timedelta()
        return Group(_head(seen, since), *_lines(seen, since, self._console.height - ROOM))


def _head(seen: Seen, since: timedelta) -> Text:
    took = seen.took
    head = Text(f"{cell(seen.workflow)} version {seen.version}  ", "bold", no_wrap=True)
    head.append(seen.state, COLOURS.get(seen.state, ""))
    if took is not None:
        head.append(f"  {duration.brief(took + since)}", "default")
    return head


def _lines(seen: Seen, since: timedelta, room: int) -> Iterator[Text]:
    """Yield a line for each step that fits, the most important first, and one that counts the others."""
    shown = [(left, seen.steps[n], n) for left, n in seen.places]
    kept = {n for _, _, n in sorted(shown, key=lambda place: _rank(place[1]))[: max(room, 1)]}
    width = max(len(f"{left}{step.name}") for left, step, n in shown if n in kept)
    for left, step, n in shown:
        if n in kept:
            yield _line(left, step, since, width)
    if hidden := [step.word for _, step, n in shown if n not in kept]:
        counts = ", ".join(f"{hidden.count(word)} {word}" for word in dict.fromkeys(hidden))
        yield Text(f"… and {len(hidden)} more: {counts}", "dim")


def _line(left: str, step: SeenStep, since: timedelta, width: int) -> Text:
    style = COLOURS.get(step.word, "")
    took = step.took
    if took is not None and step.letter is Letter.ACTIVE:
        took += since
    line = Text(left, "dim", no_wrap=True, overflow="ellipsis")
    line.append(f"{MARKS[step.word]} ", style or "default")
    line.append(cell(step.name).ljust(width - len(left)), "default")
    line.append(f"  {step.word:<9}", style or "default")
    line.append(f"  {duration.brief(took) if took is not None else '':>6}", "default")
    line.append(f"  {cell(step.remark)}".rstrip(), "red" if step.letter in BAD else "dim")
    return line


def _rank(step: SeenStep) -> int:
    if step.letter is Letter.ACTIVE:
        return 0
    return 1 if step.letter in BAD else 2 if step.letter is Letter.WAITING else 3
