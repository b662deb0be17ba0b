"""What an active step is waiting for, and the short remark about it in tables and trees."""

from typing import Any
from uuid import UUID

import pytest

from tests.unit.reference import node
from tests.unit.snapshots import ID, NOW, SECOND, account, job
from windlass.core import duration
from windlass.core.approvals import Requested
from windlass.core.events.message import Awaited
from windlass.core.explain.activity import current_sentences, first_line, summary
from windlass.core.explain.snapshot import ChildSnapshot, Served
from windlass.core.launches import LaunchState
from windlass.core.runs.run import Fan, RunState
from windlass.core.workflows.step import Action, ApprovalAction, EventAction, HookAction, JobAction

BELOW = UUID(int=9)
JOB = JobAction("orders.load.v1")
HOUR = 3600 * SECOND


def run_below(count: int, live: int) -> ChildSnapshot:
    return ChildSnapshot(count=count, live=live, id=BELOW, state=RunState.RUNNING)


SITUATIONS: dict[str, tuple[Action, dict[str, Any], str, str]] = {
    "held": (JOB, {"job": job("leased", worker="w1")}, "Worker w1 has been running it, attempt 1 of 3.", ""),
    "held for a time": (
        JOB,
        {"job": job("leased", worker="w1"), "began_at": NOW - 5 * SECOND},
        "Worker w1 has been running it for 5.0s, attempt 1 of 3.",
        "",
    ),
    "asked to stop": (
        JOB,
        {"job": job("leased", worker="w1", failures=1, stopping=True)},
        "Worker w1 has been running it, attempt 2 of 3 and was asked to stop.",
        "attempt 2 of 3, asked to stop",
    ),
    "in line": (JOB, {"job": job()}, "Its job waits in queue default for a free worker.", ""),
    "nobody": (
        JOB,
        {"job": job(served=Served.NO_WORKER)},
        "No worker serves type orders.load.v1 in queue default: start one with `windlass worker MODULE:APP`, "
        "where APP has a handler for it.",
        "no worker serves orders.load.v1 in queue default",
    ),
    "nobody in a queue": (
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
    "tried again later by nobody": (
        JOB,
        {"job": job(failures=1, due_at=NOW + 65 * SECOND, error="no luck", served=Served.PAUSED)},
        "Attempt 1 of 3 failed: no luck. The next attempt starts at 2030-01-01 12:01:05Z, 1m5s from now. "
        "Queue default is paused: `windlass queues resume default`.",
        "queue default is paused",
    ),
    "off": (
        JOB,
        {"job": job(served=Served.OFF)},
        "Type orders.load.v1 is switched off: set is_enabled of its row in workflow.workflow_registry.",
        "orders.load.v1 is switched off",
    ),
    "elsewhere": (
        JOB,
        {"job": job(served=Served.ELSEWHERE, runtime="go")},
        "Its job waits in queue default for a go worker: orders.load.v1 is registered to it.",
        "",
    ),
    "tried again later": (
        JOB,
        {"job": job(failures=1, due_at=NOW + 65 * SECOND, error="no luck")},
        "Attempt 1 of 3 failed: no luck. The next attempt starts at 2030-01-01 12:01:05Z, 1m5s from now.",
        "attempt 2 of 3 at 2030-01-01 12:01:05Z after: no luck",
    ),
    "not heard of": (
        JOB,
        {"job": job("succeeded")},
        "Its job is succeeded, and the run will be updated in a moment.",
        "",
    ),
    "asleep": (
        JOB,
        {"wakes_at": NOW + 2 * HOUR},
        "It sleeps until 2030-01-01 14:00:00Z, 2h from now.",
        "until 2030-01-01 14:00:00Z",
    ),
    "awake any moment": (
        JOB,
        {"wakes_at": NOW},
        "It sleeps until 2030-01-01 12:00:00Z, any moment.",
        "until 2030-01-01 12:00:00Z",
    ),
    "callback": (HookAction(), {}, "It waits for a callback.", ""),
    "callback with an end": (
        HookAction(HOUR),
        {"wakes_at": NOW + HOUR},
        "It waits for a callback, until 2030-01-01 13:00:00Z at the latest.",
        "until 2030-01-01 13:00:00Z",
    ),
    "signal": (EventAction("paid"), {"awaited": Awaited("paid")}, "It waits for signal paid.", "for signal paid"),
    "events with an end": (
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
    "a run": (
        JOB,
        {"child": run_below(1, 1)},
        f"It waits for run {BELOW}, which is running: `windlass explain {BELOW}`.",
        f"run {BELOW} is running",
    ),
    "runs": (
        JOB,
        {"child": run_below(5, 2)},
        f"It waits for its runs: 2 of 5 runs are active; one of them is running, `windlass explain {BELOW}`.",
        f"run {BELOW} is running",
    ),
    "fan-out": (
        JOB,
        {"fan": Fan(100, 14, 9, 1), "job": job("leased", worker="w1", item=12)},
        "10 of its 100 instances have ended, 1 failed; 4 are active, 86 have not started. "
        "Worker w1 has been running it, attempt 1 of 3.",
        "10/100, 1 failed",
    ),
    "fan-out that nobody serves": (
        JOB,
        {"fan": Fan(2, 2), "job": job(served=Served.NO_WORKER)},
        "0 of its 2 instances have ended; 2 are active. No worker serves type orders.load.v1 in queue default: "
        "start one with `windlass worker MODULE:APP`, where APP has a handler for it.",
        "0/2, no worker serves orders.load.v1 in queue default",
    ),
    "nothing known": (JOB, {}, "It is running.", ""),
}


@pytest.mark.parametrize(("action", "told", "sentences", "remarked"), SITUATIONS.values(), ids=SITUATIONS)
def test_an_active_step_says_what_it_waits_for(
    action: Action, told: dict[str, Any], sentences: str, remarked: str
) -> None:
    found = account("a", node("a", action=action), tell_a=told)
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
def test_an_ended_step_is_remarked_on_only_where_that_helps(letter: str, told: dict[str, Any], remarked: str) -> None:
    assert summary(account(letter, node("a"), tell_a=told).steps[0]) == remarked


@pytest.mark.parametrize(
    ("text", "line"), [("a.\nb", "a"), ("", "no reason was recorded"), (None, "no reason was recorded"), ("  x  ", "x")]
)
def test_an_error_goes_into_a_sentence_as_one_line(text: str | None, line: str) -> None:
    assert first_line(text) == line


def test_a_long_error_is_cut() -> None:
    assert len(first_line("x" * 1000)) == 300


@pytest.mark.parametrize(
    ("seconds", "text"), [(-1, "0ms"), (0.34, "340ms"), (3.21, "3.2s"), (9.96, "10.0s"), (14.4, "14s"), (125, "2m5s")]
)
def test_how_long_something_took(seconds: float, text: str) -> None:
    assert duration.brief(seconds * SECOND) == text


def test_a_step_that_never_began_took_no_time() -> None:
    found = account("k.", node("a"), node("b"), tell_a={"began_at": NOW})
    assert [step.took(NOW) for step in found.steps] == [None, None]
    assert found.id == ID
