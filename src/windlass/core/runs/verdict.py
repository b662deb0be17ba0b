"""How a run ends once all its steps did.

A failure is handled when a dependent, direct or reached through skipped steps only, ran because of a `failure` edge or
an `if`. Every failure handled: completed. Finalizers on `complete` edges hide nothing. A step may be allowed to fail.
"""

from collections.abc import Iterator

from windlass.core.runs.plan import Plan
from windlass.core.runs.reason import Reason, unhandled
from windlass.core.runs.run import BAD, Letter, RunMove
from windlass.core.workflows.step import Condition


def verdict(plan: Plan, letters: str) -> tuple[RunMove, Reason | None]:
    """Return how the run ends, and why if it failed."""
    failures = [n for n, letter in enumerate(letters) if letter in BAD and not plan.steps[n].allow_failure]
    names = [plan.steps[n].name for n in failures if not handled(plan, letters, n)]
    return (RunMove.FAIL, unhandled(names)) if names else (RunMove.COMPLETE, None)


def handled(plan: Plan, letters: str, failure: int) -> bool:
    return next(handlers(plan, letters, failure), None) is not None


def handlers(plan: Plan, letters: str, failure: int) -> Iterator[int]:
    """The steps that ran on account of this failure."""
    seen, waiting = {failure}, [failure]
    while waiting:
        parent = waiting.pop()
        for child in plan.children[parent]:
            if child in seen:
                continue
            seen.add(child)
            if letters[child] == Letter.SKIPPED:
                waiting.append(child)
            elif letters[child] != Letter.CANCELLED and _because(plan, child, failure):
                yield child


def _because(plan: Plan, child: int, failure: int) -> bool:
    """Did `child`, which ran, run on account of this failure? An edge on a skipped step between them was not met."""
    if plan.steps[child].condition is not None:
        return True
    return (failure, Condition.FAILURE) in plan.parents[child]
