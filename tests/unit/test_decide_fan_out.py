"""Fan-out: creation of the instances, their concurrency, and the result of the step."""

from itertools import permutations

import pytest

from tests.unit.reference import node
from tests.unit.run_harness import WHY, Play, notes
from windlass.core.runs.command import Conclude, Enqueue, Expand, Judge, Note, StartChild
from windlass.core.runs.event import Expanded
from windlass.core.runs.run import Fan, Letter, RunState
from windlass.core.workflows.step import ChildAction, Foreach, Join, Parallel


def test_a_parallel_step_creates_all_its_instances_at_once() -> None:
    play = Play(node("a", fan_out=Parallel(4)))
    assert play.first == [Enqueue(0, 0, 4)]
    assert play.fan("a") == Fan(count=4, created=4)


def test_a_fanned_out_child_step_starts_one_child_run_for_each_instance() -> None:
    assert Play(node("a", action=ChildAction("w"), fan_out=Parallel(3))).first == [StartChild(0, 0, 3)]


@pytest.mark.parametrize("fan_out", [Parallel("d.count"), Foreach("d.files")])
def test_a_fan_out_over_a_path_is_expanded_when_the_parents_ended(fan_out: Parallel | Foreach) -> None:
    play = Play(node("d"), node("a", "d", fan_out=fan_out))
    assert play.end(d="s") == [Expand(1)]
    assert play.letters == "s."
    assert play.send(Expanded(1, 3)) == [Enqueue(1, 0, 3)]


def test_an_if_is_evaluated_before_a_fan_out_is_expanded() -> None:
    play = Play(node("a", condition="x", fan_out=Foreach("input.files")))
    assert play.first == [Judge(0)]
    assert play.judge("a", True) == [Note(0, Letter.ACTIVE, WHY), Expand(0)]


@pytest.mark.parametrize("fan_out", [Parallel(0), Foreach("d.files")])
def test_an_empty_fan_out_succeeds_and_its_dependent_steps_run(fan_out: Parallel | Foreach) -> None:
    play = Play(node("d"), node("a", "d", fan_out=fan_out), node("b", "a"))
    commands = play.end(d="s")
    if commands == [Expand(1)]:
        commands = play.send(Expanded(1, 0))
    assert play.letters == "ssa"
    assert notes(commands) == [(1, "s", "there was nothing to fan out over")]


def test_an_any_join_whose_parents_end_together_is_expanded_once() -> None:
    play = Play(node("a"), node("b"), node("c", "a", "b", join=Join.ANY, fan_out=Foreach("input.files")))
    assert play.end(a="s", b="s") == [Expand(2)]


def test_a_second_expansion_is_ignored() -> None:
    play = Play(node("a", fan_out=Foreach("input.files")))
    play.send(Expanded(0, 2))
    assert play.send(Expanded(0, 5)) == []
    assert play.fan("a").count == 2


def test_a_fanned_out_step_succeeds_when_all_its_instances_did() -> None:
    play = Play(node("a", fan_out=Parallel(3)), node("b", "a"))
    assert play.end(a="ss") == []
    assert play.letters == "a."
    assert play.names(play.end(a="s")) == ["b"]


def test_a_failed_instance_does_not_stop_the_others_but_fails_the_step() -> None:
    for order in set(permutations("sftc")):
        play = Play(node("a", fan_out=Parallel(4)), node("b", "a:failure"))
        for letter in order[:-1]:
            assert play.end(a=letter) == []
            assert play.letters == "a."
        commands = play.end(a=order[-1])
        assert play.letters == "fa"
        assert notes(commands) == [(0, "f", "2 of 4 instances failed")]


def test_cancelled_instances_cancel_the_step_unless_one_failed() -> None:
    play = Play(node("a", fan_out=Parallel(2)))
    assert notes(play.end(a="cs")) == [(0, "c", "1 of 2 instances were cancelled")]
    assert (play.letters, play.state) == ("c", RunState.FAILED)


def test_the_concurrency_of_a_step_limits_its_active_instances() -> None:
    play = Play(node("a", fan_out=Parallel(5), concurrency=2))
    assert play.first == [Enqueue(0, 0, 2)]
    assert play.end(a="s") == [Enqueue(0, 2, 1)]
    assert play.send(play.ended("a", "s", 2)) == [Enqueue(0, 3, 2)]
    assert play.end(a="s") == []
    assert play.fan("a").active == 1
    assert play.end(a="s") == [Conclude(RunState.COMPLETED)]


def test_a_failed_instance_frees_its_slot() -> None:
    play = Play(node("a", fan_out=Parallel(3), concurrency=1))
    assert play.end(a="f") == [Enqueue(0, 1, 1)]
    assert play.end(a="c") == [Enqueue(0, 2, 1)]
    play.end(a="s")
    assert play.letters == "f"


def test_a_concurrency_above_the_size_of_the_fan_out_has_no_effect() -> None:
    assert Play(node("a", fan_out=Parallel(2), concurrency=50)).first == [Enqueue(0, 0, 2)]


def test_a_fan_out_of_a_hundred_thousand_instances_is_tracked_with_counters() -> None:
    play = Play(node("a", fan_out=Foreach("input.files"), concurrency=50))
    assert play.send(Expanded(0, 100_000)) == [Enqueue(0, 0, 50)]
    for first in range(50, 100_000, 50):
        assert play.send(play.ended("a", "s", 50)) == [Enqueue(0, first, 50)]
    assert play.send(play.ended("a", "s", 50)) == [Conclude(RunState.COMPLETED)]
