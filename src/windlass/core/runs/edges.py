"""The edges of a waiting step: whether it can start, must be skipped, or waits for its parents."""

from collections.abc import Callable, Mapping

from windlass.core.runs.reason import NONE_MET, Reason, unmet
from windlass.core.runs.run import BAD, OPEN, Letter
from windlass.core.workflows.graph import Plan
from windlass.core.workflows.step import Condition

MEETS: Mapping[Condition, frozenset[Letter]] = {
    Condition.SUCCESS: frozenset({Letter.SUCCEEDED}),
    Condition.FAILURE: BAD,
    Condition.SKIPPED: frozenset({Letter.SKIPPED}),
    Condition.COMPLETE: frozenset(Letter) - OPEN,
}


def readiness(plan: Plan, step: int, letter_of: Callable[[int], str]) -> bool | Reason:
    """Return whether the step can start now, or the reason why it never will and must be skipped."""
    return _any(plan, step, letter_of) if plan.any_join[step] else _every(plan, step, letter_of)


def _every(plan: Plan, step: int, letter_of: Callable[[int], str]) -> bool | Reason:
    """Decide once every parent has ended.

    The last parent is checked first: in a fan-in it usually ends last, and the scan of the others is saved.
    """
    edges = plan.parents[step]
    if edges and letter_of(edges[-1][0]) in OPEN:
        return False
    missed: tuple[int, Condition] | None = None
    for parent, condition in edges:
        letter = letter_of(parent)
        if letter in OPEN:
            return False
        if missed is None and letter not in MEETS[condition]:
            missed = (parent, condition)
    if missed is None:
        return True
    parent, condition = missed
    return unmet(plan.steps[parent].name, condition, letter_of(parent))


def _any(plan: Plan, step: int, letter_of: Callable[[int], str]) -> bool | Reason:
    """Start on the first met edge; a step with an `if` waits until all parents have ended."""
    eager = plan.steps[step].condition is None
    met = pending = False
    for parent, condition in plan.parents[step]:
        letter = letter_of(parent)
        met = met or letter in MEETS[condition]
        pending = pending or letter in OPEN
        if met and eager:
            return True
    if pending:
        return False
    return met or NONE_MET
