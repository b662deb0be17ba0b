"""The rounds of a run, reconstructed from its event trail: the first start, then one for each retry and rerun."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from windlass.core.runs.run import RunState
from windlass.errors import Invalid

AGAIN = frozenset({"retried", "rerun"})
ENDS = frozenset(RunState) - {RunState.PENDING, RunState.RUNNING}


@dataclass(frozen=True, slots=True)
class Line:
    """An entry of the event trail about the run itself, not about a step."""

    id: int
    word: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Round:
    """One round: the events with `first <= id < following` and the spans with `began_at <= start < left_at`.

    An upper bound of None means no bound.
    """

    number: int
    state: RunState  # its end state, or the current state of the run
    began_at: datetime
    ended_at: datetime | None
    first: int = 0
    following: int | None = None
    left_at: datetime | None = None


def rounds(
    lines: Sequence[Line], *, state: RunState, began_at: datetime, ended_at: datetime | None
) -> tuple[Round, ...]:
    """Return the rounds in order; the last one has the current state of the run."""
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
