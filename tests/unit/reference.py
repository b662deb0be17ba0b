"""A reference implementation of the results of a run, simple enough to be checked by reading.

It is written from the rules and shares only the definition of a step with `decide`: it iterates over all steps until
each has a result. It has no order, no counters and no commands.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from windlass.core.workflows.step import Action, Condition, Edge, JobAction, Join, Step

FAILURES = "ftc"
RESULTS_THAT_MEET = {"success": "s", "failure": FAILURES, "skipped": "k", "complete": "sftck"}


def node(name: str, *needs: str, action: Action | None = None, **more: Any) -> Step:
    """Return a step: `node("d", "a", "b:failure")` needs a to succeed and b to fail."""
    edges = (need.partition(":") for need in needs)
    asked = tuple(Edge(parent, Condition(condition or "success")) for parent, _, condition in edges)
    return Step(name=name, action=action or JobAction(f"test.{name}.v1"), edges=asked, **more)


@dataclass(frozen=True)
class World:
    """The outcomes of all steps and conditions, for those that are executed."""

    outcomes: Mapping[str, Sequence[str]]  # a letter for each instance; one for a step without fan-out
    truths: Mapping[str, bool]  # the values of the `if`s, by step
    sizes: Mapping[str, int | None]  # numbers of instances; None: the expansion fails


def results(
    steps: Sequence[Step], world: World, *, kept: Mapping[str, str] | None = None, forced: Collection[str] = ()
) -> dict[str, str]:
    """Return the letter of every step. `kept` are results of an earlier round; `forced` steps ignore their edges."""
    known = dict(kept or {})
    while len(known) < len(steps):
        told = len(known)
        for step in steps:
            if step.name not in known and (step.name in forced or settled(step, steps, known)):
                wanted = step.name in forced or step.final or edges_met(step, known)
                known[step.name] = result(step, world) if wanted else "k"
        assert len(known) > told, "the reference hangs"
    return known


def settled(step: Step, steps: Sequence[Step], known: Mapping[str, str]) -> bool:
    """Return whether no later result can change whether the step runs."""
    if step.final:
        return all(other.name in known for other in steps if other.name != step.name)
    return all(edge.parent in known for edge in step.edges)


def edges_met(step: Step, known: Mapping[str, str]) -> bool:
    met = [known[edge.parent] in RESULTS_THAT_MEET[edge.condition] for edge in step.edges]
    return any(met) or not met if step.join is Join.ANY else all(met)


def result(step: Step, world: World) -> str:
    if step.condition is not None and not world.truths[step.name]:
        return "k"
    if step.fan_out is None:
        return world.outcomes[step.name][0]
    size = world.sizes[step.name]
    if size is None:
        return "f"
    ends = set(world.outcomes[step.name][:size])
    return "f" if ends & {"f", "t"} else "c" if "c" in ends else "s"


def verdict(steps: Sequence[Step], known: Mapping[str, str]) -> str:
    failures = [step.name for step in steps if known[step.name] in FAILURES]
    return "completed" if all(handled(steps, known, failure) for failure in failures) else "failed"


def handled(steps: Sequence[Step], known: Mapping[str, str], failure: str) -> bool:
    """Return whether a step handled a failure: by a `failure` edge on it, or by an `if` behind skipped steps only."""
    reached = {failure}
    for _ in steps:
        reached |= {step.name for step in steps if known[step.name] == "k" and parents(step) & reached}
    return any(
        (step.condition is not None and parents(step) & reached) or Edge(failure, Condition.FAILURE) in step.edges
        for step in steps
        if known[step.name] in "sft"
    )


def parents(step: Step) -> set[str]:
    return {edge.parent for edge in step.edges}


def descendants(steps: Sequence[Step], name: str) -> set[str]:
    """Return a step and all steps after it; a final step is after all others."""
    found = {name} | {step.name for step in steps if step.final}
    for _ in steps:
        found |= {step.name for step in steps if parents(step) & found}
    return found
