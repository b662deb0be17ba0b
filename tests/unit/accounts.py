"""Accounts of runs in short, for tests of what people are told."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from windlass.core.account import Account, JobAccount, StepAccount
from windlass.core.job import JobState
from windlass.core.run import Letter, RunState
from windlass.core.step import Step
from windlass.core.workflow import Workflow

NOW = datetime(2030, 1, 1, 12, 0, tzinfo=UTC)
ID = UUID(int=7)
SECOND = timedelta(seconds=1)


def account(letters: str, *steps: Step, state: str = "running", concurrency: int | None = None, **more: Any) -> Account:
    """`tell_<step>={...}` says more about a step."""
    told = {name.removeprefix("tell_"): more.pop(name) for name in [*more] if name.startswith("tell_")}
    assert len(letters) == len(steps)
    known = [
        StepAccount(step=step, letter=Letter(letter), **told.get(step.name, {}))
        for step, letter in zip(steps, letters, strict=True)
    ]
    times = {"created_at": NOW - 90 * SECOND, "started_at": NOW - 90 * SECOND, "expires_at": NOW + 90 * SECOND}
    return Account(
        id=ID,
        workflow=Workflow(name="orders", steps=steps, concurrency=concurrency),
        version=2,
        state=RunState(state),
        now=NOW,
        steps=tuple(known),
        **{**times, **more},
    )


def job(state: str = "pending", **more: Any) -> JobAccount:
    plain = {"type": "orders.load.v1", "queue": "default", "failures": 0, "max_attempts": 3, "due_at": NOW - SECOND}
    return JobAccount(id=UUID(int=1), state=JobState(state), **{"item": 0, **plain, **more})
