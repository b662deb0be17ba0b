"""An ended run is opened again: a retry repeats failed steps, a rerun repeats a step and all steps after it."""

from tests.unit.reference import node
from tests.unit.run_harness import Play, concluded
from windlass.core.runs.command import Conclude, Enqueue, Expand, Judge, Reopen
from windlass.core.runs.event import Expanded, Expired, RerunRequested, RetryRequested
from windlass.core.runs.run import Fan, RunState
from windlass.core.workflows.step import Foreach, Parallel

# Retry


def test_a_retry_reopens_failed_steps_and_their_descendants_and_keeps_successful_ones() -> None:
    play = Play(node("a"), node("b"), node("c"), node("d", "a", "b"), node("e", "d"))
    play.end(a="s", b="f", c="t")
    assert (play.letters, play.state) == ("sftkk", RunState.FAILED)
    assert play.send(RetryRequested()) == [Enqueue(1, 0, 1), Enqueue(2, 0, 1)]
    assert (play.letters, play.state) == ("saa..", RunState.RUNNING)
    assert play.names(play.end(b="s", c="s")) == ["d"]
    play.end(d="s")
    assert concluded(play.end(e="s")) == [RunState.COMPLETED]


def test_a_retry_starts_a_failed_step_whose_parents_are_kept() -> None:
    play = Play(node("a"), node("b", "a"), node("c", "b"))
    play.end(a="s")
    play.end(b="f")
    assert play.send(RetryRequested()) == [Enqueue(1, 0, 1)]
    assert play.letters == "sa."


def test_a_retry_evaluates_ifs_again() -> None:
    play = Play(node("a"), node("b", condition="x"), node("c", "b"))
    play.judge("b", False)
    play.end(a="f")
    assert play.send(RetryRequested()) == [Enqueue(0, 0, 1), Judge(1)]
    play.judge("b", True)
    assert play.letters == "aa."


def test_a_retry_skips_a_step_again_if_its_edges_are_still_not_met() -> None:
    play = Play(node("a"), node("b", "a:failure"), node("c", "b"), node("d"))
    play.end(a="s", d="f")
    play.send(RetryRequested())
    assert play.letters == "skka"
    assert concluded(play.end(d="s")) == [RunState.COMPLETED]


def test_a_retry_keeps_a_successful_final_step_and_repeats_a_failed_one_at_the_end() -> None:
    for result, letters in [("s", "as"), ("f", "a.")]:
        play = Play(node("a"), node("z", final=True))
        play.end(a="f")
        play.end(z=result)
        play.send(RetryRequested())
        assert play.letters == letters
        play.end(a="s")
        assert play.letters == ("ss" if result == "s" else "sa")


def test_a_retried_run_may_fail_and_be_retried_again() -> None:
    play = Play(node("a"), node("b", "a"))
    for _ in range(3):
        assert concluded(play.end(a="f")) == [RunState.FAILED]
        assert play.send(RetryRequested()) == [Enqueue(0, 0, 1)]
        assert play.letters == "a."


def test_a_running_or_completed_run_is_not_retried() -> None:
    play = Play(node("a"), node("b", "a"))
    assert play.send(RetryRequested()) == []
    play.end(a="s")
    play.end(b="s")
    assert play.send(RetryRequested()) == []


def test_a_retry_after_expiry_continues_where_the_run_expired() -> None:
    play = Play(node("a"), node("b", "a"), node("c", "b"))
    play.send(Expired())
    play.end(a="s")
    assert play.letters == "scc"
    assert play.send(RetryRequested()) == [Enqueue(1, 0, 1)]
    assert play.letters == "sa."


def test_a_retry_after_expiry_uses_the_outcome_of_a_step_that_is_still_active() -> None:
    play = Play(node("a"), node("b", "a"))
    play.send(Expired())
    assert play.send(RetryRequested()) == []
    assert play.letters == "a."
    assert play.names(play.end(a="s")) == ["b"]


def test_a_retry_with_nothing_left_to_do_concludes_the_run() -> None:
    play = Play(node("a"))
    play.send(Expired())
    play.end(a="s")
    assert play.send(RetryRequested()) == [Conclude(RunState.COMPLETED)]


def test_a_retried_fan_out_repeats_failed_instances_and_keeps_successful_ones() -> None:
    play = Play(node("a", fan_out=Parallel(4)), node("b", "a"))
    play.end(a="sftc")
    assert play.send(RetryRequested()) == [Reopen(0, 3)]
    assert (play.letters, play.fan("a").active) == ("a.", 3)
    assert play.end(a="ss") == []
    assert play.names(play.end(a="s")) == ["b"]


def test_a_retried_fan_out_stays_within_its_concurrency() -> None:
    play = Play(node("a", fan_out=Parallel(6), concurrency=2))
    play.end(a="sfffff")
    assert play.send(RetryRequested()) == [Reopen(0, 2)]
    assert play.end(a="s") == [Reopen(0, 1)]
    assert play.end(a="ss") == [Reopen(0, 1), Reopen(0, 1)]
    assert play.end(a="s") == []
    assert concluded(play.end(a="s")) == [RunState.COMPLETED]


def test_a_retried_fan_out_reopens_cancelled_instances_and_then_creates_missing_ones() -> None:
    play = Play(node("a", fan_out=Parallel(5), concurrency=2))
    play.send(Expired())
    play.end(a="cs")
    assert play.send(RetryRequested()) == [Reopen(0, 1), Enqueue(0, 2, 1)]
    assert play.end(a="ss") == [Enqueue(0, 3, 1), Enqueue(0, 4, 1)]
    assert concluded(play.end(a="ss")) == [RunState.COMPLETED]


def test_a_fan_out_stopped_twice_loses_none_of_its_instances() -> None:
    play = Play(node("a", fan_out=Parallel(4), concurrency=1))
    play.end(a="ffff")
    assert play.send(RetryRequested()) == [Reopen(0, 1)]
    play.send(Expired())
    play.end(a="c")
    assert play.letters == "c"
    assert play.send(RetryRequested()) == [Reopen(0, 1)]
    for _ in range(3):
        assert play.end(a="s") == [Reopen(0, 1)]
    assert concluded(play.end(a="s")) == [RunState.COMPLETED]


def test_a_fan_out_that_is_still_active_when_its_run_is_retried_fills_its_free_slots() -> None:
    play = Play(node("a", fan_out=Parallel(5), concurrency=3))
    play.send(Expired())
    play.end(a="cs")
    assert play.send(RetryRequested()) == [Reopen(0, 1), Enqueue(0, 3, 1)]
    assert play.fan("a").active == 3


def test_a_retry_expands_a_fan_out_again_that_could_not_be_expanded() -> None:
    play = Play(node("a", fan_out=Foreach("input.files")))
    play.end(a="f")
    assert play.send(RetryRequested()) == [Expand(0)]


def test_a_fan_out_after_a_retried_step_waits_for_it_and_starts_over() -> None:
    play = Play(node("a"), node("b", "a:failure", fan_out=Foreach("a.errors")))
    play.end(a="f")
    play.send(Expanded(1, 2))
    play.end(b="sf")
    assert play.send(RetryRequested()) == [Enqueue(0, 0, 1)]
    assert play.letters == "a."
    assert play.end(a="f")[-1] == Expand(1)
    assert play.send(Expanded(1, 3)) == [Enqueue(1, 0, 3)]


def test_a_fanned_out_failure_step_is_skipped_when_the_retry_succeeds() -> None:
    play = Play(node("a"), node("b", "a:failure", fan_out=Parallel(2)))
    play.end(a="f")
    play.end(b="sf")
    play.send(RetryRequested())
    assert concluded(play.end(a="s")) == [RunState.COMPLETED]
    assert play.letters == "sk"


def test_a_failed_final_fan_out_waits_again_for_all_other_steps() -> None:
    play = Play(node("a"), node("z", final=True, fan_out=Parallel(2)))
    play.end(a="f")
    play.end(z="sf")
    assert play.send(RetryRequested()) == [Enqueue(0, 0, 1)]
    assert play.end(a="s") == [Enqueue(1, 0, 2)]


# Rerun


def test_a_rerun_repeats_a_step_and_its_descendants_and_keeps_the_others() -> None:
    play = Play(node("a"), node("b", "a"), node("c", "b"), node("d", "a"))
    play.end(a="s")
    play.end(b="s", d="s")
    play.end(c="s")
    assert play.state is RunState.COMPLETED
    assert play.send(RerunRequested(1)) == [Enqueue(1, 0, 1)]
    assert (play.letters, play.state) == ("sa.s", RunState.RUNNING)
    assert play.names(play.end(b="s")) == ["c"]
    assert concluded(play.end(c="s")) == [RunState.COMPLETED]


def test_a_rerun_repeats_the_final_step() -> None:
    play = Play(node("a"), node("b"), node("z", final=True))
    play.end(a="s", b="s")
    play.end(z="s")
    assert play.send(RerunRequested(1)) == [Enqueue(1, 0, 1)]
    assert play.letters == "sa."
    assert play.names(play.end(b="f")) == ["z"]


def test_the_final_step_alone_can_be_rerun() -> None:
    play = Play(node("a"), node("z", final=True))
    play.end(a="s")
    play.end(z="s")
    assert play.send(RerunRequested(1)) == [Enqueue(1, 0, 1)]
    assert play.letters == "sa"


def test_a_final_fan_out_that_is_rerun_is_expanded_once() -> None:
    play = Play(node("a"), node("z", final=True, fan_out=Foreach("a.files")))
    play.end(a="s")
    play.send(Expanded(1, 0))
    assert play.send(RerunRequested(1)) == [Expand(1)]


def test_a_rerun_ignores_the_edges_of_the_chosen_step_but_evaluates_its_if() -> None:
    play = Play(node("a"), node("b", "a"), node("c", "a", condition="x"))
    play.end(a="f")
    assert play.letters == "fkk"
    assert play.send(RerunRequested(1)) == [Enqueue(1, 0, 1)]
    assert concluded(play.end(b="s")) == [RunState.FAILED]
    assert play.send(RerunRequested(2)) == [Judge(2)]
    assert concluded(play.judge("c", False)) == [RunState.FAILED]
    assert play.letters == "fsk"


def test_a_rerun_of_a_fan_out_starts_over() -> None:
    play = Play(node("a", fan_out=Foreach("input.files"), concurrency=2), node("b", "a"))
    play.send(Expanded(0, 3))
    play.end(a="ssf")
    assert play.send(RerunRequested(0)) == [Expand(0)]
    assert play.send(Expanded(0, 4)) == [Enqueue(0, 0, 2)]
    assert play.fan("a") == Fan(count=4, created=2)


def test_a_rerun_of_an_expired_run_uses_the_outcomes_of_steps_that_are_still_active() -> None:
    play = Play(node("a", fan_out=Parallel(2)), node("b", "a"))
    play.send(Expired())
    assert play.send(RerunRequested(0)) == []
    assert play.letters == "a."
    assert play.end(a="s") == []
    assert play.names(play.end(a="s")) == ["b"]


def test_a_running_run_is_not_rerun() -> None:
    play = Play(node("a"))
    assert play.send(RerunRequested(0)) == []
