"""A run while it goes on: a live tree on a terminal, a plain line a change in a pipe, nothing for programs.

All of it goes to standard error: standard output has the data.
"""

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

from windlass.cli.output import COLOURS, cell, note
from windlass.core import duration
from windlass.core.account import Account, StepAccount
from windlass.core.drawing_tree import MARKS, places
from windlass.core.remark import remark
from windlass.core.run import BAD, Letter
from windlass.errors import Unavailable
from windlass.runtime.handle import Run

PAUSE = 0.25
SHARE = 5  # looking takes a sixth of the time at most, however large the run is
ROOM = 4  # lines of a terminal that are not for steps


class Display(Protocol):
    def show(self, account: Account) -> None: ...


async def watch(run: Run, display: Display, patience: timedelta | None = None) -> Account:
    """Show each change until the run has ended or the patience is over. The last look; one at least is taken."""
    over = math.inf if patience is None else time.monotonic() + patience.total_seconds()
    end = asyncio.ensure_future(run.ended())
    try:
        while True:
            began = time.monotonic()
            account = await _look(run, display, last=began >= over)
            if account is not None and (began >= over or not account.is_live):
                return account
            if end.done():  # it ended, and somebody asked for it again
                end.result()
                end = asyncio.ensure_future(run.ended())
            now = time.monotonic()
            await asyncio.wait({end}, timeout=min(max(PAUSE, SHARE * (now - began)), max(over - now, 0)))
    finally:
        end.cancel()


async def _look(run: Run, display: Display, *, last: bool) -> Account | None:
    """None: the database is away and will be asked again."""
    try:
        account = await run.account()
    except Unavailable:
        if last:
            raise
        return None
    display.show(account)
    return account


@contextlib.contextmanager
def display(*, quiet: bool) -> Iterator[Display]:
    """What fits who looks on."""
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
    def show(self, account: Account) -> None:
        """Programs wait for the end."""


class Lines:
    """NAME: STATE, what is worth knowing."""

    def __init__(self) -> None:
        self._told: dict[int, str] = {}
        self._state = ""

    def show(self, account: Account) -> None:
        if account.state == "pending" and account.state != self._state:
            note("the run waits to begin")
        self._state = account.state
        for n, step in enumerate(account.steps):
            told = ", ".join(filter(None, [step.word, remark(step)]))
            if told != self._told.get(n, "waiting"):
                self._told[n] = told
                note(cell(f"{step.step.name}: {told}{self._time(account, step)}"))

    def _time(self, account: Account, step: StepAccount) -> str:
        took = step.took(account.now) if step.letter is not Letter.ACTIVE else None
        return f" ({duration.brief(took)})" if took is not None else ""


class Tree:
    """Drawn several times a second, so that clocks run between two looks."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._account: Account | None = None
        self._seen = 0.0

    def show(self, account: Account) -> None:
        self._account, self._seen = account, time.monotonic()

    def render(self) -> Group:
        account = self._account
        if account is None:
            return Group(Text("..."))
        since = timedelta(seconds=time.monotonic() - self._seen) if account.is_live else timedelta()
        return Group(_head(account, since), *_lines(account, since, self._console.height - ROOM))


def _head(account: Account, since: timedelta) -> Text:
    took = account.took
    head = Text(f"{cell(account.workflow.name)} version {account.version}  ", "bold", no_wrap=True)
    head.append(account.state, COLOURS.get(account.state, ""))
    if took is not None:
        head.append(f"  {duration.brief(took + since)}", "default")
    return head


def _lines(account: Account, since: timedelta, room: int) -> Iterator[Text]:
    """All steps if there is room; else those that matter most, and how many there are beside them."""
    shown = [(left, account.steps[n], n) for left, n, _ in places(account.workflow)]
    kept = {n for _, _, n in sorted(shown, key=lambda place: _rank(place[1]))[: max(room, 1)]}
    width = max(len(f"{left}{step.step.name}") for left, step, n in shown if n in kept)
    for left, step, n in shown:
        if n in kept:
            yield _line(left, step, account, since, width)
    if hidden := [step.word for _, step, n in shown if n not in kept]:
        counts = ", ".join(f"{hidden.count(word)} {word}" for word in dict.fromkeys(hidden))
        yield Text(f"… and {len(hidden)} more: {counts}", "dim")


def _line(left: str, step: StepAccount, account: Account, since: timedelta, width: int) -> Text:
    style = COLOURS.get(step.word, "")
    took = step.took(account.now)
    if took is not None and step.letter is Letter.ACTIVE:
        took += since
    line = Text(left, "dim", no_wrap=True, overflow="ellipsis")
    line.append(f"{MARKS[step.word]} ", style or "default")
    line.append(cell(step.step.name).ljust(width - len(left)), "default")
    line.append(f"  {step.word:<9}", style or "default")
    line.append(f"  {duration.brief(took) if took is not None else '':>6}", "default")
    line.append(f"  {cell(remark(step))}".rstrip(), "red" if step.letter in BAD else "dim")
    return line


def _rank(step: StepAccount) -> int:
    if step.letter is Letter.ACTIVE:
        return 0
    return 1 if step.letter in BAD else 2 if step.letter is Letter.WAITING else 3
