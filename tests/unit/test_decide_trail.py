"""The callback addresses that a run opens and forgets, and its notes in the event trail."""

from datetime import timedelta

import pytest

from tests.unit.reference import node
from tests.unit.run_harness import ENOUGH, WHY, Play
from windlass.core.runs.command import CancelTimer, ForgetHook, ListenUntil, Note
from windlass.core.runs.event import Begun, Ended, Expanded, Expired, RerunRequested, RetryRequested
from windlass.core.runs.run import NEVER_BEGAN, Letter, Reason, RunState
from windlass.core.workflows.step import Action, ChildAction, Foreach, HookAction, Parallel, SleepAction

HOOK = HookAction()
SLEEP = SleepAction(timedelta(seconds=30))


def trail(play: Play) -> list[tuple[str, str, str | None]]:
    """Return what the latest decision recorded: step, letter, code of the reason."""
    return [(play.plan.steps[n.step].name, str(n.letter), n.reason.code if n.reason else None) for n in play.trail]


# Callback addresses


def test_a_run_opens_the_addresses_of_all_its_callbacks_when_it_begins() -> None:
    play = Play(node("a"), node("b", "a", action=HOOK), node("c", action=HOOK))
    assert play.opened == [1, 2]


def test_a_pending_run_opens_its_addresses_when_it_begins_and_a_cancelled_one_never_does() -> None:
    play = Play(node("a", action=HOOK), held=True)
    assert play.opened == []
    play.send(Begun())
    assert play.opened == [0]
    play = Play(node("a", action=HOOK), held=True)
    play.send(ENOUGH)
    assert play.send(Begun()) == []
    assert play.opened == []


@pytest.mark.parametrize("again", [RetryRequested(), RerunRequested(0)])
def test_a_retry_opens_the_callback_addresses_of_a_run_that_expired_before_it_began(
    again: RetryRequested | RerunRequested,
) -> None:
    play = Play(node("a"), node("b", "a", action=HOOK), held=True)
    play.send(Expired())
    play.send(again)
    assert play.opened == [1]


def test_a_used_callback_is_forgotten_before_its_step_waits_again() -> None:
    play = Play(node("a", action=HOOK), node("b", "a"))
    play.end(a="s")
    play.end(b="s")
    assert play.state is RunState.COMPLETED
    assert play.send(RerunRequested(0)) == [ForgetHook(0), ListenUntil(0, None)]


def test_the_callback_of_a_step_that_is_not_rerun_is_kept() -> None:
    play = Play(node("a", action=HOOK), node("b", "a"))
    play.end(a="s")
    play.end(b="f")
    assert not any(isinstance(command, ForgetHook) for command in play.send(RerunRequested(1)))


@pytest.mark.parametrize("letter", "ftc")
def test_a_callback_that_was_not_used_is_kept_for_the_retry(letter: str) -> None:
    play = Play(node("a", action=HOOK))
    play.end(a=letter)
    assert play.send(RetryRequested()) == [ListenUntil(0, None)]


def test_the_timers_of_sleeps_and_waits_are_cancelled_with_the_run() -> None:
    play = Play(node("a", action=HOOK), node("b", action=SLEEP))
    assert play.send(ENOUGH)[:2] == [CancelTimer(0), CancelTimer(1)]


# The event trail


@pytest.mark.parametrize("action", [SLEEP, HOOK, ChildAction("other")])
def test_a_step_without_a_job_has_its_start_and_its_end_in_the_trail(action: Action) -> None:
    play = Play(node("a", action=action))
    assert trail(play) == [("a", "a", None)]
    play.end(a="s")
    assert trail(play) == [("a", "s", None)]


def test_the_start_and_success_of_a_single_job_are_in_the_trail_of_the_job() -> None:
    play = Play(node("a"), node("b", "a"))
    assert trail(play) == []
    play.end(a="s")
    assert trail(play) == []
    play.end(b="f")
    assert trail(play) == [("b", "f", "test")]


def test_a_fan_out_records_its_start_and_its_end_but_no_instance() -> None:
    play = Play(node("a", fan_out=Parallel(3)))
    assert trail(play) == [("a", "a", None)]
    play.end(a="ss")
    assert trail(play) == []
    play.end(a="f")
    assert trail(play) == [("a", "f", "instances")]


def test_the_start_of_a_fan_out_with_an_if_is_recorded_once_with_the_reason_of_the_if() -> None:
    play = Play(node("a", condition="x", fan_out=Foreach("input.files")))
    play.judge("a", True)
    assert trail(play) == [("a", "a", "test")]
    play.send(Expanded(0, 2))
    assert trail(play) == []
    play = Play(node("a", condition="x", fan_out=Parallel(2)))
    play.judge("a", True)
    assert trail(play) == [("a", "a", "test")]


def test_only_the_first_of_several_instances_that_never_began_is_recorded() -> None:
    play = Play(node("a", fan_out=Parallel(5)))
    play.send(*(Ended(0, Letter.FAILED, Reason(NEVER_BEGAN, f"no item {n}")) for n in range(2)))
    assert play.trail == [Note(0, Letter.ACTIVE, Reason(NEVER_BEGAN, "no item 0"))]
    play.send(Ended(0, Letter.FAILED, Reason(NEVER_BEGAN, "no item 2")))
    assert play.trail == []
    play.end(a="ss")
    assert trail(play) == [("a", "f", "instances")]


def test_a_stopped_run_records_the_waiting_steps_that_have_no_job_of_their_own() -> None:
    play = Play(node("a"), node("b", "a"), node("c", "a", action=SLEEP))
    play.send(ENOUGH)
    assert trail(play) == [("c", "c", None)]


# Compositions of jobs: `on_success` and its like are their callbacks


def composition() -> Play:
    return Play(node("a"), node("b"), node("on_success", "a", "b"), node("on_failure", "a:failure"), composition=True)


def test_a_composition_records_the_end_of_every_part_and_the_callback_that_starts() -> None:
    play = composition()
    assert trail(play) == []
    play.end(a="s")
    assert trail(play) == [("a", "s", None), ("on_failure", "k", "unmet")]
    play.end(b="s")
    assert trail(play) == [("b", "s", None), ("on_success", "a", None)]
    play.end(on_success="s")
    assert trail(play) == [("on_success", "s", None)]


def test_a_composition_that_was_stopped_does_not_record_its_cancelled_parts() -> None:
    play = composition()
    play.send(ENOUGH)
    assert trail(play) == []
    play.end(a="c", b="s")
    assert trail(play) == [("b", "s", None)]


def test_a_part_that_was_cancelled_alone_is_recorded() -> None:
    play = composition()
    play.send(Ended(0, Letter.CANCELLED, WHY))
    assert ("a", "c", "test") in trail(play)
