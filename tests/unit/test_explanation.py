"""Why a run is in its state: the sentences for each situation."""

from typing import Any
from uuid import UUID

import pytest

from tests.unit.reference import node
from tests.unit.snapshots import ID, NOW, SECOND, job, run_snapshot
from windlass.core.explain.explanation import explain
from windlass.core.explain.snapshot import ChildSnapshot, RunSnapshot
from windlass.core.runs.run import Fan, RunState
from windlass.core.workflows.step import ChildAction, Join, SleepAction

OTHER = UUID(int=9)


def step(found: RunSnapshot, name: str) -> str:
    return next(" ".join(one.sentences) for one in explain(found).steps if one.step == name)


def run(found: RunSnapshot) -> str:
    return " ".join(explain(found).run)


# Why a step ran


def test_a_root_step_is_explained_by_the_start_of_the_run() -> None:
    found = run_snapshot("s", node("a"), state="completed")
    assert step(found, "a") == "It needs no other step and started with the run. It succeeded."


@pytest.mark.parametrize(
    ("letters", "needs", "more", "told"),
    [
        ("ss.", ["a"], {}, "It ran because a succeeded."),
        ("ss.", ["a", "b"], {}, "It ran because a succeeded and b succeeded."),
        ("sf.", ["a", "b:failure"], {}, "It ran because a succeeded and b failed."),
        ("tk.", ["a:complete", "b:skipped"], {}, "It ran because a ended (it timed out) and b was skipped."),
        ("sf.", ["a", "b"], {"join": Join.ANY}, "It ran because a succeeded (one of its edges is enough)."),
        ("fs.", ["a:complete"], {}, "It ran because a ended (it failed)."),
        (
            "fs.",
            ["a:complete"],
            {"condition": "failure()"},
            "It ran because a ended (it failed), and its `if` was true (because).",
        ),
        (
            "fs.",
            [],
            {"condition": "true"},
            "It needs no other step and started with the run, and its `if` was true (because).",
        ),
        ("fs.", [], {"final": True}, "It is the final step: it ran once all others had ended."),
        ("fs.", ["a"], {}, "It ran because a rerun was requested (rerun, from step c)."),
    ],
)
def test_a_step_that_ran_names_the_parents_whose_edges_were_met(
    letters: str, needs: list[str], more: dict[str, Any], told: str
) -> None:
    held = {"held": "because"} if "condition" in more else {}
    steps = [node("a"), node("b"), node("c", *needs, **more)]
    found = run_snapshot(
        letters[:2] + "s", *steps, state="failed", tell_c=held, last_restart="rerun, from step c" if not held else None
    )
    assert step(found, "c").startswith(told)


# Why a step waits


@pytest.mark.parametrize(
    ("letters", "needs", "more", "told"),
    [
        ("a.", ["a"], {}, "It waits for a to succeed (it is active)."),
        ("s.", ["a", "b:failure"], {}, "It waits for b to fail (it waits)."),
        ("a.", ["a", "b:skipped"], {}, "It waits for a to succeed (it is active) and b to be skipped (it waits)."),
        ("a.", ["a", "b"], {"join": Join.ANY}, "It waits for a to succeed (it is active) or b to succeed (it waits)."),
        (
            "a.",
            ["a:complete"],
            {"condition": "x"},
            "It waits for a to end (it is active); then its `if` is evaluated.",
        ),
        ("a.", [], {"final": True}, "It is the final step and waits for all others to end: a and b have not."),
        ("as", [], {"final": True}, "It is the final step and waits for all others to end: a has not."),
    ],
)
def test_a_waiting_step_names_the_steps_it_waits_for(
    letters: str, needs: list[str], more: dict[str, Any], told: str
) -> None:
    assert step(run_snapshot(letters + ".", node("a"), node("b"), node("c", *needs, **more)), "c") == told


def test_a_long_list_of_names_is_shortened_to_a_count() -> None:
    roots = [node(f"r{n}") for n in range(9)]
    found = run_snapshot("a" * 9 + ".", *roots, node("end", final=True))
    assert step(found, "end").endswith("r0, r1, r2, r3, r4 and 4 more have not.")


def test_the_steps_of_a_pending_run_wait_for_its_start() -> None:
    assert step(run_snapshot(".", node("a"), state="pending"), "a") == "It waits for the run to start."


# How a step ended


def test_a_skipped_step_shows_its_stored_reason() -> None:
    reason = "needs a to fail, but it succeeded"
    found = run_snapshot("sk", node("a"), node("b", "a:failure"), tell_b={"reason": reason})
    assert step(found, "b") == f"It was skipped: {reason}."


def test_a_success_shows_its_duration_and_its_attempts() -> None:
    times = {"began_at": NOW - 5 * SECOND, "ended_at": NOW - 2 * SECOND}
    found = run_snapshot("s", node("a"), tell_a={**times, "job": job("succeeded", failures=1, error="no luck.\ntrace")})
    assert step(found, "a").endswith("It succeeded in 3.0s, at attempt 2 of 3; the one before failed: no luck.")


def test_a_completed_sleep_shows_its_defined_duration() -> None:
    assert step(run_snapshot("s", node("a", action=SleepAction(30 * SECOND))), "a").endswith("It succeeded in 30s.")


def test_an_empty_fan_out_is_a_success_with_a_reason() -> None:
    found = run_snapshot("s", node("a"), tell_a={"reason": "there was nothing to fan out over"})
    assert step(found, "a").endswith("It succeeded: there was nothing to fan out over.")


def test_a_successful_fan_out_shows_the_number_of_its_instances() -> None:
    found = run_snapshot("s", node("a"), tell_a={"fan": Fan(3, 3, 3)})
    assert step(found, "a").endswith("All of its 3 instances succeeded.")


def test_a_failure_shows_its_error_its_attempts_and_the_command_for_its_log() -> None:
    found = run_snapshot("f", node("a"), state="failed", tell_a={"reason": "boom", "job": job("failed", failures=3)})
    assert step(found, "a").endswith(
        f"It failed: boom. It was tried 3 times. Its log: `windlass runs logs {ID} --step a`. "
        "No step handled this failure."
    )


def test_a_failure_with_unused_attempts_shows_how_many_were_possible() -> None:
    found = run_snapshot("f", node("a"), state="failed", tell_a={"reason": "boom", "job": job("failed", failures=1)})
    assert "It was tried once of 3 possible." in step(found, "a")


def test_a_step_that_could_not_start_shows_its_error_without_attempts() -> None:
    found = run_snapshot("f", node("a"), state="failed", tell_a={"reason": "tasks.x.body has no 'files'"})
    assert step(found, "a").endswith("It failed: tasks.x.body has no 'files'. No step handled this failure.")


def test_a_timeout_is_reported_as_a_timeout() -> None:
    found = run_snapshot("t", node("a"), state="failed", tell_a={"reason": "took longer than 5s", "job": job("failed")})
    assert "It timed out: took longer than 5s." in step(found, "a")


def test_a_failed_fan_out_shows_its_counts_and_the_first_failed_instance() -> None:
    told = {"fan": Fan(100, 100, 97, 3), "failed": job("failed", item=7, error="bad item")}
    text = step(run_snapshot("f", node("a"), state="failed", tell_a=told), "a")
    assert "It failed: 3 of 100 instances failed and 97 succeeded. The first is number 7: bad item." in text
    assert f"windlass runs logs {ID} --step a --index 7" in text


def test_a_failed_child_run_is_named_with_the_command_that_explains_it() -> None:
    below = ChildSnapshot(count=1, live=0, id=OTHER, state=RunState.FAILED)
    found = run_snapshot("f", node("a", action=ChildAction("b")), state="failed", tell_a={"child": below})
    assert f"It failed: run {OTHER} is failed. To see why: `windlass explain {OTHER}`." in step(found, "a")


@pytest.mark.parametrize(("state", "told"), [("cancelled", "was cancelled"), ("timeout", "timed out")])
def test_a_cancelled_step_shows_whether_it_had_started(state: str, told: str) -> None:
    found = run_snapshot("cc", node("a"), node("b", "a"), state=state, tell_a={"job": job("cancelled")})
    assert step(found, "a") == f"It was cancelled when the run {told}."
    assert step(found, "b") == f"It had not started when the run {told}."


def test_a_cancelled_step_shows_its_stored_reason() -> None:
    assert step(run_snapshot("c", node("a"), tell_a={"reason": "enough"}), "a") == "It was cancelled: enough."


# Why the run ended as it did


def test_a_completed_run_counts_its_steps() -> None:
    found = run_snapshot("ss", node("a"), node("b"), state="completed", finished_at=NOW)
    assert run(found) == "The run completed after 1m30s: all 2 steps succeeded."


def test_a_handled_failure_names_the_handler() -> None:
    found = run_snapshot("fks", node("a"), node("b", "a"), node("c", "a:failure"), state="completed", finished_at=NOW)
    assert run(found).endswith("of 3 steps 1 succeeded, 1 failed and 1 was skipped. The failure of a was handled by c.")
    assert step(found, "a").endswith("This was handled by c.")


def test_a_failed_run_names_the_unhandled_failure() -> None:
    found = run_snapshot("fks", node("a"), node("b", "a"), node("c", final=True), state="failed", finished_at=NOW)
    assert run(found).endswith("No step handled the failure of a, so the run failed.")


def test_a_failure_can_be_handled_by_a_step_after_skipped_ones() -> None:
    steps = node("a"), node("b", "a"), node("c", "b:complete", condition="failure()")
    assert run(run_snapshot("fks", *steps, state="completed")).endswith("The failure of a was handled by c.")


def test_a_cancelled_run_shows_its_actor_and_its_reason() -> None:
    found = run_snapshot(
        "sc", node("a"), node("b", "a"), state="cancelled", reason="enough", actor="ada", finished_at=NOW
    )
    assert run(found) == (
        "The run was cancelled by ada after 1m30s: enough. Now of 2 steps 1 succeeded and 1 was cancelled."
    )


def test_a_timed_out_run_shows_its_deadline() -> None:
    found = run_snapshot("c", node("a"), state="timeout", finished_at=NOW, expires_at=NOW)
    assert run(found).startswith("The run timed out after 1m30s: it had to end by 2030-01-01 12:00:00Z;")


@pytest.mark.parametrize(
    ("running", "told"),
    [
        (1, "workflow orders allows 1 active run at a time, and 1 is active."),
        (0, "a worker or `windlass up` starts it in a moment, if one is running."),
    ],
)
def test_a_pending_run_shows_what_it_waits_for(running: int, told: str) -> None:
    found = run_snapshot(".", node("a"), state="pending", concurrency=1, running=running, started_at=None)
    assert run(found) == f"The run waits to start: {told}"


def test_a_restarted_run_shows_the_count_and_the_last_restart() -> None:
    found = run_snapshot("s", node("a"), state="completed", round=2, last_restart="rerun, from step a")
    assert run(found).endswith("It was started again twice, the last time: rerun, from step a.")


def test_a_child_run_names_its_parent_run() -> None:
    told = run(run_snapshot("s", node("a"), state="completed", parent_id=OTHER))
    assert told.endswith(f"It was started by run {OTHER}: `windlass explain {OTHER}`.")


def test_a_running_run_lists_what_its_active_steps_are_doing() -> None:
    steps = [node(f"s{n}") for n in range(7)]
    told: dict[str, Any] = {f"tell_s{n}": {"job": job("leased", worker=f"w{n}")} for n in range(7)}
    found = explain(run_snapshot("a" * 7, *steps, **told))
    assert found.run == ["The run has been active for 1m30s: of 7 steps 7 are active."]
    assert found.now[0] == "s0: worker w0 has been running it, attempt 1 of 3."
    assert found.now[-1] == "and 2 more steps are active."


def test_an_ended_run_lists_no_current_activity() -> None:
    assert explain(run_snapshot("s", node("a"), state="completed")).now == []


def test_a_failed_step_shows_that_it_is_allowed_to_fail() -> None:
    found = run_snapshot("fs", node("a", allow_failure=True), node("b"), state="completed", finished_at=NOW)
    assert step(found, "a").endswith("It is allowed to fail.")
    assert "No step handled" not in run(found)
