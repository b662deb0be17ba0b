"""The rules by which a run goes on, one sentence each. Letters are in definition order."""

from datetime import UTC, datetime, timedelta
from itertools import permutations

import pytest
from tests.unit.reference import node

from windlass.core.command import (
    Command,
    Conclude,
    Enqueue,
    Expand,
    Judge,
    ListenUntil,
    Note,
    Reopen,
    StartChild,
    WakeAt,
    Withdraw,
)
from windlass.core.decide import decide
from windlass.core.event import Begun, CancelAsked, Ended, Event, Expanded, Expired, Judged, RerunAsked, RetryAsked
from windlass.core.plan import Plan
from windlass.core.reason import NONE_MET, Reason
from windlass.core.run import Fan, Letter, Run, RunState
from windlass.core.step import (
    Action,
    ChildAction,
    CommandAction,
    Foreach,
    HookAction,
    HttpAction,
    JobAction,
    Join,
    Parallel,
    SleepAction,
    Step,
)

NOW = datetime(2030, 1, 1, tzinfo=UTC)
WHY = Reason("test", "because")
ENOUGH = CancelAsked(Reason("user", "enough"))
STARTS = Enqueue | StartChild | WakeAt | ListenUntil | Reopen


class Play:
    """A run that is told things, and what it asked for in return."""

    def __init__(self, *steps: Step, held: bool = False) -> None:
        self.plan = Plan(steps)
        self.run = Run.new(self.plan, held=held)
        self.first = [] if held else self.tell(Begun())

    def tell(self, *events: Event) -> list[Command]:
        self.run, commands = decide(self.run, events, NOW)
        return commands

    def end(self, **letters: str) -> list[Command]:
        """Steps end, all told at once; the word `ss` ends two instances."""
        return self.tell(*(self.ended(name, letter) for name, word in letters.items() for letter in word))

    def ended(self, name: str, letter: str, count: int = 1) -> Ended:
        return Ended(self.number(name), Letter(letter), None if letter == "s" else WHY, count)

    def judge(self, name: str, holds: bool) -> list[Command]:
        return self.tell(Judged(self.number(name), holds, WHY))

    def number(self, name: str) -> int:
        return self.plan.number[name]

    def names(self, commands: list[Command]) -> list[str]:
        return [self.plan.steps[command.step].name for command in commands if isinstance(command, STARTS)]

    @property
    def letters(self) -> str:
        return self.run.letters

    @property
    def state(self) -> RunState:
        return self.run.state

    def fan(self, name: str) -> Fan:
        return self.run.fans[self.number(name)]


def concluded(commands: list[Command]) -> list[RunState]:
    return [command.state for command in commands if isinstance(command, Conclude)]


def notes(commands: list[Command]) -> list[tuple[int | None, str | None, str]]:
    return [(command.step, command.letter, command.reason.text) for command in commands if isinstance(command, Note)]


# Edges


CASCADE = {  # the seed's table: what a child does, by the parent's result and the edge's condition
    "s": {"success": "a", "failure": "k", "skipped": "k", "complete": "a"},
    "f": {"success": "k", "failure": "a", "skipped": "k", "complete": "a"},
    "k": {"success": "k", "failure": "k", "skipped": "a", "complete": "a"},
}


@pytest.mark.parametrize(
    ("result", "condition", "child"),
    [(result, condition, child) for result, row in CASCADE.items() for condition, child in row.items()],
)
def test_a_child_fires_or_is_skipped_by_the_cascade_table(result: str, condition: str, child: str) -> None:
    play = Play(node("a", condition="x"), node("b", f"a:{condition}"))
    play.judge("a", result != "k")
    if result != "k":
        play.end(a=result)
    assert play.letters == result + child


@pytest.mark.parametrize("bad", "ftc")
@pytest.mark.parametrize(("condition", "child"), CASCADE["f"].items())
def test_timed_out_and_cancelled_steps_are_failures_to_their_children(bad: str, condition: str, child: str) -> None:
    play = Play(node("a"), node("b", f"a:{condition}"))
    play.end(a=bad)
    assert play.letters == bad + child


def test_roots_begin_at_once_and_nobody_else() -> None:
    play = Play(node("a"), node("b", "a"), node("c"))
    assert play.names(play.first) == ["a", "c"]
    assert play.letters == "a.a"


def test_a_step_waits_for_all_its_parents() -> None:
    play = Play(node("a"), node("b"), node("c", "a", "b:failure"))
    assert play.end(a="s") == []
    assert play.letters == "sa."
    assert play.names(play.end(b="f")) == ["c"]
    assert play.letters == "sfa"


def test_one_edge_not_met_among_many_skips_the_step_once_all_parents_ended() -> None:
    play = Play(node("a"), node("b"), node("c", "a", "b"))
    play.end(a="f")
    assert play.letters == "fa."
    commands = play.end(b="s")
    assert play.letters == "fsk"
    assert notes(commands) == [(2, "k", "needs a to succeed, but it failed")]


def test_the_reason_of_a_skip_names_the_first_edge_not_met_whoever_ended_first() -> None:
    for order in permutations("abc"):
        play = Play(node("a"), node("b"), node("c"), node("d", "a:complete", "b", "c"))
        for name in order:
            commands = play.end(**{name: "f"})
        assert (3, "k", "needs b to succeed, but it failed") in notes(commands)


def test_parents_that_end_together_fire_their_join_once() -> None:
    parents = [node(f"p{n}") for n in range(100)]
    play = Play(*parents, node("join", *(parent.name for parent in parents)))
    commands = play.tell(*(Ended(n, Letter.SUCCEEDED) for n in range(100)))
    assert commands == [Enqueue(100, 0, 1)]


def test_one_parent_may_be_asked_twice_and_success_and_failure_can_never_both_hold() -> None:
    for result in "sf":
        play = Play(node("a"), node("b", "a:success", "a:failure"))
        play.end(a=result)
        assert play.letters == result + "k"
        play = Play(node("a"), node("b", "a:success", "a:failure", join=Join.ANY))
        play.end(a=result)
        assert play.letters == result + "a"


def test_a_skip_travels_through_all_levels_and_says_at_each_why() -> None:
    play = Play(node("a"), *(node(f"b{n}", f"b{n - 1}" if n else "a") for n in range(4)), node("c", "b3:skipped"))
    commands = play.end(a="f")
    assert play.letters == "fkkkka"
    assert notes(commands)[1:3] == [
        (1, "k", "needs a to succeed, but it failed"),
        (2, "k", "needs b0 to succeed, but it was skipped"),
    ]


def test_a_skip_of_ten_thousand_levels_is_no_matter_of_recursion() -> None:
    play = Play(node("s0"), *(node(f"s{n}", f"s{n - 1}") for n in range(1, 10_000)))
    assert concluded(play.end(s0="f")) == [RunState.FAILED]
    assert play.letters == "f" + "k" * 9_999


def test_an_any_join_begins_with_the_first_edge_met_and_once_only() -> None:
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


def test_an_if_is_asked_once_when_all_parents_ended_and_the_step_waits_for_the_answer() -> None:
    play = Play(node("a"), node("b"), node("c", "a:complete", "b:complete", condition="x"))
    assert play.end(a="s") == []
    assert play.end(b="s") == [Judge(2)]
    assert (play.letters, play.state) == ("ss.", RunState.RUNNING)
    assert play.judge("c", True) == [Note(2, Letter.ACTIVE, WHY), Enqueue(2, 0, 1)]


def test_an_if_is_asked_once_when_its_parents_end_together() -> None:
    play = Play(node("a"), node("b"), node("c", "a:complete", "b:complete", condition="x"))
    assert play.end(a="s", b="s") == [Judge(2)]


def test_a_root_may_have_an_if() -> None:
    play = Play(node("a", condition="x"))
    assert play.first == [Judge(0)]
    assert concluded(play.judge("a", False)) == [RunState.COMPLETED]


def test_an_if_that_does_not_hold_skips_the_step_with_the_reason() -> None:
    play = Play(node("a"), node("b", "a:complete", condition="x"), node("c", "b"))
    play.end(a="s")
    commands = play.judge("b", False)
    assert play.letters == "skk"
    assert commands[0] == Note(1, Letter.SKIPPED, WHY)


@pytest.mark.parametrize("result", "sftck")
def test_a_step_with_an_if_is_asked_whatever_its_parent_came_to(result: str) -> None:
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


def test_an_any_join_with_an_if_is_asked_when_all_parents_ended_and_an_edge_is_met() -> None:
    steps = node("a"), node("b"), node("c", "a", "b", join=Join.ANY, condition="x")
    play = Play(*steps)
    assert play.end(a="s") == []
    assert play.end(b="f")[-1] == Judge(2)
    play = Play(*steps)
    play.end(a="f", b="f")
    assert play.letters == "ffk"


def test_a_second_answer_to_the_same_question_is_ignored() -> None:
    for first, letter in [(True, "a"), (False, "k")]:
        play = Play(node("a", condition="x"), node("b"))
        play.judge("a", first)
        assert play.judge("a", not first) == []
        assert play.letters == letter + "a"


# The final step


@pytest.mark.parametrize("result", "sftc")
def test_the_final_step_runs_last_and_once_whatever_the_others_came_to(result: str) -> None:
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


def test_the_final_step_may_have_an_if_which_is_asked_last() -> None:
    play = Play(node("a"), node("z", final=True, condition="x"))
    assert play.end(a="s") == [Judge(1)]
    assert concluded(play.judge("z", False)) == [RunState.COMPLETED]
    assert play.letters == "sk"


def test_the_final_step_waits_for_questions_that_are_still_open() -> None:
    play = Play(node("a", condition="x"), node("z", final=True))
    assert play.first == [Judge(0)]


def test_a_run_may_consist_of_a_final_step_only() -> None:
    play = Play(node("z", final=True))
    assert play.first == [Enqueue(0, 0, 1)]
    assert play.end(z="s") == [Conclude(RunState.COMPLETED)]


def test_a_final_step_may_fan_out_over_nothing() -> None:
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
    ],
)
def test_each_action_has_its_command(action: Action, command: Command) -> None:
    assert Play(node("a", action=action)).first == [command]


def test_what_could_not_begin_fails_with_the_reason_and_its_failure_travels() -> None:
    play = Play(node("a"), node("b", "a", fan_out=Foreach("a.files")), node("c", "b"), node("d", "b:failure"))
    assert play.end(a="s") == [Expand(1)]
    commands = play.end(b="f")
    assert play.letters == "sfka"
    assert commands[0] == Note(1, Letter.FAILED, WHY)


# Fan-out


def test_a_number_of_copies_is_created_at_once() -> None:
    play = Play(node("a", fan_out=Parallel(4)))
    assert play.first == [Enqueue(0, 0, 4)]
    assert play.fan("a") == Fan(count=4, created=4)


def test_children_of_a_fanned_out_step_are_runs_too() -> None:
    assert Play(node("a", action=ChildAction("w"), fan_out=Parallel(3))).first == [StartChild(0, 0, 3)]


@pytest.mark.parametrize("fan_out", [Parallel("d.count"), Foreach("d.files")])
def test_a_path_is_expanded_once_the_parents_ended(fan_out: Parallel | Foreach) -> None:
    play = Play(node("d"), node("a", "d", fan_out=fan_out))
    assert play.end(d="s") == [Expand(1)]
    assert play.letters == "s."
    assert play.tell(Expanded(1, 3)) == [Enqueue(1, 0, 3)]


def test_an_if_is_asked_before_a_fan_out_is_expanded() -> None:
    play = Play(node("a", condition="x", fan_out=Foreach("input.files")))
    assert play.first == [Judge(0)]
    assert play.judge("a", True) == [Expand(0)]


@pytest.mark.parametrize("fan_out", [Parallel(0), Foreach("d.files")])
def test_a_fan_out_over_nothing_succeeds_and_its_children_run(fan_out: Parallel | Foreach) -> None:
    play = Play(node("d"), node("a", "d", fan_out=fan_out), node("b", "a"))
    commands = play.end(d="s")
    if commands == [Expand(1)]:
        commands = play.tell(Expanded(1, 0))
    assert play.letters == "ssa"
    assert notes(commands) == [(1, "s", "there was nothing to fan out over")]


def test_an_any_join_whose_parents_end_together_is_expanded_once() -> None:
    play = Play(node("a"), node("b"), node("c", "a", "b", join=Join.ANY, fan_out=Foreach("input.files")))
    assert play.end(a="s", b="s") == [Expand(2)]


def test_a_second_expansion_is_ignored() -> None:
    play = Play(node("a", fan_out=Foreach("input.files")))
    play.tell(Expanded(0, 2))
    assert play.tell(Expanded(0, 5)) == []
    assert play.fan("a").count == 2


def test_a_fanned_out_step_succeeds_when_all_its_instances_did() -> None:
    play = Play(node("a", fan_out=Parallel(3)), node("b", "a"))
    assert play.end(a="ss") == []
    assert play.letters == "a."
    assert play.names(play.end(a="s")) == ["b"]


def test_a_failed_instance_leaves_its_siblings_alone_and_fails_the_step_in_the_end() -> None:
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


def test_no_more_instances_than_its_concurrency_are_under_way() -> None:
    play = Play(node("a", fan_out=Parallel(5), concurrency=2))
    assert play.first == [Enqueue(0, 0, 2)]
    assert play.end(a="s") == [Enqueue(0, 2, 1)]
    assert play.tell(play.ended("a", "s", 2)) == [Enqueue(0, 3, 2)]
    assert play.end(a="s") == []
    assert play.fan("a").active == 1
    assert play.end(a="s") == [Conclude(RunState.COMPLETED)]


def test_a_failed_instance_frees_its_slot() -> None:
    play = Play(node("a", fan_out=Parallel(3), concurrency=1))
    assert play.end(a="f") == [Enqueue(0, 1, 1)]
    assert play.end(a="c") == [Enqueue(0, 2, 1)]
    play.end(a="s")
    assert play.letters == "f"


def test_a_concurrency_wider_than_the_fan_out_is_no_concurrency() -> None:
    assert Play(node("a", fan_out=Parallel(2), concurrency=50)).first == [Enqueue(0, 0, 2)]


def test_a_hundred_thousand_instances_are_a_few_numbers() -> None:
    play = Play(node("a", fan_out=Foreach("input.files"), concurrency=50))
    assert play.tell(Expanded(0, 100_000)) == [Enqueue(0, 0, 50)]
    for first in range(50, 100_000, 50):
        assert play.tell(play.ended("a", "s", 50)) == [Enqueue(0, first, 50)]
    assert play.tell(play.ended("a", "s", 50)) == [Conclude(RunState.COMPLETED)]


# Stale events


@pytest.mark.parametrize("late", "sftc")
def test_a_second_end_of_a_step_is_ignored(late: str) -> None:
    play = Play(node("a"), node("b", "a"), node("c", "a:failure"))
    play.end(a="s")
    assert play.end(a=late) == []
    assert play.letters == "sak"


def test_a_step_said_to_end_twice_in_one_breath_ends_as_it_was_first_said() -> None:
    play = Play(node("a"), node("b", "a"))
    play.end(a="sf")
    assert play.letters == "sa"


def test_the_end_of_a_skipped_step_is_ignored() -> None:
    play = Play(node("a"), node("b", "a"), node("c"))
    play.end(a="f")
    assert play.end(b="s") == []
    assert play.letters == "fka"


@pytest.mark.parametrize("early", "stc")
def test_a_step_that_waits_cannot_succeed_time_out_or_be_cancelled_from_outside(early: str) -> None:
    play = Play(node("a"), node("b", "a"))
    assert play.end(b=early) == []
    assert play.letters == "a."


def test_saying_that_a_run_begins_twice_changes_nothing() -> None:
    play = Play(node("a"), node("b", "a"))
    assert play.tell(Begun()) == []


def test_an_ended_run_is_not_moved_by_anything_stale() -> None:
    play = Play(node("a", condition="x"), node("b", "a"), node("c", fan_out=Foreach("input.files")))
    play.judge("a", True)
    play.tell(Expanded(2, 1))
    play.end(a="s", c="s")
    play.end(b="s")
    ended = play.run
    assert play.state is RunState.COMPLETED
    play.end(a="f", b="f", c="f")
    assert play.tell(Begun(), Expired(), ENOUGH, RetryAsked(), Judged(0, False, WHY), Expanded(2, 3)) == []
    assert play.run == ended


def test_nothing_said_nothing_done() -> None:
    play = Play(node("a"), node("b", "a"))
    before = play.run
    assert play.tell() == []
    assert play.run == before


def test_the_run_given_is_not_touched() -> None:
    play = Play(node("a", fan_out=Parallel(2)), node("b", "a"))
    before = play.run
    play.end(a="sf")
    assert (before.letters, before.fans) == ("a.", {0: Fan(count=2, created=2)})


# The end


def test_a_run_goes_on_while_any_step_waits_or_is_active() -> None:
    play = Play(node("a"), node("b"), node("c", "b"))
    for letters in ({"a": "f"}, {"b": "s"}):
        assert concluded(play.end(**letters)) == []
        assert play.state is RunState.RUNNING
    assert concluded(play.end(c="s")) == [RunState.FAILED]


def test_all_steps_succeeded_completes_the_run() -> None:
    play = Play(node("a"), node("b", "a"))
    play.end(a="s")
    assert play.end(b="s") == [Conclude(RunState.COMPLETED)]
    assert play.state is RunState.COMPLETED


def test_a_handled_failure_completes_the_run() -> None:
    play = Play(node("a"), node("b", "a"), node("alert", "a:failure"))
    play.end(a="f")
    assert concluded(play.end(alert="s")) == [RunState.COMPLETED]


# The hangs of the specification's own pseudo-code


def test_a_failing_step_with_dependents_ends_its_run() -> None:
    play = Play(node("a"), node("b", "a"), node("c", "b"))
    assert concluded(play.end(a="f")) == [RunState.FAILED]
    assert play.letters == "fkk"


def test_a_timed_out_step_with_dependents_ends_its_run() -> None:
    play = Play(node("a"), node("b", "a"), node("c", "b"))
    assert concluded(play.end(a="t")) == [RunState.FAILED]
    assert play.letters == "tkk"


@pytest.mark.parametrize("result", "sft")
def test_a_step_with_on_failure_run_gets_ready_whatever_its_parents_came_to(result: str) -> None:
    play = Play(node("a"), node("b", "a"), node("c", "a:complete", "b:complete"), node("d", "c"))
    play.end(a=result)
    if result == "s":
        play.end(b="s")
    play.end(c="s")
    assert play.letters == result + ("s" if result == "s" else "k") + "sa"  # and the skip stops there
    assert concluded(play.end(d="s")) == [RunState.COMPLETED if result == "s" else RunState.FAILED]


def test_a_failure_beside_a_branch_that_finishes_later_ends_its_run() -> None:
    play = Play(node("a"), node("b", "a"), node("c"), node("d", "c"))
    play.end(a="f")
    play.end(c="s")
    assert concluded(play.end(d="s")) == [RunState.FAILED]


def test_a_fan_out_whose_upstream_failed_is_skipped_and_never_expanded() -> None:
    play = Play(node("d"), node("a", "d", fan_out=Foreach("d.files")), node("b", "a"))
    commands = play.end(d="f")
    assert Expand(1) not in commands
    assert (play.letters, concluded(commands)) == ("fkk", [RunState.FAILED])


def test_a_fan_out_over_nothing_ends_its_run() -> None:
    play = Play(node("d"), node("a", "d", fan_out=Foreach("d.files")))
    play.end(d="s")
    assert concluded(play.tell(Expanded(1, 0))) == [RunState.COMPLETED]


def test_a_fan_out_that_cannot_be_expanded_ends_its_run() -> None:
    play = Play(node("d"), node("a", "d", fan_out=Foreach("d.files")), node("b", "a"))
    play.end(d="s")
    assert concluded(play.end(a="f")) == [RunState.FAILED]
    assert play.letters == "sfk"


# Holding, cancel and expiry


def test_a_held_run_does_nothing_until_it_begins() -> None:
    play = Play(node("a"), node("b", "a"), held=True)
    assert play.tell() == []
    assert (play.state, play.letters) == (RunState.PENDING, "..")
    assert play.tell(Begun()) == [Enqueue(0, 0, 1)]
    assert (play.state, play.letters) == (RunState.RUNNING, "a.")


def test_a_held_run_takes_no_answers_and_no_failures() -> None:
    play = Play(node("a", condition="x"), node("b", fan_out=Foreach("input.files")), held=True)
    assert play.tell(Judged(0, True, WHY), Judged(0, False, WHY), Expanded(1, 2), Ended(0, Letter.FAILED, WHY)) == []
    assert (play.state, play.letters) == (RunState.PENDING, "..")


@pytest.mark.parametrize(("stop", "state"), [(ENOUGH, RunState.CANCELLED), (Expired(), RunState.TIMEOUT)])
def test_a_held_run_can_be_stopped_and_then_never_begins(stop: Event, state: RunState) -> None:
    play = Play(node("a"), node("z", final=True), held=True)
    assert concluded(play.tell(stop)) == [state]
    assert play.tell(Begun()) == []
    assert play.letters == "cc"


@pytest.mark.parametrize(("stop", "state"), [(ENOUGH, RunState.CANCELLED), (Expired(), RunState.TIMEOUT)])
def test_stopping_a_run_cancels_what_waits_and_withdraws_what_is_active(stop: Event, state: RunState) -> None:
    play = Play(node("a"), node("b"), node("c", "a"), node("z", final=True))
    play.end(b="s")
    commands = play.tell(stop)
    assert play.letters == "ascc"
    assert [command for command in commands if not isinstance(command, Note)] == [Withdraw(0), Conclude(state)]
    assert [command.step for command in commands if isinstance(command, Note)] == [None]
    assert play.state is state


@pytest.mark.parametrize("late", "sftc")
def test_a_late_outcome_is_recorded_and_advances_nothing(late: str) -> None:
    play = Play(node("a"), node("b", "a:complete"), node("z", final=True))
    play.tell(ENOUGH)
    assert [command for command in play.end(a=late) if not isinstance(command, Note)] == []
    assert (play.letters, play.state) == (late + "cc", RunState.CANCELLED)


def test_a_stopped_fan_out_creates_no_more_instances_and_ends_when_the_last_one_did() -> None:
    play = Play(node("a", fan_out=Parallel(5), concurrency=2))
    play.end(a="s")
    assert Withdraw(0) in play.tell(ENOUGH)
    assert play.end(a="s") == []
    assert play.letters == "a"
    assert notes(play.end(a="c")) == [(0, "c", "3 of 5 instances were cancelled")]
    assert play.letters == "c"


def test_answers_that_come_after_a_cancel_start_nothing() -> None:
    play = Play(node("a", condition="x"), node("b", fan_out=Foreach("input.files")))
    play.tell(ENOUGH)
    assert play.tell(Judged(0, True, WHY), Expanded(1, 3), play.ended("b", "f")) == []
    assert play.letters == "cc"


def test_the_second_stop_is_ignored() -> None:
    play = Play(node("a"))
    play.tell(ENOUGH)
    assert play.tell(ENOUGH, Expired()) == []
    assert play.state is RunState.CANCELLED


def test_a_cancel_told_with_an_outcome_records_it_and_starts_nothing() -> None:
    told: list[Event] = [Ended(0, Letter.SUCCEEDED), ENOUGH]
    for events in permutations(told):
        play = Play(node("a"), node("b", "a"))
        commands = play.tell(*events)
        assert (play.letters, play.state) == ("sc", RunState.CANCELLED)
        assert play.names(commands) == []
        assert concluded(commands) == [RunState.CANCELLED]


def test_a_cancelled_run_is_neither_retried_nor_rerun() -> None:
    play = Play(node("a"), node("b", "a"))
    play.tell(ENOUGH)
    assert play.tell(RetryAsked(), RerunAsked(0)) == []
    assert (play.letters, play.state) == ("ac", RunState.CANCELLED)


# Retry


def test_a_retry_reopens_what_failed_and_what_hung_on_it_and_keeps_what_succeeded() -> None:
    play = Play(node("a"), node("b"), node("c"), node("d", "a", "b"), node("e", "d"))
    play.end(a="s", b="f", c="t")
    assert (play.letters, play.state) == ("sftkk", RunState.FAILED)
    assert play.tell(RetryAsked()) == [Enqueue(1, 0, 1), Enqueue(2, 0, 1)]
    assert (play.letters, play.state) == ("saa..", RunState.RUNNING)
    assert play.names(play.end(b="s", c="s")) == ["d"]
    play.end(d="s")
    assert concluded(play.end(e="s")) == [RunState.COMPLETED]


def test_a_retry_begins_a_failed_step_whose_parents_stay_as_they_are() -> None:
    play = Play(node("a"), node("b", "a"), node("c", "b"))
    play.end(a="s")
    play.end(b="f")
    assert play.tell(RetryAsked()) == [Enqueue(1, 0, 1)]
    assert play.letters == "sa."


def test_a_retry_asks_ifs_again() -> None:
    play = Play(node("a"), node("b", condition="x"), node("c", "b"))
    play.judge("b", False)
    play.end(a="f")
    assert play.tell(RetryAsked()) == [Enqueue(0, 0, 1), Judge(1)]
    play.judge("b", True)
    assert play.letters == "aa."


def test_a_retry_skips_again_what_is_still_not_wanted() -> None:
    play = Play(node("a"), node("b", "a:failure"), node("c", "b"), node("d"))
    play.end(a="s", d="f")
    play.tell(RetryAsked())
    assert play.letters == "skka"
    assert concluded(play.end(d="s")) == [RunState.COMPLETED]


def test_a_retry_keeps_a_final_step_that_succeeded_and_repeats_one_that_did_not_at_the_end() -> None:
    for result, letters in [("s", "as"), ("f", "a.")]:
        play = Play(node("a"), node("z", final=True))
        play.end(a="f")
        play.end(z=result)
        play.tell(RetryAsked())
        assert play.letters == letters
        play.end(a="s")
        assert play.letters == ("ss" if result == "s" else "sa")


def test_a_retried_run_may_fail_and_be_retried_again() -> None:
    play = Play(node("a"), node("b", "a"))
    for _ in range(3):
        assert concluded(play.end(a="f")) == [RunState.FAILED]
        assert play.tell(RetryAsked()) == [Enqueue(0, 0, 1)]
        assert play.letters == "a."


def test_a_run_that_goes_on_or_completed_is_not_retried() -> None:
    play = Play(node("a"), node("b", "a"))
    assert play.tell(RetryAsked()) == []
    play.end(a="s")
    play.end(b="s")
    assert play.tell(RetryAsked()) == []


def test_a_retry_after_expiry_goes_on_where_time_ran_out() -> None:
    play = Play(node("a"), node("b", "a"), node("c", "b"))
    play.tell(Expired())
    play.end(a="s")
    assert play.letters == "scc"
    assert play.tell(RetryAsked()) == [Enqueue(1, 0, 1)]
    assert play.letters == "sa."


def test_a_retry_after_expiry_takes_the_end_of_a_step_that_is_still_held() -> None:
    play = Play(node("a"), node("b", "a"))
    play.tell(Expired())
    assert play.tell(RetryAsked()) == []
    assert play.letters == "a."
    assert play.names(play.end(a="s")) == ["b"]


def test_a_retry_with_nothing_left_to_do_concludes() -> None:
    play = Play(node("a"))
    play.tell(Expired())
    play.end(a="s")
    assert play.tell(RetryAsked()) == [Conclude(RunState.COMPLETED)]


def test_a_retried_fan_out_does_its_bad_instances_again_and_keeps_the_good_ones() -> None:
    play = Play(node("a", fan_out=Parallel(4)), node("b", "a"))
    play.end(a="sftc")
    assert play.tell(RetryAsked()) == [Reopen(0, 3)]
    assert (play.letters, play.fan("a").active) == ("a.", 3)
    assert play.end(a="ss") == []
    assert play.names(play.end(a="s")) == ["b"]


def test_a_retried_fan_out_stays_within_its_concurrency() -> None:
    play = Play(node("a", fan_out=Parallel(6), concurrency=2))
    play.end(a="sfffff")
    assert play.tell(RetryAsked()) == [Reopen(0, 2)]
    assert play.end(a="s") == [Reopen(0, 1)]
    assert play.end(a="ss") == [Reopen(0, 1), Reopen(0, 1)]
    assert play.end(a="s") == []
    assert concluded(play.end(a="s")) == [RunState.COMPLETED]


def test_a_fan_out_stopped_midway_does_again_what_went_wrong_and_then_what_was_never_begun() -> None:
    play = Play(node("a", fan_out=Parallel(5), concurrency=2))
    play.tell(Expired())
    play.end(a="cs")
    assert play.tell(RetryAsked()) == [Reopen(0, 1), Enqueue(0, 2, 1)]
    assert play.end(a="ss") == [Enqueue(0, 3, 1), Enqueue(0, 4, 1)]
    assert concluded(play.end(a="ss")) == [RunState.COMPLETED]


def test_a_fan_out_stopped_twice_forgets_none_of_its_instances() -> None:
    play = Play(node("a", fan_out=Parallel(4), concurrency=1))
    play.end(a="ffff")
    assert play.tell(RetryAsked()) == [Reopen(0, 1)]
    play.tell(Expired())
    play.end(a="c")
    assert play.letters == "c"
    assert play.tell(RetryAsked()) == [Reopen(0, 1)]
    for _ in range(3):
        assert play.end(a="s") == [Reopen(0, 1)]
    assert concluded(play.end(a="s")) == [RunState.COMPLETED]


def test_a_fan_out_still_held_when_its_run_is_retried_fills_its_slots_again() -> None:
    play = Play(node("a", fan_out=Parallel(5), concurrency=3))
    play.tell(Expired())
    play.end(a="cs")
    assert play.tell(RetryAsked()) == [Reopen(0, 1), Enqueue(0, 3, 1)]
    assert play.fan("a").active == 3


def test_a_fan_out_that_could_not_be_expanded_is_expanded_again() -> None:
    play = Play(node("a", fan_out=Foreach("input.files")))
    play.end(a="f")
    assert play.tell(RetryAsked()) == [Expand(0)]


def test_a_fan_out_behind_a_step_that_is_done_again_waits_for_it_and_starts_over() -> None:
    play = Play(node("a"), node("b", "a:failure", fan_out=Foreach("a.errors")))
    play.end(a="f")
    play.tell(Expanded(1, 2))
    play.end(b="sf")
    assert play.tell(RetryAsked()) == [Enqueue(0, 0, 1)]
    assert play.letters == "a."
    assert play.end(a="f")[-1] == Expand(1)
    assert play.tell(Expanded(1, 3)) == [Enqueue(1, 0, 3)]


def test_a_handler_that_fanned_out_is_skipped_when_the_retry_needs_it_no_more() -> None:
    play = Play(node("a"), node("b", "a:failure", fan_out=Parallel(2)))
    play.end(a="f")
    play.end(b="sf")
    play.tell(RetryAsked())
    assert concluded(play.end(a="s")) == [RunState.COMPLETED]
    assert play.letters == "sk"


def test_a_final_fan_out_that_failed_waits_again_for_everybody() -> None:
    play = Play(node("a"), node("z", final=True, fan_out=Parallel(2)))
    play.end(a="f")
    play.end(z="sf")
    assert play.tell(RetryAsked()) == [Enqueue(0, 0, 1)]
    assert play.end(a="s") == [Enqueue(1, 0, 2)]


# Rerun


def test_a_rerun_does_a_step_and_its_descendants_again_and_keeps_the_others() -> None:
    play = Play(node("a"), node("b", "a"), node("c", "b"), node("d", "a"))
    play.end(a="s")
    play.end(b="s", d="s")
    play.end(c="s")
    assert play.state is RunState.COMPLETED
    assert play.tell(RerunAsked(1)) == [Enqueue(1, 0, 1)]
    assert (play.letters, play.state) == ("sa.s", RunState.RUNNING)
    assert play.names(play.end(b="s")) == ["c"]
    assert concluded(play.end(c="s")) == [RunState.COMPLETED]


def test_a_rerun_repeats_the_final_step() -> None:
    play = Play(node("a"), node("b"), node("z", final=True))
    play.end(a="s", b="s")
    play.end(z="s")
    assert play.tell(RerunAsked(1)) == [Enqueue(1, 0, 1)]
    assert play.letters == "sa."
    assert play.names(play.end(b="f")) == ["z"]


def test_the_final_step_alone_can_be_rerun() -> None:
    play = Play(node("a"), node("z", final=True))
    play.end(a="s")
    play.end(z="s")
    assert play.tell(RerunAsked(1)) == [Enqueue(1, 0, 1)]
    assert play.letters == "sa"


def test_a_final_fan_out_that_is_rerun_is_expanded_once() -> None:
    play = Play(node("a"), node("z", final=True, fan_out=Foreach("a.files")))
    play.end(a="s")
    play.tell(Expanded(1, 0))
    assert play.tell(RerunAsked(1)) == [Expand(1)]


def test_a_rerun_does_not_ask_the_edges_of_the_chosen_step_but_its_if() -> None:
    play = Play(node("a"), node("b", "a"), node("c", "a", condition="x"))
    play.end(a="f")
    assert play.letters == "fkk"
    assert play.tell(RerunAsked(1)) == [Enqueue(1, 0, 1)]
    assert concluded(play.end(b="s")) == [RunState.FAILED]
    assert play.tell(RerunAsked(2)) == [Judge(2)]
    assert concluded(play.judge("c", False)) == [RunState.FAILED]
    assert play.letters == "fsk"


def test_a_rerun_of_a_fan_out_starts_over() -> None:
    play = Play(node("a", fan_out=Foreach("input.files"), concurrency=2), node("b", "a"))
    play.tell(Expanded(0, 3))
    play.end(a="ssf")
    assert play.tell(RerunAsked(0)) == [Expand(0)]
    assert play.tell(Expanded(0, 4)) == [Enqueue(0, 0, 2)]
    assert play.fan("a") == Fan(count=4, created=2)


def test_a_rerun_of_an_expired_run_takes_the_end_of_steps_that_are_still_held() -> None:
    play = Play(node("a", fan_out=Parallel(2)), node("b", "a"))
    play.tell(Expired())
    assert play.tell(RerunAsked(0)) == []
    assert play.letters == "a."
    assert play.end(a="s") == []
    assert play.names(play.end(a="s")) == ["b"]


def test_a_running_run_is_not_rerun() -> None:
    play = Play(node("a"))
    assert play.tell(RerunAsked(0)) == []


def test_a_step_that_was_begun_may_still_be_skipped_by_its_holder() -> None:
    play = Play(node("a"), node("b", "a"))
    assert Note(0, Letter.SKIPPED, WHY) in play.end(a="k")
    assert (play.letters, play.state) == ("kk", "completed")


def test_a_step_whose_turn_has_not_come_may_be_skipped() -> None:
    play = Play(node("a"), node("b", "a"))
    play.end(b="k")
    assert play.letters == "ak"
