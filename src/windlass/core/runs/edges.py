"""Decides from the letters of steps whether a waiting step can start or must be skipped, and how the run ends."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from windlass.core.runs.run import BAD, OPEN, Letter, Reason, RunMove
from windlass.core.workflows.graph import Plan
from windlass.core.workflows.step import Condition

MEETS: Mapping[Condition, frozenset[Letter]] = {
    Condition.SUCCESS: frozenset({Letter.SUCCEEDED}),
    Condition.FAILURE: BAD,
    Condition.SKIPPED: frozenset({Letter.SKIPPED}),
    Condition.COMPLETE: frozenset(Letter) - OPEN,
}
MOST_NAMES = 5
STATE_WORDS = {
    ".": "waits",
    "a": "is active",
    "s": "succeeded",
    "f": "failed",
    "t": "timed out",
    "k": "was skipped",
    "c": "was cancelled",
}
CONDITION_WORDS = {"success": "to succeed", "failure": "to fail", "skipped": "to be skipped", "complete": "to end"}
NONE_MET = Reason("unmet", "none of its edges was met")


def readiness(plan: Plan, step: int, letter_of: Callable[[int], str]) -> bool | Reason:
    """Return whether the step can start now, or the reason why it never will and must be skipped."""
    return _any(plan, step, letter_of) if plan.any_join[step] else _every(plan, step, letter_of)


def _every(plan: Plan, step: int, letter_of: Callable[[int], str]) -> bool | Reason:
    """Decide an `all` join; False until every parent has ended.

    The last parent is checked first: in a fan-in it usually ends last, which saves scanning the other parents.
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
    required, state = CONDITION_WORDS[condition], STATE_WORDS[letter_of(parent)]
    return Reason("unmet", f"needs {plan.steps[parent].name} {required}, but it {state}")


def _any(plan: Plan, step: int, letter_of: Callable[[int], str]) -> bool | Reason:
    """Decide an `any` join: start on the first met edge; a step with an `if` waits until all parents have ended."""
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


def verdict(plan: Plan, letters: str) -> tuple[RunMove, Reason | None]:
    """Return the move that ends a run whose steps have all ended, and the reason if it failed.

    The run completes if every failure is handled or belongs to a step with `allow_failure`.
    """
    failures = [n for n, letter in enumerate(letters) if letter in BAD and not plan.steps[n].allow_failure]
    names = [plan.steps[n].name for n in failures if not any(True for _ in handlers(plan, letters, n))]
    if not names:
        return RunMove.COMPLETE, None
    subject = f"{'step' if len(names) == 1 else 'steps'} {join_names(names)}"
    return RunMove.FAIL, Reason("unhandled", f"{subject} failed and no step handled it")


def handlers(plan: Plan, letters: str, failure: int) -> Iterator[int]:
    """Yield the steps that handled this failure.

    A dependent, direct or reached only through skipped steps, handles it if it ran because of a `failure` edge or an
    `if`. A `complete` edge alone handles no failure.
    """
    seen, waiting = {failure}, [failure]
    while waiting:
        parent = waiting.pop()
        for child in plan.children[parent]:
            if child in seen:
                continue
            seen.add(child)
            if letters[child] == Letter.SKIPPED:
                waiting.append(child)
            elif letters[child] != Letter.CANCELLED and _ran_because_of(plan, child, failure):
                yield child


def _ran_because_of(plan: Plan, child: int, failure: int) -> bool:
    """Return whether `child`, which ran, ran because of this failure.

    Only a direct `failure` edge counts: one from a skipped step in between was not met.
    """
    if plan.steps[child].condition is not None:
        return True
    return (failure, Condition.FAILURE) in plan.parents[child]


def join_names(names: Sequence[str], glue: str = " and ") -> str:
    """Return "a, b and c"; for a long list only the first names and the number of the remaining ones."""
    if len(names) > MOST_NAMES + 1:
        names = [*names[:MOST_NAMES], f"{len(names) - MOST_NAMES} more"]
    return glue.join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)
