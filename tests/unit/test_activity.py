"""What a step is doing at this moment."""

from datetime import timedelta
from typing import Any

import pytest

from tests.unit.reference import node
from tests.unit.snapshots import NOW, SECOND, job
from windlass.core.explain.activity import Activity, Doing, doing
from windlass.core.explain.snapshot import Served, StepSnapshot
from windlass.core.runs.run import Fan, Letter, RunState
from windlass.core.workflows.step import ChildAction, HookAction, Parallel, SleepAction

LATER = NOW + 5 * SECOND
HOUR = timedelta(hours=1)


def of(letter: str = "a", *, state: str = "running", action: Any = None, fan_out: Any = None, **known: Any) -> Any:
    made: dict[str, Any] = {} if action is None else {"action": action}
    step = node("s", fan_out=fan_out, **made)
    return doing(StepSnapshot(step=step, letter=Letter(letter), **known), RunState(state), NOW)


@pytest.mark.parametrize("letter", "sftkc")
def test_a_step_that_has_ended_does_nothing(letter: str) -> None:
    assert of(letter, job=job("failed")) is None


def test_a_step_that_was_not_begun_waits_for_its_run_or_for_other_steps() -> None:
    assert of(".", state="pending") == Doing(Activity.HELD)
    assert of(".") == Doing(Activity.WAITING_FOR_TASKS)


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ({"state": "leased"}, Doing(Activity.RUNNING)),
        ({"state": "leased", "stopping": True}, Doing(Activity.STOPPING)),
        ({"state": "succeeded"}, Doing(Activity.RUNNING)),
        ({}, Doing(Activity.QUEUED)),
        ({"served": Served.NOBODY}, Doing(Activity.NO_WORKER)),
        ({"served": Served.PAUSED}, Doing(Activity.QUEUE_PAUSED)),
        ({"served": Served.OFF}, Doing(Activity.TYPE_DISABLED)),
        ({"served": Served.ELSEWHERE}, Doing(Activity.OTHER_RUNTIME)),
        ({"failures": 1, "due_at": LATER}, Doing(Activity.BACKING_OFF, LATER)),
        ({"failures": 1, "due_at": LATER, "served": Served.NOBODY}, Doing(Activity.NO_WORKER)),
        ({"failures": 1}, Doing(Activity.QUEUED)),
    ],
)
def test_a_step_with_a_job_does_what_its_job_does(known: dict[str, Any], expected: Doing) -> None:
    assert of(job=job(**known)) == expected


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (SleepAction(HOUR), Doing(Activity.SLEEPING, LATER)),
        (HookAction(HOUR), Doing(Activity.WAITING_FOR_CALLBACK, LATER)),
        (ChildAction("other"), Doing(Activity.WAITING_FOR_CHILD)),
    ],
)
def test_a_step_without_a_job_says_what_it_waits_for(action: Any, expected: Doing) -> None:
    assert of(action=action, wakes_at=LATER) == expected


def test_a_fanned_out_step_runs_while_a_worker_holds_one_of_its_instances() -> None:
    fan: dict[str, Any] = {"fan_out": Parallel(3), "fan": Fan(3, created=3), "job": job()}
    assert of(**fan) == Doing(Activity.QUEUED)
    assert of(**fan, busy=True) == Doing(Activity.RUNNING)
