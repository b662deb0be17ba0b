"""Loads what events about compositions need: the compositions themselves, and the jobs that the lines are about."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from windlass.core.workflows.step import ChildAction
from windlass.engine.database import Database
from windlass.engine.events.stream import Told
from windlass.store.ojs import compositions as store
from windlass.store.ojs.compositions import ToldInside, ToldJob, Who
from windlass.store.timers import StepRef

__all__ = ["Known", "StepRef", "ToldInside", "ToldJob", "Who", "known"]


@dataclass(frozen=True, slots=True)
class Known:
    runs: Mapping[UUID, Who] = field(default_factory=dict)
    jobs: Mapping[StepRef, ToldJob] = field(default_factory=dict)
    inside: Mapping[StepRef, ToldInside] = field(default_factory=dict)


NOBODY = Known()


async def known(db: Database, told: Sequence[Told]) -> Known:
    """Return what the lines of compositions need, read for all of them at once."""
    composed = [one for one in told if one.workflow is not None and one.workflow.primitive is not None]
    runs = sorted({one.line.run_id for one in composed if one.line.run_id is not None})
    if not runs:
        return NOBODY
    steps = [one for one in composed if not one.line.of_job and one.line.step is not None]
    inside = [_place(one) for one in steps if _is_inside(one)]
    jobs = {_place(one) for one in steps}.difference(inside)
    async with db.begin() as conn:
        return Known(
            await store.told(conn, runs),
            await store.told_jobs(conn, sorted(jobs)) if jobs else {},
            await store.told_inside(conn, sorted(set(inside))) if inside else {},
        )


def _is_inside(told: Told) -> bool:
    """Return whether a line is about a nested composition; a step unknown to the workflow costs only its own line."""
    steps = told.workflow.steps if told.workflow is not None else ()
    step = told.line.step
    return step is not None and step < len(steps) and isinstance(steps[step].action, ChildAction)


def _place(told: Told) -> StepRef:
    assert told.line.run_id is not None
    assert told.line.step is not None
    return told.line.run_id, told.line.step
