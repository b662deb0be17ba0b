"""An ended run is opened again: a retry repeats failed steps, a rerun repeats a step and all steps after it."""

from tests.unit.reference import node
from tests.unit.run_harness import Play, concluded
from windlass.core.runs.command import Conclude, Enqueue, Expand, Judge, Reopen
from windlass.core.runs.event import Expanded, Expired, RerunRequested, RetryRequested
from windlass.core.runs.run import Fan, RunState
from windlass.core.workflows.step import Foreach, Parallel

# Retry


def test_a_retry_reopens_what_failed_and_what_hung_on_it_and_keeps_what_succeeded() -> None:
    play = Play(node("a"), node("b"), node("c"), node("d", "a", "b"), node("e", "d"))
    play.end(a="s", b="f", c="t")
    assert (play.letters, play.state) == ("sftkk", RunState.FAILED)
    assert play.tell(RetryRequested()) == [Enqueue(1, 0, 1), Enqueue(2, 0, 1)]
    assert (play.letters, play.state) == ("saa..", RunState.RUNNING)
    assert play.names(play.end(b="s", c="s")) == ["d"]
    play.end(d="s")
    assert concluded(play.end(e="s")) == [RunState.COMPLETED]


def test_a_retry_begins_a_failed_step_whose_parents_stay_as_they_are() -> None:
    play = Play(node("a"), node("b", "a"), node("c", "b"))
    play.end(a="s")
    play.end(b="f")
    assert play.tell(RetryRequested()) == [Enqueue(1, 0, 1)]
    assert play.letters == "sa."


def test_a_retry_asks_ifs_again() -> None:
    play = Play(node("a"), node("b", condition="x"), node("c", "b"))
    play.judge("b", False)
    play.end(a="f")
    assert play.tell(RetryRequested()) == [Enqueue(0, 0, 1), Judge(1)]
    play.judge("b", True)
    assert play.letters == "aa."


def test_a_retry_skips_again_what_is_still_not_wanted() -> None:
    play = Play(node("a"), node("b", "a:failure"), node("c", "b"), node("d"))
    play.end(a="s", d="f")
    play.tell(RetryRequested())
    assert play.letters == "skka"
    assert concluded(play.end(d="s")) == [RunState.COMPLETED]


def test_a_retry_keeps_a_final_step_that_succeeded_and_repeats_one_that_did_not_at_the_end() -> None:
    for result, letters in [("s", "as"), ("f", "a.")]:
        play = Play(node("a"), node("z", final=True))
        play.end(a="f")
        play.end(z=result)
        play.tell(RetryRequested())
        assert play.letters == letters
        play.end(a="s")
        assert play.letters == ("ss" if result == "s" else "sa")


def test_a_retried_run_may_fail_and_be_retried_again() -> None:
    play = Play(node("a"), node("b", "a"))
    for _ in range(3):
        assert concluded(play.end(a="f")) == [RunState.FAILED]
        assert play.tell(RetryRequested()) == [Enqueue(0, 0, 1)]
        assert play.letters == "a."


def test_a_run_that_goes_on_or_completed_is_not_retried() -> None:
    play = Play(node("a"), node("b", "a"))
    assert play.tell(RetryRequested()) == []
    play.end(a="s")
    play.end(b="s")
    assert play.tell(RetryRequested()) == []


def test_a_retry_after_expiry_goes_on_where_time_ran_out() -> None:
    play = Play(node("a"), node("b", "a"), node("c", "b"))
    play.tell(Expired())
    play.end(a="s")
    assert play.letters == "scc"
    assert play.tell(RetryRequested()) == [Enqueue(1, 0, 1)]
    assert play.letters == "sa."


def test_a_retry_after_expiry_takes_the_end_of_a_step_that_is_still_held() -> None:
    play = Play(node("a"), node("b", "a"))
    play.tell(Expired())
    assert play.tell(RetryRequested()) == []
    assert play.letters == "a."
    assert play.names(play.end(a="s")) == ["b"]


def test_a_retry_with_nothing_left_to_do_concludes() -> None:
    play = Play(node("a"))
    play.tell(Expired())
    play.end(a="s")
    assert play.tell(RetryRequested()) == [Conclude(RunState.COMPLETED)]


def test_a_retried_fan_out_does_its_bad_instances_again_and_keeps_the_good_ones() -> None:
    play = Play(node("a", fan_out=Parallel(4)), node("b", "a"))
    play.end(a="sftc")
    assert play.tell(RetryRequested()) == [Reopen(0, 3)]
    assert (play.letters, play.fan("a").active) == ("a.", 3)
    assert play.end(a="ss") == []
    assert play.names(play.end(a="s")) == ["b"]


def test_a_retried_fan_out_stays_within_its_concurrency() -> None:
    play = Play(node("a", fan_out=Parallel(6), concurrency=2))
    play.end(a="sfffff")
    assert play.tell(RetryRequested()) == [Reopen(0, 2)]
    assert play.end(a="s") == [Reopen(0, 1)]
    assert play.end(a="ss") == [Reopen(0, 1), Reopen(0, 1)]
    assert play.end(a="s") == []
    assert concluded(play.end(a="s")) == [RunState.COMPLETED]


def test_a_fan_out_stopped_midway_does_again_what_went_wrong_and_then_what_was_never_begun() -> None:
    play = Play(node("a", fan_out=Parallel(5), concurrency=2))
    play.tell(Expired())
    play.end(a="cs")
    assert play.tell(RetryRequested()) == [Reopen(0, 1), Enqueue(0, 2, 1)]
    assert play.end(a="ss") == [Enqueue(0, 3, 1), Enqueue(0, 4, 1)]
    assert concluded(play.end(a="ss")) == [RunState.COMPLETED]


def test_a_fan_out_stopped_twice_forgets_none_of_its_instances() -> None:
    play = Play(node("a", fan_out=Parallel(4), concurrency=1))
    play.end(a="ffff")
    assert play.tell(RetryRequested()) == [Reopen(0, 1)]
    play.tell(Expired())
    play.end(a="c")
    assert play.letters == "c"
    assert play.tell(RetryRequested()) == [Reopen(0, 1)]
    for _ in range(3):
        assert play.end(a="s") == [Reopen(0, 1)]
    assert concluded(play.end(a="s")) == [RunState.COMPLETED]


def test_a_fan_out_still_held_when_its_run_is_retried_fills_its_slots_again() -> None:
    play = Play(node("a", fan_out=Parallel(5), concurrency=3))
    play.tell(Expired())
    play.end(a="cs")
    assert play.tell(RetryRequested()) == [Reopen(0, 1), Enqueue(0, 3, 1)]
    assert play.fan("a").active == 3


def test_a_fan_out_that_could_not_be_expanded_is_expanded_again() -> None:
    play = Play(node("a", fan_out=Foreach("input.files")))
    play.end(a="f")
    assert play.tell(RetryRequested()) == [Expand(0)]


def test_a_fan_out_behind_a_step_that_is_done_again_waits_for_it_and_starts_over() -> None:
    play = Play(node("a"), node("b", "a:failure", fan_out=Foreach("a.errors")))
    play.end(a="f")
    play.tell(Expanded(1, 2))
    play.end(b="sf")
    assert play.tell(RetryRequested()) == [Enqueue(0, 0, 1)]
    assert play.letters == "a."
    assert play.end(a="f")[-1] == Expand(1)
    assert play.tell(Expanded(1, 3)) == [Enqueue(1, 0, 3)]


def test_a_handler_that_fanned_out_is_skipped_when_the_retry_needs_it_no_more() -> None:
    play = Play(node("a"), node("b", "a:failure", fan_out=Parallel(2)))
    play.end(a="f")
    play.end(b="sf")
    play.tell(RetryRequested())
    assert concluded(play.end(a="s")) == [RunState.COMPLETED]
    assert play.letters == "sk"


def test_a_final_fan_out_that_failed_waits_again_for_everybody() -> None:
    play = Play(node("a"), node("z", final=True, fan_out=Parallel(2)))
    play.end(a="f")
    play.end(z="sf")
    assert play.tell(RetryRequested()) == [Enqueue(0, 0, 1)]
    assert play.end(a="s") == [Enqueue(1, 0, 2)]


# Rerun


def test_a_rerun_does_a_step_and_its_descendants_again_and_keeps_the_others() -> None:
    play = Play(node("a"), node("b", "a"), node("c", "b"), node("d", "a"))
    play.end(a="s")
    play.end(b="s", d="s")
    play.end(c="s")
    assert play.state is RunState.COMPLETED
    assert play.tell(RerunRequested(1)) == [Enqueue(1, 0, 1)]
    assert (play.letters, play.state) == ("sa.s", RunState.RUNNING)
    assert play.names(play.end(b="s")) == ["c"]
    assert concluded(play.end(c="s")) == [RunState.COMPLETED]


def test_a_rerun_repeats_the_final_step() -> None:
    play = Play(node("a"), node("b"), node("z", final=True))
    play.end(a="s", b="s")
    play.end(z="s")
    assert play.tell(RerunRequested(1)) == [Enqueue(1, 0, 1)]
    assert play.letters == "sa."
    assert play.names(play.end(b="f")) == ["z"]


def test_the_final_step_alone_can_be_rerun() -> None:
    play = Play(node("a"), node("z", final=True))
    play.end(a="s")
    play.end(z="s")
    assert play.tell(RerunRequested(1)) == [Enqueue(1, 0, 1)]
    assert play.letters == "sa"


def test_a_final_fan_out_that_is_rerun_is_expanded_once() -> None:
    play = Play(node("a"), node("z", final=True, fan_out=Foreach("a.files")))
    play.end(a="s")
    play.tell(Expanded(1, 0))
    assert play.tell(RerunRequested(1)) == [Expand(1)]


def test_a_rerun_does_not_ask_the_edges_of_the_chosen_step_but_its_if() -> None:
    play = Play(node("a"), node("b", "a"), node("c", "a", condition="x"))
    play.end(a="f")
    assert play.letters == "fkk"
    assert play.tell(RerunRequested(1)) == [Enqueue(1, 0, 1)]
    assert concluded(play.end(b="s")) == [RunState.FAILED]
    assert play.tell(RerunRequested(2)) == [Judge(2)]
    assert concluded(play.judge("c", False)) == [RunState.FAILED]
    assert play.letters == "fsk"


def test_a_rerun_of_a_fan_out_starts_over() -> None:
    play = Play(node("a", fan_out=Foreach("input.files"), concurrency=2), node("b", "a"))
    play.tell(Expanded(0, 3))
    play.end(a="ssf")
    assert play.tell(RerunRequested(0)) == [Expand(0)]
    assert play.tell(Expanded(0, 4)) == [Enqueue(0, 0, 2)]
    assert play.fan("a") == Fan(count=4, created=2)


def test_a_rerun_of_an_expired_run_takes_the_end_of_steps_that_are_still_held() -> None:
    play = Play(node("a", fan_out=Parallel(2)), node("b", "a"))
    play.tell(Expired())
    assert play.tell(RerunRequested(0)) == []
    assert play.letters == "a."
    assert play.end(a="s") == []
    assert play.names(play.end(a="s")) == ["b"]


def test_a_running_run_is_not_rerun() -> None:
    play = Play(node("a"))
    assert play.tell(RerunRequested(0)) == []
