"""A run that is held, cancelled or expired: no step begins, and late outcomes are recorded."""

from itertools import permutations

import pytest

from tests.unit.reference import node
from tests.unit.run_harness import ENOUGH, WHY, Play, concluded, notes
from windlass.core.runs.command import CancelJobs, Conclude, Enqueue, Note
from windlass.core.runs.event import Begun, Ended, Event, Expanded, Expired, Judged, RerunRequested, RetryRequested
from windlass.core.runs.run import EXPIRED, Letter, RunState
from windlass.core.workflows.step import Foreach, Parallel


def test_a_held_run_does_nothing_until_it_begins() -> None:
    play = Play(node("a"), node("b", "a"), held=True)
    assert play.send() == []
    assert (play.state, play.letters) == (RunState.PENDING, "..")
    assert play.send(Begun()) == [Enqueue(0, 0, 1)]
    assert (play.state, play.letters) == (RunState.RUNNING, "a.")


def test_a_held_run_ignores_results_and_failures() -> None:
    play = Play(node("a", condition="x"), node("b", fan_out=Foreach("input.files")), held=True)
    assert play.send(Judged(0, True, WHY), Judged(0, False, WHY), Expanded(1, 2), Ended(0, Letter.FAILED, WHY)) == []
    assert (play.state, play.letters) == (RunState.PENDING, "..")


@pytest.mark.parametrize(("stop", "state"), [(ENOUGH, RunState.CANCELLED), (Expired(), RunState.TIMEOUT)])
def test_a_held_run_can_be_stopped_and_then_never_begins(stop: Event, state: RunState) -> None:
    play = Play(node("a"), node("z", final=True), held=True)
    assert concluded(play.send(stop)) == [state]
    assert play.send(Begun()) == []
    assert play.letters == "cc"


@pytest.mark.parametrize(
    ("stop", "end"),
    [(ENOUGH, Conclude(RunState.CANCELLED, ENOUGH.reason)), (Expired(), Conclude(RunState.TIMEOUT, EXPIRED))],
)
def test_stopping_a_run_cancels_waiting_steps_and_the_jobs_of_active_ones(stop: Event, end: Conclude) -> None:
    play = Play(node("a"), node("b"), node("c", "a"), node("z", final=True))
    play.end(b="s")
    commands = play.send(stop)
    assert play.letters == "ascc"
    assert commands == [CancelJobs(0), end]
    assert play.state is end.state


@pytest.mark.parametrize("late", "sftc")
def test_a_late_outcome_is_recorded_and_advances_nothing(late: str) -> None:
    play = Play(node("a"), node("b", "a:complete"), node("z", final=True))
    play.send(ENOUGH)
    assert [command for command in play.end(a=late) if not isinstance(command, Note)] == []
    assert (play.letters, play.state) == (late + "cc", RunState.CANCELLED)


def test_a_stopped_fan_out_creates_no_more_instances_and_ends_with_its_last_active_one() -> None:
    play = Play(node("a", fan_out=Parallel(5), concurrency=2))
    play.end(a="s")
    assert CancelJobs(0) in play.send(ENOUGH)
    assert play.end(a="s") == []
    assert play.letters == "a"
    assert notes(play.end(a="c")) == [(0, "c", "3 of 5 instances were cancelled")]
    assert play.letters == "c"


def test_results_that_arrive_after_a_cancel_start_no_step() -> None:
    play = Play(node("a", condition="x"), node("b", fan_out=Foreach("input.files")))
    play.send(ENOUGH)
    assert play.send(Judged(0, True, WHY), Expanded(1, 3), play.ended("b", "f")) == []
    assert play.letters == "cc"


def test_the_second_stop_is_ignored() -> None:
    play = Play(node("a"))
    play.send(ENOUGH)
    assert play.send(ENOUGH, Expired()) == []
    assert play.state is RunState.CANCELLED


def test_a_cancel_in_the_same_decision_as_an_outcome_records_it_and_starts_no_step() -> None:
    told: list[Event] = [Ended(0, Letter.SUCCEEDED), ENOUGH]
    for events in permutations(told):
        play = Play(node("a"), node("b", "a"))
        commands = play.send(*events)
        assert (play.letters, play.state) == ("sc", RunState.CANCELLED)
        assert play.names(commands) == []
        assert concluded(commands) == [RunState.CANCELLED]


def test_a_cancelled_run_is_neither_retried_nor_rerun() -> None:
    play = Play(node("a"), node("b", "a"))
    play.send(ENOUGH)
    assert play.send(RetryRequested(), RerunRequested(0)) == []
    assert (play.letters, play.state) == ("ac", RunState.CANCELLED)
