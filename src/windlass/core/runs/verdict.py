"""The end state of a run whose steps have all ended.

A failure is handled if a dependent, direct or reached only through skipped steps, ran because of a `failure` edge or an
`if`. A `complete` edge alone handles no failure. A run completes if every failure is handled or belongs to a step with
`allow_failure`.
"""

from collections.abc import Iterator

from windlass.core.runs.reason import Reason, unhandled
from windlass.core.runs.run import BAD, Letter, RunMove
from windlass.core.workflows.graph import Plan
from windlass.core.workflows.step import Condition


def verdict(plan: Plan, letters: str) -> tuple[RunMove, Reason | None]:
    """Return how the run ends, and why if it failed."""
    failures = [n for n, letter in enumerate(letters) if letter in BAD and not plan.steps[n].allow_failure]
    names = [plan.steps[n].name for n in failures if not handled(plan, letters, n)]
    return (RunMove.FAIL, unhandled(names)) if names else (RunMove.COMPLETE, None)


def handled(plan: Plan, letters: str, failure: int) -> bool:
    return next(handlers(plan, letters, failure), None) is not None


def handlers(plan: Plan, letters: str, failure: int) -> Iterator[int]:
    """Yield the steps that ran because of this failure."""
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
    """Return whether `child`, which ran, ran because of this failure.

    Only a direct `failure` edge counts: one to a skipped step in between was not met.
    """
    if plan.steps[child].condition is not None:
        return True
    return (failure, Condition.FAILURE) in plan.parents[child]
