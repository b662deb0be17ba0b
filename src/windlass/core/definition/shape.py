"""Checks the steps of a document against each other: dependencies, cycles, the final step, the sources of fan-outs,
and the references of `if`s and templates."""

import re
from collections.abc import Mapping, Sequence, Set

from windlass.core.definition.fields import Mistakes, shown
from windlass.core.definition.references import check_references
from windlass.core.workflows.graph import Lineage, cycles
from windlass.core.workflows.step import Foreach, Parallel, Step

MAX_STEPS = 5000
MAX_EDGES = 5000  # per step
RUN_INPUT = ("input", "trigger")  # allowed instead of a step at the start of a path
LONGEST_CIRCLE = 20

_PATH = re.compile(r"[^.\s{}]+(?:\.[^.\s{}]+)*").fullmatch


def check_shape(steps: Sequence[Step], mistakes: Mistakes) -> None:
    named = {step.name: step for step in steps}
    if len(steps) > MAX_STEPS:
        mistakes.add("tasks", f"there are {len(steps)} steps, the limit is {MAX_STEPS}")
        return
    _check_final(steps, mistakes)
    for step in steps:
        _check_needs(step, named, mistakes)
    parents = _parents(steps)
    circles = cycles(parents)
    for circle in circles:
        mistakes.add(f"tasks.{circle[0]}.needs", f"the steps wait for each other: {_told(circle)}")
    lineage = None if circles else Lineage(parents)
    for step in steps:
        _check_source(step, named, lineage, mistakes)
    check_references(steps, lineage, mistakes)


def _check_final(steps: Sequence[Step], mistakes: Mistakes) -> None:
    finals = [step.name for step in steps if step.final]
    for name in finals[1:]:
        mistakes.add(f"tasks.{name}.final", f"{finals[0]!r} is the final step already: there can be one")


def _check_needs(step: Step, named: Mapping[str, Step], mistakes: Mistakes) -> None:
    path = f"tasks.{step.name}.needs"
    if len(step.edges) > MAX_EDGES:
        mistakes.add(path, f"there are {len(step.edges)} of them, the limit is {MAX_EDGES}")
    for parent in dict.fromkeys(edge.parent for edge in step.edges):
        if parent == step.name:
            mistakes.add(path, "the step needs itself")
        elif parent not in named:
            mistakes.unknown(path, "step", parent, named)
        elif named[parent].final:
            mistakes.add(path, f"{parent!r} is the final step: nothing can come after it")


def _parents(steps: Sequence[Step]) -> dict[str, Sequence[str]]:
    """Return the parents of each step, without invalid edges; all other steps are parents of the final step."""
    usual = [step.name for step in steps if not step.final]
    allowed = set(usual)
    return {step.name: usual if step.final else _others(step, allowed) for step in steps}


def _others(step: Step, allowed: Set[str]) -> list[str]:
    return [edge.parent for edge in step.edges if edge.parent in allowed and edge.parent != step.name]


def _told(circle: Sequence[str]) -> str:
    names = [*circle, circle[0]]
    if len(names) > LONGEST_CIRCLE:
        names = [*names[: LONGEST_CIRCLE // 2], "...", *names[-LONGEST_CIRCLE // 2 :]]
    return " -> ".join(names)


def _check_source(step: Step, named: Mapping[str, Step], lineage: Lineage | None, mistakes: Mistakes) -> None:
    match step.fan_out:
        case Parallel(str(source)):
            path = f"tasks.{step.name}.parallel"
        case Foreach(source):
            path = f"tasks.{step.name}.foreach"
        case _:
            return
    head = source.split(".", 1)[0]
    if not _PATH(source):
        mistakes.add(path, f"{shown(source)} is no path: write it like discover.files or input.files")
    elif head in RUN_INPUT:
        if head in named:
            mistakes.add(path, f"{head!r} is the run's input and also a step: give the step another name")
    elif head == "tasks" and head not in named:
        mistakes.add(path, f"the path of a fan-out begins with the step: write {_without_tasks(source)}")
    elif head not in named:
        mistakes.unknown(path, "step", head, [*named, *RUN_INPUT])
    elif lineage and not lineage.has(step.name, head):
        mistakes.add(path, f"{head!r} must have ended before: add it to `needs`")


def _without_tasks(source: str) -> str:
    """Return `tasks.a.body.files`, the notation of templates, as `a.files`."""
    _, *rest = source.split(".")
    return ".".join([*rest[:1], *rest[2 if rest[1:2] == ["body"] else 1 :]]) or "its name"
