"""Why a run is in its state: the sentences for each situation."""

from typing import Any
from uuid import UUID

import pytest

from tests.unit.reference import node
from tests.unit.snapshots import ID, NOW, SECOND, account, job
from windlass.core.explain.explanation import explain
from windlass.core.explain.snapshot import ChildSnapshot, RunSnapshot
from windlass.core.runs.run import Fan, RunState
from windlass.core.workflows.step import ChildAction, Join, SleepAction

BELOW = UUID(int=9)


def step(found: RunSnapshot, name: str) -> str:
    return next(" ".join(one.sentences) for one in explain(found).steps if one.step == name)


def run(found: RunSnapshot) -> str:
    return " ".join(explain(found).run)


# Why a step ran


def test_a_root_began_with_the_run() -> None:
    found = account("s", node("a"), state="completed")
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
            "It ran because a ended (it failed), and its `if` held (because).",
        ),
        (
            "fs.",
            [],
            {"condition": "true"},
            "It needs no other step and started with the run, and its `if` held (because).",
        ),
        ("fs.", [], {"final": True}, "It is the final step: it ran once all others had ended."),
        ("fs.", ["a"], {}, "It ran because a rerun was requested (rerun, from step c)."),
    ],
)
def test_a_step_that_ran_names_the_parents_that_let_it(
    letters: str, needs: list[str], more: dict[str, Any], told: str
) -> None:
    held = {"held": "because"} if "condition" in more else {}
    steps = [node("a"), node("b"), node("c", *needs, **more)]
    found = account(
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
def test_a_step_that_waits_says_for_whom(letters: str, needs: list[str], more: dict[str, Any], told: str) -> None:
    assert step(account(letters + ".", node("a"), node("b"), node("c", *needs, **more)), "c") == told


def test_many_names_are_counted() -> None:
    roots = [node(f"r{n}") for n in range(9)]
    found = account("a" * 9 + ".", *roots, node("end", final=True))
    assert step(found, "end").endswith("r0, r1, r2, r3, r4 and 4 more have not.")


def test_before_the_run_begins_its_steps_wait_for_that() -> None:
    assert step(account(".", node("a"), state="pending"), "a") == "It waits for the run to start."


# What became of a step


def test_a_skipped_step_gives_its_stored_reason() -> None:
    reason = "needs a to fail, but it succeeded"
    found = account("sk", node("a"), node("b", "a:failure"), tell_b={"reason": reason})
    assert step(found, "b") == f"It was skipped: {reason}."


def test_a_success_says_how_long_it_took_and_how_often_it_was_tried() -> None:
    times = {"began_at": NOW - 5 * SECOND, "ended_at": NOW - 2 * SECOND}
    found = account("s", node("a"), tell_a={**times, "job": job("succeeded", failures=1, error="no luck.\ntrace")})
    assert step(found, "a").endswith("It succeeded in 3.0s, at attempt 2 of 3; the one before failed: no luck.")


def test_a_sleep_took_as_long_as_it_says() -> None:
    assert step(account("s", node("a", action=SleepAction(30 * SECOND))), "a").endswith("It succeeded in 30s.")


def test_nothing_to_fan_out_over_is_a_success_with_a_reason() -> None:
    found = account("s", node("a"), tell_a={"reason": "there was nothing to fan out over"})
    assert step(found, "a").endswith("It succeeded: there was nothing to fan out over.")


def test_all_instances_succeeded() -> None:
    found = account("s", node("a"), tell_a={"fan": Fan(3, 3, 3)})
    assert step(found, "a").endswith("All of its 3 instances succeeded.")


def test_a_failure_tells_error_attempts_and_where_the_log_is() -> None:
    found = account("f", node("a"), state="failed", tell_a={"reason": "boom", "job": job("failed", failures=3)})
    assert step(found, "a").endswith(
        f"It failed: boom. It was tried 3 times. Its log: `windlass runs logs {ID} --step a`. "
        "No step handled this failure."
    )


def test_a_failure_that_left_attempts_unused_says_so() -> None:
    found = account("f", node("a"), state="failed", tell_a={"reason": "boom", "job": job("failed", failures=1)})
    assert "It was tried once of 3 possible." in step(found, "a")


def test_a_step_that_could_not_begin_failed_without_a_job() -> None:
    found = account("f", node("a"), state="failed", tell_a={"reason": "tasks.x.body has no 'files'"})
    assert step(found, "a").endswith("It failed: tasks.x.body has no 'files'. No step handled this failure.")


def test_a_timeout_is_called_one() -> None:
    found = account("t", node("a"), state="failed", tell_a={"reason": "took longer than 5s", "job": job("failed")})
    assert "It timed out: took longer than 5s." in step(found, "a")


def test_a_failed_fan_out_counts_and_names_the_first_instance() -> None:
    told = {"fan": Fan(100, 100, 97, 3), "failed": job("failed", item=7, error="bad item")}
    text = step(account("f", node("a"), state="failed", tell_a=told), "a")
    assert "It failed: 3 of 100 instances failed and 97 succeeded. The first is number 7: bad item." in text
    assert f"windlass runs logs {ID} --step a --index 7" in text


def test_a_failed_run_below_is_where_to_look() -> None:
    below = ChildSnapshot(count=1, live=0, id=BELOW, state=RunState.FAILED)
    found = account("f", node("a", action=ChildAction("b")), state="failed", tell_a={"child": below})
    assert f"It failed: run {BELOW} is failed. To see why: `windlass explain {BELOW}`." in step(found, "a")


@pytest.mark.parametrize(("state", "told"), [("cancelled", "was cancelled"), ("timeout", "timed out")])
def test_a_cancelled_step_says_whether_it_had_begun(state: str, told: str) -> None:
    found = account("cc", node("a"), node("b", "a"), state=state, tell_a={"job": job("cancelled")})
    assert step(found, "a") == f"It was cancelled when the run {told}."
    assert step(found, "b") == f"It had not started when the run {told}."


def test_a_cancelled_step_gives_its_stored_reason() -> None:
    assert step(account("c", node("a"), tell_a={"reason": "enough"}), "a") == "It was cancelled: enough."


# Why the run ended as it did


def test_a_completed_run_counts_its_steps() -> None:
    found = account("ss", node("a"), node("b"), state="completed", finished_at=NOW)
    assert run(found) == "The run completed after 1m30s: all 2 steps succeeded."


def test_a_handled_failure_names_the_handler() -> None:
    found = account("fks", node("a"), node("b", "a"), node("c", "a:failure"), state="completed", finished_at=NOW)
    assert run(found).endswith("of 3 steps 1 succeeded, 1 failed and 1 was skipped. The failure of a was handled by c.")
    assert step(found, "a").endswith("This was handled by c.")


def test_an_unhandled_failure_is_why_a_run_failed() -> None:
    found = account("fks", node("a"), node("b", "a"), node("c", final=True), state="failed", finished_at=NOW)
    assert run(found).endswith("No step handled the failure of a, so the run failed.")


def test_a_failure_handled_two_steps_down_through_skipped_ones() -> None:
    steps = node("a"), node("b", "a"), node("c", "b:complete", condition="failure()")
    assert run(account("fks", *steps, state="completed")).endswith("The failure of a was handled by c.")


def test_a_cancelled_run_says_by_whom_and_why() -> None:
    found = account("sc", node("a"), node("b", "a"), state="cancelled", reason="enough", actor="ada", finished_at=NOW)
    assert run(found) == (
        "The run was cancelled by ada after 1m30s: enough. Now of 2 steps 1 succeeded and 1 was cancelled."
    )


def test_a_run_out_of_time_says_when_that_was() -> None:
    found = account("c", node("a"), state="timeout", finished_at=NOW, expires_at=NOW)
    assert run(found).startswith("The run timed out after 1m30s: it had to end by 2030-01-01 12:00:00Z;")


@pytest.mark.parametrize(
    ("running", "told"),
    [
        (1, "workflow orders allows 1 active run at a time, and 1 is active."),
        (0, "a worker or `windlass up` starts it in a moment, if one is running."),
    ],
)
def test_a_held_run_says_what_holds_it(running: int, told: str) -> None:
    found = account(".", node("a"), state="pending", concurrency=1, running=running, started_at=None)
    assert run(found) == f"The run waits to start: {told}"


def test_a_run_done_again_says_so() -> None:
    found = account("s", node("a"), state="completed", round=2, last_restart="rerun, from step a")
    assert run(found).endswith("It was started again twice, the last time: rerun, from step a.")


def test_a_run_below_another_names_it() -> None:
    told = run(account("s", node("a"), state="completed", parent_id=BELOW))
    assert told.endswith(f"It was started by run {BELOW}: `windlass explain {BELOW}`.")


def test_a_live_run_says_what_it_is_waiting_for() -> None:
    steps = [node(f"s{n}") for n in range(7)]
    told: dict[str, Any] = {f"tell_s{n}": {"job": job("leased", worker=f"w{n}")} for n in range(7)}
    found = explain(account("a" * 7, *steps, **told))
    assert found.run == ["The run has been active for 1m30s: of 7 steps 7 are active."]
    assert found.now[0] == "s0: worker w0 has been running it, attempt 1 of 3."
    assert found.now[-1] == "and 2 more steps are active."


def test_a_run_that_has_ended_waits_for_nothing() -> None:
    assert explain(account("s", node("a"), state="completed")).now == []


def test_a_step_that_is_allowed_to_fail_says_so() -> None:
    found = account("fs", node("a", allow_failure=True), node("b"), state="completed", finished_at=NOW)
    assert step(found, "a").endswith("It is allowed to fail.")
    assert "No step handled" not in run(found)
