"""The rounds of a run: it is begun once, and once more with each retry and rerun. Its own lines of the trail tell."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from windlass.core.runs.run import RunState
from windlass.errors import Invalid

AGAIN = frozenset({"retried", "rerun"})
ENDS = frozenset(RunState) - {RunState.PENDING, RunState.RUNNING}


@dataclass(frozen=True, slots=True)
class Line:
    """Of the trail, about the run itself."""

    id: int
    word: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Round:
    """What is written from `first` on and before `following` belongs to it, and so does what was between `began_at` and
    `left_at`. None: to the end."""

    number: int
    state: RunState  # what became of it
    began_at: datetime
    ended_at: datetime | None
    first: int = 0
    following: int | None = None
    left_at: datetime | None = None


def rounds(
    lines: Sequence[Line], *, state: RunState, began_at: datetime, ended_at: datetime | None
) -> tuple[Round, ...]:
    """The first one first; the last one is as the run is."""
    found: list[Round] = []
    first, end = 0, (state, ended_at)
    for line in lines:
        if line.word in ENDS:
            end = (RunState(line.word), line.at)
        elif line.word in AGAIN:
            found.append(Round(len(found) + 1, end[0], began_at, end[1], first, line.id, line.at))
            first, began_at = line.id, line.at
    return (*found, Round(len(found) + 1, state, began_at, ended_at, first))


def of_number(known: Sequence[Round], number: int) -> Round:
    if not 1 <= number <= len(known):
        told = "it was never retried" if len(known) == 1 else f"it has {len(known)}"
        raise Invalid(f"attempt is {number}: the run has no such attempt, {told}", field="attempt")
    return known[number - 1]
