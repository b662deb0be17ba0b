"""The current activity of a step."""

from datetime import timedelta
from typing import Any

import pytest

from tests.unit.reference import node
from tests.unit.snapshots import NOW, SECOND, job
from windlass.core.explain.activity import Activity, StepActivity, activity_of
from windlass.core.explain.snapshot import Served, StepSnapshot
from windlass.core.launches import LaunchState
from windlass.core.runs.run import Fan, Letter, RunState
from windlass.core.workflows.step import ApprovalAction, ChildAction, EventAction, HookAction, Parallel, SleepAction

LATER = NOW + 5 * SECOND
HOUR = timedelta(hours=1)


def of(letter: str = "a", *, state: str = "running", action: Any = None, fan_out: Any = None, **known: Any) -> Any:
    made: dict[str, Any] = {} if action is None else {"action": action}
    step = node("s", fan_out=fan_out, **made)
    return activity_of(StepSnapshot(step=step, letter=Letter(letter), **known), RunState(state), NOW)


@pytest.mark.parametrize("letter", "sftkc")
def test_an_ended_step_has_no_activity(letter: str) -> None:
    assert of(letter, job=job("failed")) is None


def test_a_step_that_has_not_started_waits_for_its_run_or_for_other_steps() -> None:
    assert of(".", state="pending") == StepActivity(Activity.HELD)
    assert of(".") == StepActivity(Activity.WAITING_FOR_TASKS)


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ({"state": "leased"}, StepActivity(Activity.RUNNING)),
        ({"state": "leased", "stopping": True}, StepActivity(Activity.STOPPING)),
        ({"state": "leased", "launch": LaunchState.LAUNCHING}, StepActivity(Activity.LAUNCHING)),
        ({"state": "leased", "launch": LaunchState.RUNNING}, StepActivity(Activity.RUNNING)),
        ({"state": "leased", "launch": LaunchState.LOST}, StepActivity(Activity.LOST)),
        ({"state": "leased", "launch": LaunchState.LAUNCHING, "stopping": True}, StepActivity(Activity.STOPPING)),
        ({"state": "succeeded"}, StepActivity(Activity.RUNNING)),
        ({}, StepActivity(Activity.QUEUED)),
        ({"served": Served.NO_WORKER}, StepActivity(Activity.NO_WORKER)),
        ({"served": Served.PAUSED}, StepActivity(Activity.QUEUE_PAUSED)),
        ({"served": Served.OFF}, StepActivity(Activity.TYPE_DISABLED)),
        ({"served": Served.ELSEWHERE}, StepActivity(Activity.OTHER_RUNTIME)),
        ({"failures": 1, "due_at": LATER}, StepActivity(Activity.BACKING_OFF, LATER)),
        ({"failures": 1, "due_at": LATER, "served": Served.NO_WORKER}, StepActivity(Activity.NO_WORKER)),
        ({"failures": 1}, StepActivity(Activity.QUEUED)),
    ],
)
def test_the_activity_of_a_step_with_a_job_is_that_of_its_job(known: dict[str, Any], expected: StepActivity) -> None:
    assert of(job=job(**known)) == expected


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (SleepAction(HOUR), StepActivity(Activity.SLEEPING, LATER)),
        (HookAction(HOUR), StepActivity(Activity.WAITING_FOR_CALLBACK, LATER)),
        (EventAction("paid"), StepActivity(Activity.WAITING_FOR_MESSAGE, LATER)),
        (ApprovalAction("Ship it?"), StepActivity(Activity.WAITING_FOR_APPROVAL, LATER)),
        (ChildAction("other"), StepActivity(Activity.WAITING_FOR_CHILD)),
    ],
)
def test_a_step_without_a_job_reports_what_it_waits_for(action: Any, expected: StepActivity) -> None:
    assert of(action=action, wakes_at=LATER) == expected


def test_a_fanned_out_step_runs_while_a_worker_holds_one_of_its_instances() -> None:
    fan: dict[str, Any] = {"fan_out": Parallel(3), "fan": Fan(3, created=3), "job": job()}
    assert of(**fan) == StepActivity(Activity.QUEUED)
    assert of(**fan, busy=True) == StepActivity(Activity.RUNNING)
    assert of(**fan, busy=True, is_launching=True) == StepActivity(Activity.LAUNCHING)
