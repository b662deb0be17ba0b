"""Determines the steps that a retry or a rerun runs again, and moves a run to another version of its workflow.

A run may continue with another version if the steps that it keeps are the same there: name, action, edges, `if` and
fan-out. Steps that run again may have changed, and steps may have been added or removed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from windlass.core.runs.edges import join_names
from windlass.core.runs.run import BAD, Letter, Restart, Run, first_letters
from windlass.core.workflows.graph import Plan
from windlass.core.workflows.step import Step
from windlass.core.workflows.workflow import Workflow
from windlass.errors import Conflict, Invalid
from windlass.schemas.runs import RestartPreview


@dataclass(frozen=True, slots=True)
class Carried:
    """A run moved to another version. `numbers` maps old step numbers to new ones; `gone` has the removed steps."""

    run: Run
    version_id: int
    restart: Restart
    numbers: Mapping[int, int]
    gone: Sequence[int]
    preview: RestartPreview


def steps_again(plan: Plan, letters: str, restart: Restart) -> set[int]:
    """Return the steps that a retry or a rerun runs again, without compensations.

    Undone steps and all their descendants are included: the effects of undone steps no longer exist.
    """
    undone = {step for step, by in plan.undo.items() if letters[by] == Letter.SUCCEEDED}
    again = undone | plan.descendants(undone) if undone else set[int]()
    if restart.step is not None:
        return again | {restart.step} | plan.descendants([restart.step])
    bad = {step for step, letter in enumerate(letters) if letter in BAD or letter == Letter.SKIPPED}
    return again | bad - plan.compensations


def preview(run: Run, restart: Restart) -> RestartPreview:
    """Return the preview of a retry or a rerun on the same version."""
    again, own = steps_again(run.plan, run.letters, restart), _own(run.plan)
    kept = [run.plan.steps[n].name for n in own if n not in again]
    return RestartPreview(kept=kept, again=[run.plan.steps[n].name for n in own if n in again], new=[], gone=[])


def preview_text(preview: RestartPreview) -> str:
    parts = {"kept": preview.kept, "again": preview.again, "new": preview.new, "gone": preview.gone}
    return "; ".join(f"{word}: {join_names(names)}" for word, names in parts.items() if names)


def carry_over(run: Run, version_id: int, new: Workflow, restart: Restart) -> Carried:
    """Return the run on another version; raise `Conflict` if a step is active, or a kept step differs there."""
    old, plan = run.plan, new.plan
    active = [old.steps[n].name for n, letter in enumerate(run.letters) if letter == Letter.ACTIVE]
    if active:
        raise Conflict(f"the run has active steps ({join_names(active)}): wait for their end before changing versions")
    again = steps_again(old, run.letters, restart)
    own = _own(old)
    kept = [n for n in own if n not in again]
    if changed := [name for n in kept if (name := old.steps[n].name) and not _same(old.steps[n], plan)]:
        raise Conflict(
            f"the live version differs in {join_names(changed)}, which the run has finished: retry without the live "
            "version, rerun from a step before, or start a new run"
        )
    if restart.step is not None and old.steps[restart.step].name not in plan.number:
        raise Invalid(f"the live version has no step {old.steps[restart.step].name!r}: rerun another", field="step")
    numbers = {n: plan.number[step.name] for n, step in enumerate(old.steps) if step.name in plan.number}
    names = {step.name for step in old.steps}
    letters = list(first_letters(plan))
    for n, number in numbers.items():
        letters[number] = run.letters[n]
    for n in again & numbers.keys():
        if run.letters[n] == Letter.SUCCEEDED and n in old.undo and numbers[n] not in plan.undo:
            letters[numbers[n]] = Letter.CANCELLED  # it was undone by a compensation that is gone: it must run again
    order = [numbers[n] for n in run.undo.order if n in numbers and numbers[n] in plan.undo]
    first = [numbers[n] for n in kept if run.letters[n] == Letter.SUCCEEDED and numbers[n] in plan.undo]
    carried = Run(
        plan,
        run.state,
        "".join(letters),
        {numbers[n]: fan for n, fan in run.fans.items() if n in numbers and _same(old.steps[n], plan)},
        replace(run.undo, order=(*(n for n in first if n not in order), *order)),
    )
    return Carried(
        carried,
        version_id,
        Restart(None if restart.step is None else numbers[restart.step]),
        numbers,
        [n for n in range(len(old.steps)) if n not in numbers],
        RestartPreview(
            kept=[old.steps[n].name for n in kept],
            again=[old.steps[n].name for n in own if n in again and n in numbers],
            new=[plan.steps[n].name for n in _own(plan) if plan.steps[n].name not in names],
            gone=[old.steps[n].name for n in own if n not in numbers],
        ),
    )


def _own(plan: Plan) -> list[int]:
    return [n for n in range(len(plan.steps)) if n not in plan.compensations]


def _same(step: Step, plan: Plan) -> bool:
    number = plan.number.get(step.name)
    return number is not None and _essence(plan.steps[number]) == _essence(step)


def _essence(step: Step) -> tuple[Any, ...]:
    """Return the fields that determine the result of a step. Attempts, time limits and the compensation may change."""
    return (step.action, step.edges, step.join, step.condition, step.fan_out, step.final)
