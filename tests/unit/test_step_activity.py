"""What an active step is doing or waiting for, and its summary in tables and trees."""

from typing import Any
from uuid import UUID

import pytest

from tests.unit.reference import node
from tests.unit.snapshots import ID, NOW, SECOND, job, run_snapshot
from windlass.core import duration
from windlass.core.approvals import Requested
from windlass.core.events.message import Awaited
from windlass.core.explain.activity import current_sentences, first_line, summary
from windlass.core.explain.snapshot import ChildSnapshot, Served
from windlass.core.launches import LaunchState
from windlass.core.runs.run import Fan, RunState
from windlass.core.workflows.step import Action, ApprovalAction, EventAction, HookAction, JobAction

OTHER = UUID(int=9)
JOB = JobAction("orders.load.v1")
HOUR = 3600 * SECOND


def child_run(count: int, live: int) -> ChildSnapshot:
    return ChildSnapshot(count=count, live=live, id=OTHER, state=RunState.RUNNING)


SITUATIONS: dict[str, tuple[Action, dict[str, Any], str, str]] = {
    "held": (JOB, {"job": job("leased", worker="w1")}, "Worker w1 has been running it, attempt 1 of 3.", ""),
    "held for a time": (
        JOB,
        {"job": job("leased", worker="w1"), "began_at": NOW - 5 * SECOND},
        "Worker w1 has been running it for 5.0s, attempt 1 of 3.",
        "",
    ),
    "stop requested": (
        JOB,
        {"job": job("leased", worker="w1", failures=1, stopping=True)},
        "Worker w1 has been running it, attempt 2 of 3 and was requested to stop.",
        "attempt 2 of 3, stop requested",
    ),
    "queued": (JOB, {"job": job()}, "Its job waits in queue default for a free worker.", ""),
    "no worker": (
        JOB,
        {"job": job(served=Served.NO_WORKER)},
        "No worker serves type orders.load.v1 in queue default: start one with `windlass worker MODULE:APP`, "
        "where APP has a handler for it.",
        "no worker serves orders.load.v1 in queue default",
    ),
    "no worker in a queue": (
        JOB,
        {"job": job(served=Served.NO_WORKER, queue="gpu")},
        "No worker serves type orders.load.v1 in queue gpu: start one with `windlass worker MODULE:APP --queue gpu`, "
        "where APP has a handler for it.",
        "no worker serves orders.load.v1 in queue gpu",
    ),
    "no worker for HTTP steps": (
        JOB,
        {"job": job(served=Served.NO_WORKER, type="windlass.http.v1", queue="windlass")},
        "No worker serves type windlass.http.v1 in queue windlass: start one with `windlass worker`, or `windlass up`.",
        "no worker serves windlass.http.v1 in queue windlass",
    ),
    "no worker for commands": (
        JOB,
        {"job": job(served=Served.NO_WORKER, type="windlass.command.v1", queue="windlass")},
        "No worker serves type windlass.command.v1 in queue windlass: start one with `windlass worker "
        "--allow-commands`: anyone who can deploy workflows can run programs there.",
        "no worker serves windlass.command.v1 in queue windlass",
    ),
    "no process for a pool": (
        JOB,
        {"job": job(served=Served.NO_WORKER, type="windlass.command.v1", queue="windlass.pool.gpu")},
        "No process offers pool gpu: start a worker whose WINDLASS_POOLS has gpu.",
        "no process offers pool gpu",
    ),
    "no slot of its pool": (
        JOB,
        {"job": job(type="windlass.command.v1", queue="windlass.pool.gpu")},
        "Its job waits for a free slot of pool gpu.",
        "",
    ),
    "waiting for its pool": (
        JOB,
        {
            "job": job("leased", launch=LaunchState.LAUNCHING, launch_text="waiting on gpu: no node has 4 GPUs"),
            "began_at": NOW - 5 * SECOND,
        },
        "Its job is waiting on gpu: no node has 4 GPUs (attempt 1 of 3, 5.0s).",
        "waiting on gpu: no node has 4 GPUs",
    ),
    "retry later in a paused queue": (
        JOB,
        {"job": job(failures=1, due_at=NOW + 65 * SECOND, error="no luck", served=Served.PAUSED)},
        "Attempt 1 of 3 failed: no luck. The next attempt starts at 2030-01-01 12:01:05Z, 1m5s from now. "
        "Queue default is paused: `windlass queues resume default`.",
        "queue default is paused",
    ),
    "type disabled": (
        JOB,
        {"job": job(served=Served.OFF)},
        "Type orders.load.v1 is disabled: set is_enabled of its row in workflow.workflow_registry.",
        "orders.load.v1 is disabled",
    ),
    "other runtime": (
        JOB,
        {"job": job(served=Served.ELSEWHERE, runtime="go")},
        "Its job waits in queue default for a go worker: orders.load.v1 is registered to it.",
        "",
    ),
    "retry later": (
        JOB,
        {"job": job(failures=1, due_at=NOW + 65 * SECOND, error="no luck")},
        "Attempt 1 of 3 failed: no luck. The next attempt starts at 2030-01-01 12:01:05Z, 1m5s from now.",
        "attempt 2 of 3 at 2030-01-01 12:01:05Z after: no luck",
    ),
    "job ended, run not updated yet": (
        JOB,
        {"job": job("succeeded")},
        "Its job is succeeded, and the run will be updated in a moment.",
        "",
    ),
    "sleeping": (
        JOB,
        {"wakes_at": NOW + 2 * HOUR},
        "It sleeps until 2030-01-01 14:00:00Z, 2h from now.",
        "until 2030-01-01 14:00:00Z",
    ),
    "sleep is over": (
        JOB,
        {"wakes_at": NOW},
        "It sleeps until 2030-01-01 12:00:00Z, any moment.",
        "until 2030-01-01 12:00:00Z",
    ),
    "callback": (HookAction(), {}, "It waits for a callback.", ""),
    "callback with a timeout": (
        HookAction(HOUR),
        {"wakes_at": NOW + HOUR},
        "It waits for a callback, until 2030-01-01 13:00:00Z at the latest.",
        "until 2030-01-01 13:00:00Z",
    ),
    "signal": (EventAction("paid"), {"awaited": Awaited("paid")}, "It waits for signal paid.", "for signal paid"),
    "events with a timeout": (
        EventAction("vote", "{{trigger.body.id}}", HOUR, 3),
        {"awaited": Awaited("vote", "42", 3, 1), "wakes_at": NOW + HOUR},
        "It waits for event vote, key 42 (1 of 3 received), until 2030-01-01 13:00:00Z at the latest.",
        "for event vote, key 42 (1 of 3 received), until 2030-01-01 13:00:00Z",
    ),
    "approval": (
        ApprovalAction("Ship it?"),
        {"awaited": Requested(["operator", "admin"], None)},
        "It waits for the approval of an operator or an admin.",
        "for the approval of an operator or an admin",
    ),
    "child run": (
        JOB,
        {"child": child_run(1, 1)},
        f"It waits for run {OTHER}, which is running: `windlass explain {OTHER}`.",
        f"run {OTHER} is running",
    ),
    "child runs": (
        JOB,
        {"child": child_run(5, 2)},
        f"It waits for its runs: 2 of 5 runs are active; one of them is running, `windlass explain {OTHER}`.",
        f"run {OTHER} is running",
    ),
    "fan-out": (
        JOB,
        {"fan": Fan(100, 14, 9, 1), "job": job("leased", worker="w1", item=12)},
        "10 of its 100 instances have ended, 1 failed; 4 are active, 86 have not started. "
        "Worker w1 has been running it, attempt 1 of 3.",
        "10/100, 1 failed",
    ),
    "fan-out without a worker": (
        JOB,
        {"fan": Fan(2, 2), "job": job(served=Served.NO_WORKER)},
        "0 of its 2 instances have ended; 2 are active. No worker serves type orders.load.v1 in queue default: "
        "start one with `windlass worker MODULE:APP`, where APP has a handler for it.",
        "0/2, no worker serves orders.load.v1 in queue default",
    ),
    "nothing known": (JOB, {}, "It is running.", ""),
}


@pytest.mark.parametrize(("action", "told", "sentences", "remarked"), SITUATIONS.values(), ids=SITUATIONS)
def test_an_active_step_is_described_in_sentences_and_in_a_summary(
    action: Action, told: dict[str, Any], sentences: str, remarked: str
) -> None:
    found = run_snapshot("a", node("a", action=action), tell_a=told)
    assert " ".join(current_sentences(found, found.steps[0])) == sentences
    assert summary(found.steps[0]) == remarked


@pytest.mark.parametrize(
    ("letter", "told", "remarked"),
    [
        (".", {}, ""),
        ("s", {"job": job("succeeded")}, ""),
        ("s", {"job": job("succeeded", failures=2)}, "attempt 3 of 3"),
        ("s", {"fan": Fan(3, 3, 3)}, "3/3"),
        ("f", {"reason": "boom", "job": job("failed")}, "boom"),
        ("f", {"job": job("failed", error="boom\ntrace")}, "boom"),
        ("f", {"fan": Fan(3, 3, 1, 2), "failed": job("failed", item=1, error="x")}, "3/3, 2 failed, number 1: x"),
        ("c", {"fan": Fan(3, 3, 1, 0, 2), "reason": "2 of 3 instances were cancelled"}, "3/3, 2 cancelled"),
        ("k", {"reason": "its `if` is false"}, "its `if` is false"),
        ("c", {}, ""),
    ],
)
def test_the_summary_of_an_ended_step_is_empty_unless_it_adds_information(
    letter: str, told: dict[str, Any], remarked: str
) -> None:
    assert summary(run_snapshot(letter, node("a"), tell_a=told).steps[0]) == remarked


@pytest.mark.parametrize(
    ("text", "line"), [("a.\nb", "a"), ("", "no reason was recorded"), (None, "no reason was recorded"), ("  x  ", "x")]
)
def test_an_error_is_reduced_to_its_first_line(text: str | None, line: str) -> None:
    assert first_line(text) == line


def test_a_long_error_is_truncated() -> None:
    assert len(first_line("x" * 1000)) == 300


@pytest.mark.parametrize(
    ("seconds", "text"), [(-1, "0ms"), (0.34, "340ms"), (3.21, "3.2s"), (9.96, "10.0s"), (14.4, "14s"), (125, "2m5s")]
)
def test_a_duration_is_shown_briefly(seconds: float, text: str) -> None:
    assert duration.brief(seconds * SECOND) == text


def test_a_skipped_or_waiting_step_has_no_duration() -> None:
    found = run_snapshot("k.", node("a"), node("b"), tell_a={"began_at": NOW})
    assert [step.took(NOW) for step in found.steps] == [None, None]
    assert found.id == ID
