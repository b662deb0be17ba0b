"""The rules by which a run advances, one test each. Letters are in definition order."""

from datetime import timedelta
from itertools import permutations

import pytest

from tests.unit.reference import node
from tests.unit.run_harness import NOW, WHY, Play, concluded, notes
from windlass.core.runs.command import (
    AwaitMessages,
    Command,
    Conclude,
    Enqueue,
    Expand,
    Judge,
    ListenUntil,
    Note,
    RequestApproval,
    StartChild,
    WakeAt,
)
from windlass.core.runs.edges import NONE_MET
from windlass.core.runs.event import Ended
from windlass.core.runs.run import Letter, RunState
from windlass.core.workflows.step import (
    Action,
    ApprovalAction,
    ChildAction,
    CommandAction,
    EventAction,
    Foreach,
    HookAction,
    HttpAction,
    JobAction,
    Join,
    Parallel,
    SleepAction,
)

# Edges


CASCADE = {  # the seed's table: the dependent step's letter, by its parent's result and the edge's condition
    "s": {"success": "a", "failure": "k", "skipped": "k", "complete": "a"},
    "f": {"success": "k", "failure": "a", "skipped": "k", "complete": "a"},
    "k": {"success": "k", "failure": "k", "skipped": "a", "complete": "a"},
}


@pytest.mark.parametrize(
    ("result", "condition", "child"),
    [(result, condition, child) for result, row in CASCADE.items() for condition, child in row.items()],
)
def test_a_dependent_step_starts_or_is_skipped_by_the_cascade_table(result: str, condition: str, child: str) -> None:
    play = Play(node("a", condition="x"), node("b", f"a:{condition}"))
    play.judge("a", result != "k")
    if result != "k":
        play.end(a=result)
    assert play.letters == result + child


@pytest.mark.parametrize("bad", "ftc")
@pytest.mark.parametrize(("condition", "child"), CASCADE["f"].items())
def test_timed_out_and_cancelled_steps_meet_failure_edges(bad: str, condition: str, child: str) -> None:
    play = Play(node("a"), node("b", f"a:{condition}"))
    play.end(a=bad)
    assert play.letters == bad + child


def test_only_root_steps_start_at_once() -> None:
    play = Play(node("a"), node("b", "a"), node("c"))
    assert play.names(play.first) == ["a", "c"]
    assert play.letters == "a.a"


def test_a_step_waits_for_all_its_parents() -> None:
    play = Play(node("a"), node("b"), node("c", "a", "b:failure"))
    assert play.end(a="s") == []
    assert play.letters == "sa."
    assert play.names(play.end(b="f")) == ["c"]
    assert play.letters == "sfa"


def test_one_unmet_edge_skips_the_step_once_all_parents_ended() -> None:
    play = Play(node("a"), node("b"), node("c", "a", "b"))
    play.end(a="f")
    assert play.letters == "fa."
    commands = play.end(b="s")
    assert play.letters == "fsk"
    assert notes(commands) == [(2, "k", "needs a to succeed, but it failed")]


def test_the_reason_of_a_skip_names_the_first_unmet_edge_in_any_order_of_events() -> None:
    for order in permutations("abc"):
        play = Play(node("a"), node("b"), node("c"), node("d", "a:complete", "b", "c"))
        for name in order:
            commands = play.end(**{name: "f"})
        assert (3, "k", "needs b to succeed, but it failed") in notes(commands)


def test_parents_that_end_together_start_their_join_once() -> None:
    parents = [node(f"p{n}") for n in range(100)]
    play = Play(*parents, node("join", *(parent.name for parent in parents)))
    commands = play.send(*(Ended(n, Letter.SUCCEEDED) for n in range(100)))
    assert commands == [Enqueue(100, 0, 1)]


def test_success_and_failure_edges_from_the_same_parent_are_never_both_met() -> None:
    for result in "sf":
        play = Play(node("a"), node("b", "a:success", "a:failure"))
        play.end(a=result)
        assert play.letters == result + "k"
        play = Play(node("a"), node("b", "a:success", "a:failure", join=Join.ANY))
        play.end(a=result)
        assert play.letters == result + "a"


def test_a_skip_cascades_through_all_levels_with_a_reason_at_each() -> None:
    play = Play(node("a"), *(node(f"b{n}", f"b{n - 1}" if n else "a") for n in range(4)), node("c", "b3:skipped"))
    commands = play.end(a="f")
    assert play.letters == "fkkkka"
    assert notes(commands)[1:3] == [
        (1, "k", "needs a to succeed, but it failed"),
        (2, "k", "needs b0 to succeed, but it was skipped"),
    ]


def test_a_skip_cascades_through_ten_thousand_levels_without_recursion() -> None:
    play = Play(node("s0"), *(node(f"s{n}", f"s{n - 1}") for n in range(1, 10_000)))
    assert concluded(play.end(s0="f")) == [RunState.FAILED]
    assert play.letters == "f" + "k" * 9_999


def test_an_any_join_starts_once_at_the_first_met_edge() -> None:
    play = Play(node("a"), node("b"), node("c", "a", "b", join=Join.ANY))
    assert play.names(play.end(a="s")) == ["c"]
    assert play.names(play.end(b="s")) == []
    assert play.letters == "ssa"


def test_an_any_join_waits_while_an_edge_can_still_be_met() -> None:
    play = Play(node("a"), node("b"), node("c", "a", "b", join=Join.ANY))
    play.end(a="f")
    assert play.letters == "fa."
    play.end(b="s")
    assert play.letters == "fsa"


def test_an_any_join_with_no_edge_met_is_skipped() -> None:
    play = Play(node("a"), node("b"), node("c", "a", "b", join=Join.ANY))
    assert Note(2, Letter.SKIPPED, NONE_MET) in play.end(a="f", b="f")
    assert play.letters == "ffk"


# The `if`


def test_an_if_is_evaluated_once_after_all_parents_ended_and_the_step_waits_for_its_result() -> None:
    play = Play(node("a"), node("b"), node("c", "a:complete", "b:complete", condition="x"))
    assert play.end(a="s") == []
    assert play.end(b="s") == [Judge(2)]
    assert (play.letters, play.state) == ("ss.", RunState.RUNNING)
    assert play.judge("c", True) == [Note(2, Letter.ACTIVE, WHY), Enqueue(2, 0, 1)]


def test_an_if_is_evaluated_once_when_its_parents_end_together() -> None:
    play = Play(node("a"), node("b"), node("c", "a:complete", "b:complete", condition="x"))
    assert play.end(a="s", b="s") == [Judge(2)]


def test_a_root_may_have_an_if() -> None:
    play = Play(node("a", condition="x"))
    assert play.first == [Judge(0)]
    assert concluded(play.judge("a", False)) == [RunState.COMPLETED]


def test_a_false_if_skips_the_step_with_the_reason() -> None:
    play = Play(node("a"), node("b", "a:complete", condition="x"), node("c", "b"))
    play.end(a="s")
    commands = play.judge("b", False)
    assert play.letters == "skk"
    assert commands[0] == Note(1, Letter.SKIPPED, WHY)


@pytest.mark.parametrize("result", "sftck")
def test_an_if_is_evaluated_for_every_result_of_the_parent(result: str) -> None:
    play = Play(node("a", condition="x"), node("b", "a:complete", condition="y"))
    asked = play.judge("a", result != "k")
    if result != "k":
        asked = play.end(a=result)
    assert Judge(1) in asked
    assert play.letters == result + "."


def test_an_explicit_condition_and_an_if_must_both_hold() -> None:
    for result, answer, letter in [("f", True, "a"), ("f", False, "k"), ("s", None, "k")]:
        play = Play(node("a"), node("b", "a:failure", condition="x"))
        commands = play.end(a=result)
        assert (Judge(1) in commands) == (answer is not None)
        if answer is not None:
            play.judge("b", answer)
        assert play.letters == result + letter


def test_the_if_of_an_any_join_is_evaluated_when_all_parents_ended_and_an_edge_is_met() -> None:
    steps = node("a"), node("b"), node("c", "a", "b", join=Join.ANY, condition="x")
    play = Play(*steps)
    assert play.end(a="s") == []
    assert play.end(b="f")[-1] == Judge(2)
    play = Play(*steps)
    play.end(a="f", b="f")
    assert play.letters == "ffk"


def test_a_second_result_of_the_same_if_is_ignored() -> None:
    for first, letter in [(True, "a"), (False, "k")]:
        play = Play(node("a", condition="x"), node("b"))
        play.judge("a", first)
        assert play.judge("a", not first) == []
        assert play.letters == letter + "a"


# The final step


@pytest.mark.parametrize("result", "sftc")
def test_the_final_step_runs_once_and_last_for_every_result_of_the_others(result: str) -> None:
    play = Play(node("z", final=True), node("a"), node("b", "a"), node("c"))
    assert play.names(play.end(a=result)) == (["b"] if result == "s" else [])
    if result == "s":
        play.end(b="s")
    assert play.letters[0] == "."
    assert play.names(play.end(c="s")) == ["z"]
    assert concluded(play.end(z="s")) == [RunState.COMPLETED if result == "s" else RunState.FAILED]


def test_the_final_step_runs_when_everything_else_was_skipped() -> None:
    play = Play(node("a", condition="x"), node("b", "a"), node("z", final=True))
    assert play.names(play.judge("a", False)) == ["z"]
    assert play.letters == "kka"


def test_the_final_step_may_have_an_if_which_is_evaluated_last() -> None:
    play = Play(node("a"), node("z", final=True, condition="x"))
    assert play.end(a="s") == [Judge(1)]
    assert concluded(play.judge("z", False)) == [RunState.COMPLETED]
    assert play.letters == "sk"


def test_the_final_step_waits_for_pending_ifs() -> None:
    play = Play(node("a", condition="x"), node("z", final=True))
    assert play.first == [Judge(0)]


def test_a_run_may_consist_of_a_final_step_only() -> None:
    play = Play(node("z", final=True))
    assert play.first == [Enqueue(0, 0, 1)]
    assert play.end(z="s") == [Conclude(RunState.COMPLETED)]


def test_a_final_step_may_fan_out_to_zero_instances() -> None:
    play = Play(node("a"), node("z", final=True, fan_out=Parallel(0)))
    assert concluded(play.end(a="s")) == [RunState.COMPLETED]
    assert play.letters == "ss"


# What a step does


@pytest.mark.parametrize(
    ("action", "command"),
    [
        (JobAction("files.copy.v1"), Enqueue(0, 0, 1)),
        (HttpAction("https://example.com"), Enqueue(0, 0, 1)),
        (CommandAction("true"), Enqueue(0, 0, 1)),
        (ChildAction("report"), StartChild(0, 0, 1)),
        (SleepAction(timedelta(seconds=30)), WakeAt(0, NOW + timedelta(seconds=30))),
        (HookAction(timedelta(hours=1)), ListenUntil(0, NOW + timedelta(hours=1))),
        (HookAction(), ListenUntil(0, None)),
        (EventAction("paid", "42", timedelta(hours=1)), AwaitMessages(0, NOW + timedelta(hours=1))),
        (EventAction("paid"), AwaitMessages(0, None)),
        (ApprovalAction("Ship it?", timeout=timedelta(hours=1)), RequestApproval(0, NOW + timedelta(hours=1))),
        (ApprovalAction("Ship it?"), RequestApproval(0, None)),
    ],
)
def test_each_action_has_its_command(action: Action, command: Command) -> None:
    assert Play(node("a", action=action)).first == [command]


def test_a_step_that_cannot_start_fails_with_the_reason_and_its_failure_cascades() -> None:
    play = Play(node("a"), node("b", "a", fan_out=Foreach("a.files")), node("c", "b"), node("d", "b:failure"))
    assert play.end(a="s") == [Expand(1)]
    commands = play.end(b="f")
    assert play.letters == "sfka"
    assert commands[0] == Note(1, Letter.FAILED, WHY)
