"""Shows the progress of a run: a live tree on a terminal, a line for each change in a pipe, nothing with --json.

It is written to standard error; standard output is for data.
"""

import asyncio
import contextlib
import math
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import timedelta
from typing import Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from windlass.cli.backend.interface import LETTERS, RunBackend, word
from windlass.cli.output import COLOURS, cell, note
from windlass.core import duration
from windlass.core.diagrams import MARKS, places
from windlass.core.runs.run import BAD, WORDS, Letter
from windlass.errors import NotFound, Unavailable
from windlass.schemas.runs import RunDetail
from windlass.schemas.tasks import Task

PAUSE = 0.25
SHARE = 5  # polling takes at most a sixth of the time, however large the run is
ROOM = 4  # lines of a terminal that are not for steps


class Display(Protocol):
    def show(self, run: RunDetail) -> None: ...


async def watch(run: RunBackend, display: Display, patience: timedelta | None = None) -> RunDetail:
    """Show each change until the run ends or `patience` expires, and return the run as last shown."""
    over = math.inf if patience is None else time.monotonic() + patience.total_seconds()
    end = asyncio.ensure_future(run.ended())
    try:
        while True:
            began = time.monotonic()
            detail = await _look(run, display, last=began >= over)
            if detail is not None and (began >= over or detail.has_ended):
                return detail
            if end.done():  # it ended, and has been retried since
                end.result()
                end = asyncio.ensure_future(run.ended())
            now = time.monotonic()
            await asyncio.wait({end}, timeout=min(max(PAUSE, SHARE * (now - began)), max(over - now, 0)))
    finally:
        end.cancel()


async def _look(run: RunBackend, display: Display, *, last: bool) -> RunDetail | None:
    """Poll the run and show it; return None if the database is unavailable and this is not the last poll."""
    try:
        detail = await run.detail()
    except Unavailable:
        if last:
            raise
        return None
    display.show(detail)
    return detail


@contextlib.asynccontextmanager
async def display(run: RunBackend, *, quiet: bool) -> AsyncIterator[Display]:
    """Yield the display that suits the standard error of this process."""
    console = Console(stderr=True, markup=False, highlight=False)
    if quiet:
        yield Nothing()
    elif not console.is_terminal or not sys.stderr.isatty():
        yield Lines()
    else:
        tree = Tree(console, await _branches(run))
        with Live(console=console, get_renderable=tree.render, refresh_per_second=8, transient=False):
            yield tree


async def _branches(run: RunBackend) -> Sequence[tuple[str, str]]:
    """Return the rows of the tree of a run: the branches drawn left of a step, and its name."""
    try:
        workflow = await run.definition()
    except NotFound:  # the workflow was deleted; its run continues
        return [("", task.name) for task in (await run.graph()).tasks]
    return [(left, workflow.steps[n].name) for left, n, _ in places(workflow)]


class Nothing:
    def show(self, run: RunDetail) -> None:
        """Show nothing: programs wait for the end."""


class Lines:
    """Prints a line for each change of a step, `NAME: STATE, SUMMARY`."""

    def __init__(self) -> None:
        self._printed: dict[str, str] = {}
        self._status = ""

    def show(self, run: RunDetail) -> None:
        if run.status == "pending" and run.status != self._status:
            note("the run is waiting to start")
        self._status = run.status
        for name, task in run.tasks.items():
            text = ", ".join(filter(None, [word(task.status), task.remark]))
            if text != self._printed.get(name, "waiting"):
                self._printed[name] = text
                took = _took(task) if LETTERS[task.status] is not Letter.ACTIVE else None
                note(cell(f"{name}: {text}" + (f" ({duration.brief(took)})" if took is not None else "")))


class Tree:
    """Rendered several times a second, so that elapsed times advance between polls."""

    def __init__(self, console: Console, branches: Sequence[tuple[str, str]]) -> None:
        self._console, self._branches = console, branches
        self._last: RunDetail | None = None
        self._at = 0.0

    def show(self, run: RunDetail) -> None:
        self._last, self._at = run, time.monotonic()

    def render(self) -> Group:
        run = self._last
        if run is None:
            return Group(Text("..."))
        since = timedelta() if run.has_ended else timedelta(seconds=time.monotonic() - self._at)
        return Group(_head(run, since), *self._lines(run, since))

    def _lines(self, run: RunDetail, since: timedelta) -> Iterator[Text]:
        """Yield a line for each step; if they do not fit, the most relevant ones and the number of the others."""
        room = max(self._console.height - ROOM, 1)
        kept = {name for _, name in sorted(self._branches, key=lambda branch: _rank(run.tasks[branch[1]]))[:room]}
        width = max(len(f"{left}{name}") for left, name in self._branches if name in kept)
        for left, name in self._branches:
            if name in kept:
                yield _line(left, name, run.tasks[name], since, width)
        if hidden := [word(run.tasks[name].status) for _, name in self._branches if name not in kept]:
            counts = ", ".join(f"{hidden.count(state)} {state}" for state in dict.fromkeys(hidden))
            yield Text(f"… and {len(hidden)} more: {counts}", "dim")


def _head(run: RunDetail, since: timedelta) -> Text:
    head = Text(f"{cell(run.workflow)} version {run.version}  ", "bold", no_wrap=True)
    head.append(run.status, COLOURS.get(run.status, ""))
    if run.duration_ms is not None:
        head.append(f"  {duration.brief(timedelta(milliseconds=run.duration_ms) + since)}", "default")
    return head


def _line(left: str, name: str, task: Task, since: timedelta, width: int) -> Text:
    letter, state, took = LETTERS[task.status], word(task.status), _took(task)
    style = COLOURS.get(state, "")
    if took is not None and letter is Letter.ACTIVE:
        took += since
    line = Text(left, "dim", no_wrap=True, overflow="ellipsis")
    line.append(f"{MARKS[WORDS[letter]]} ", style or "default")
    line.append(cell(name).ljust(width - len(left)), "default")
    line.append(f"  {state:<10}", style or "default")
    line.append(f"  {duration.brief(took) if took is not None else '':>6}", "default")
    line.append(f"  {cell(task.remark)}".rstrip(), "red" if letter in BAD else "dim")
    return line


def _rank(task: Task) -> int:
    letter = LETTERS[task.status]
    if letter is Letter.ACTIVE:
        return 0
    return 1 if letter in BAD else 2 if letter is Letter.WAITING else 3


def _took(task: Task) -> timedelta | None:
    return None if task.duration_ms is None else timedelta(milliseconds=task.duration_ms)
