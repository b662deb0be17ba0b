"""Snapshots of runs for tests of explanations."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from windlass.core.explain.snapshot import JobSnapshot, RunSnapshot, StepSnapshot
from windlass.core.jobs.job import JobState
from windlass.core.runs.run import Letter, RunState
from windlass.core.workflows.step import Step
from windlass.core.workflows.workflow import Workflow

NOW = datetime(2030, 1, 1, 12, 0, tzinfo=UTC)
ID = UUID(int=7)
SECOND = timedelta(seconds=1)


def run_snapshot(
    letters: str, *steps: Step, state: str = "running", concurrency: int | None = None, **more: Any
) -> RunSnapshot:
    """Return a snapshot of a run with these letters; `tell_<step>={...}` has further fields of a step."""
    told = {name.removeprefix("tell_"): more.pop(name) for name in [*more] if name.startswith("tell_")}
    assert len(letters) == len(steps)
    known = [
        StepSnapshot(step=step, letter=Letter(letter), **told.get(step.name, {}))
        for step, letter in zip(steps, letters, strict=True)
    ]
    times = {"created_at": NOW - 90 * SECOND, "started_at": NOW - 90 * SECOND, "expires_at": NOW + 90 * SECOND}
    return RunSnapshot(
        id=ID,
        workflow=Workflow(name="orders", steps=steps, concurrency=concurrency),
        version=2,
        state=RunState(state),
        now=NOW,
        steps=tuple(known),
        **{**times, **more},
    )


def job(state: str = "pending", **more: Any) -> JobSnapshot:
    plain = {"type": "orders.load.v1", "queue": "default", "failures": 0, "max_attempts": 3, "due_at": NOW - SECOND}
    return JobSnapshot(id=UUID(int=1), state=JobState(state), **{"item": 0, **plain, **more})
