"""The end of a run, and duplicate, early and late events, which change nothing."""

import pytest

from tests.unit.reference import node
from tests.unit.run_harness import ENOUGH, WHY, Play, concluded
from windlass.core.runs.command import Conclude, Expand, Note
from windlass.core.runs.event import Begun, Expanded, Expired, Judged, RetryRequested
from windlass.core.runs.run import Fan, Letter, RunState
from windlass.core.workflows.step import Foreach, Parallel

# Stale events


@pytest.mark.parametrize("late", "sftc")
def test_a_second_end_of_a_step_is_ignored(late: str) -> None:
    play = Play(node("a"), node("b", "a"), node("c", "a:failure"))
    play.end(a="s")
    assert play.end(a=late) == []
    assert play.letters == "sak"


def test_the_first_of_two_outcomes_of_a_step_in_one_decision_is_final() -> None:
    play = Play(node("a"), node("b", "a"))
    play.end(a="sf")
    assert play.letters == "sa"


def test_the_end_of_a_skipped_step_is_ignored() -> None:
    play = Play(node("a"), node("b", "a"), node("c"))
    play.end(a="f")
    assert play.end(b="s") == []
    assert play.letters == "fka"


@pytest.mark.parametrize("early", "stc")
def test_a_waiting_step_ignores_success_timeout_and_cancellation(early: str) -> None:
    play = Play(node("a"), node("b", "a"))
    assert play.end(b=early) == []
    assert play.letters == "a."


def test_a_second_begun_event_changes_nothing() -> None:
    play = Play(node("a"), node("b", "a"))
    assert play.send(Begun()) == []


def test_an_ended_run_ignores_stale_events() -> None:
    play = Play(node("a", condition="x"), node("b", "a"), node("c", fan_out=Foreach("input.files")))
    play.judge("a", True)
    play.send(Expanded(2, 1))
    play.end(a="s", c="s")
    play.end(b="s")
    ended = play.run
    assert play.state is RunState.COMPLETED
    play.end(a="f", b="f", c="f")
    assert play.send(Begun(), Expired(), ENOUGH, RetryRequested(), Judged(0, False, WHY), Expanded(2, 3)) == []
    assert play.run == ended


def test_a_decision_without_events_changes_nothing() -> None:
    play = Play(node("a"), node("b", "a"))
    before = play.run
    assert play.send() == []
    assert play.run == before


def test_a_decision_does_not_modify_the_given_run() -> None:
    play = Play(node("a", fan_out=Parallel(2)), node("b", "a"))
    before = play.run
    play.end(a="sf")
    assert (before.letters, before.fans) == ("a.", {0: Fan(count=2, created=2)})


def test_an_active_step_may_be_skipped() -> None:
    play = Play(node("a"), node("b", "a"))
    assert Note(0, Letter.SKIPPED, WHY) in play.end(a="k")
    assert (play.letters, play.state) == ("kk", "completed")


def test_a_waiting_step_may_be_skipped() -> None:
    play = Play(node("a"), node("b", "a"))
    play.end(b="k")
    assert play.letters == "ak"


# The end


def test_a_run_continues_while_any_step_waits_or_is_active() -> None:
    play = Play(node("a"), node("b"), node("c", "b"))
    for letters in ({"a": "f"}, {"b": "s"}):
        assert concluded(play.end(**letters)) == []
        assert play.state is RunState.RUNNING
    assert concluded(play.end(c="s")) == [RunState.FAILED]


def test_a_run_completes_when_all_its_steps_succeeded() -> None:
    play = Play(node("a"), node("b", "a"))
    play.end(a="s")
    assert play.end(b="s") == [Conclude(RunState.COMPLETED)]
    assert play.state is RunState.COMPLETED


def test_a_handled_failure_completes_the_run() -> None:
    play = Play(node("a"), node("b", "a"), node("alert", "a:failure"))
    play.end(a="f")
    assert concluded(play.end(alert="s")) == [RunState.COMPLETED]


# Cases in which the pseudo-code of the specification hangs


def test_a_failing_step_with_dependents_ends_its_run() -> None:
    play = Play(node("a"), node("b", "a"), node("c", "b"))
    assert concluded(play.end(a="f")) == [RunState.FAILED]
    assert play.letters == "fkk"


def test_a_timed_out_step_with_dependents_ends_its_run() -> None:
    play = Play(node("a"), node("b", "a"), node("c", "b"))
    assert concluded(play.end(a="t")) == [RunState.FAILED]
    assert play.letters == "tkk"


@pytest.mark.parametrize("result", "sft")
def test_a_step_with_complete_edges_starts_for_every_result_of_its_parents(result: str) -> None:
    play = Play(node("a"), node("b", "a"), node("c", "a:complete", "b:complete"), node("d", "c"))
    play.end(a=result)
    if result == "s":
        play.end(b="s")
    play.end(c="s")
    assert play.letters == result + ("s" if result == "s" else "k") + "sa"  # and the skip stops there
    assert concluded(play.end(d="s")) == [RunState.COMPLETED if result == "s" else RunState.FAILED]


def test_a_run_with_a_failed_step_fails_when_its_other_branch_ends() -> None:
    play = Play(node("a"), node("b", "a"), node("c"), node("d", "c"))
    play.end(a="f")
    play.end(c="s")
    assert concluded(play.end(d="s")) == [RunState.FAILED]


def test_a_fan_out_whose_upstream_failed_is_skipped_and_never_expanded() -> None:
    play = Play(node("d"), node("a", "d", fan_out=Foreach("d.files")), node("b", "a"))
    commands = play.end(d="f")
    assert Expand(1) not in commands
    assert (play.letters, concluded(commands)) == ("fkk", [RunState.FAILED])


def test_an_empty_fan_out_ends_its_run() -> None:
    play = Play(node("d"), node("a", "d", fan_out=Foreach("d.files")))
    play.end(d="s")
    assert concluded(play.send(Expanded(1, 0))) == [RunState.COMPLETED]


def test_a_fan_out_that_cannot_be_expanded_ends_its_run() -> None:
    play = Play(node("d"), node("a", "d", fan_out=Foreach("d.files")), node("b", "a"))
    play.end(d="s")
    assert concluded(play.end(a="f")) == [RunState.FAILED]
    assert play.letters == "sfk"
