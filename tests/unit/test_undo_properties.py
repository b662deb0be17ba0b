"""Random graphs with compensations: properties of every run that is undone, with any events meanwhile."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.decide_harness import NOW, Scene, Shell, all_good, compensated_scenes, few, play, seeds
from tests.unit.reference import results, verdict
from windlass.core.runs.decide import decide
from windlass.core.runs.event import Begun, CancelRequested, Expired, UndoRequested
from windlass.core.runs.event import RetryRequested as Retry
from windlass.core.runs.run import Reason, RunState, read_counters
from windlass.core.workflows.step import Step

CANCEL = CancelRequested(Reason("user", "enough"), compensate=True)
STOPS = [CANCEL, Expired(), CancelRequested(Reason("user", "enough"))]


def own(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    return tuple(step for step in steps if step.compensates is None)


def succeeded(shell: Shell) -> set[str]:
    """Return the steps that succeeded and have a compensation."""
    undoable = {step.compensates for step in shell.steps if step.compensates}
    return {name for name, letter in shell.known.items() if letter == "s" and name in undoable}


def undone_in_reverse(shell: Shell) -> None:
    """Check that every successful step was undone once, in reverse order of success."""
    rank = {name: n for n, names in enumerate(shell.completions) for name in names}
    nothing = {s.name for s in shell.steps if s.fan_out and s.name not in fanned(shell)}  # empty fan-outs
    assert set(shell.undone) | (succeeded(shell) & nothing) == succeeded(shell)
    assert len(set(shell.undone)) == len(shell.undone)
    order = [rank[name] for name in shell.undone]
    assert order == sorted(order, reverse=True)


def fanned(shell: Shell) -> set[str]:
    return {shell.steps[step].name for step in shell.run.fans}


@few
@given(compensated_scenes, seeds)
def test_compensations_do_not_change_the_result_of_a_run_and_undo_it_if_it_failed(scene: Scene, seed: int) -> None:
    steps, world = scene
    shell = play(scene, seed)
    letters = {step.name: shell.known[step.name] for step in own(steps)}
    assert letters == results(own(steps), world)
    assert shell.state == verdict(own(steps), letters)
    assert shell.conclusions == [shell.state]
    if shell.state == "completed":
        assert not shell.undone
        assert {shell.known[step.name] for step in steps if step.compensates} <= {"k"}
    else:
        undone_in_reverse(shell)


@few
@given(compensated_scenes, seeds, st.integers(0, 12), st.sampled_from([CANCEL, Expired()]), st.data())
def test_a_run_stopped_at_any_moment_is_undone_once_despite_further_requests(
    scene: Scene, seed: int, batches: int, stop: CancelRequested | Expired, data: Any
) -> None:
    shell = play(scene, seed, batches)
    if shell.state != "running" or shell.run.undo.move is not None:
        return
    shell.send(stop)
    while shell.under_way:
        if shell.run.undo.move is not None:
            again = data.draw(st.lists(st.sampled_from([*STOPS, Begun(), Retry()]), max_size=3))
            assert decide(shell.run, again, NOW) == (shell.run, [])
            assert shell.state == "running"
        shell.drive(1)
    assert shell.state == (RunState.TIMEOUT if isinstance(stop, Expired) else RunState.CANCELLED)
    assert shell.conclusions == [shell.state]
    undone_in_reverse(shell)


@few
@given(compensated_scenes, seeds, st.integers(0, 12))
def test_a_run_cancelled_without_compensation_is_not_undone(scene: Scene, seed: int, batches: int) -> None:
    shell = play(scene, seed, batches)
    if shell.state != "running" or shell.run.undo.move is not None:
        return
    shell.send(CancelRequested(Reason("user", "enough")))
    shell.drive()
    assert shell.state == "cancelled"
    assert not shell.undone


@few
@given(compensated_scenes, seeds)
def test_the_reason_of_the_conclusion_counts_and_names_failed_compensations(scene: Scene, seed: int) -> None:
    shell = play(scene, seed)
    if shell.state != "failed" or not succeeded(shell):
        return
    before = shell.last_conclusion
    assert before.reason is not None
    bad = {step.compensates for step in shell.steps if step.compensates and shell.known[step.name] in "ftc"}
    if bad:
        assert f", {len(bad)} of {len(succeeded(shell))} compensations failed: " in before.reason.text
        assert any(str(name) in before.reason.text for name in bad)
    else:
        assert before.reason.text.endswith(", compensated")


@few
@given(compensated_scenes, seeds)
def test_a_retry_repeats_undone_steps_and_their_descendants(scene: Scene, seed: int) -> None:
    steps, world = scene
    shell = play(scene, seed)
    if shell.state != "failed":
        return
    undone = {step.compensates for step in steps if step.compensates and shell.known[step.name] == "s"}
    shell.next_round(all_good(world))
    shell.send(Retry())
    shell.drive()
    assert shell.state == "completed"
    assert {shell.known[step.name] for step in steps if step.compensates} <= {"k"}
    started = {shell.steps[step].name for step, _ in shell.starts}
    nothing = {step.name for step in steps if step.fan_out and step.name not in fanned(shell)}
    skipped = {name for name, letter in shell.known.items() if letter == "k"}
    assert undone <= started | nothing | skipped
    assert set(shell.run.undo.order) == {shell.run.plan.number[name] for name in succeeded(shell)}


@few
@given(compensated_scenes, seeds)
def test_a_completed_run_is_undone_as_a_whole_once_and_replies_once(scene: Scene, seed: int) -> None:
    shell = play(scene, seed)
    if shell.state != "completed":
        return
    request = UndoRequested(Reason("undone", "above"), reply=7)
    shell.send(request)
    shell.drive()
    assert [reply.step for reply in shell.replies] == [7]
    undone_in_reverse(shell)
    assert shell.state == ("cancelled" if succeeded(shell) else "completed")
    before = list(shell.undone)
    shell.send(request)
    shell.drive()
    assert shell.undone == before, "undone twice"


@few
@given(compensated_scenes, seeds, st.integers(0, 12))
def test_the_counters_of_a_run_round_trip_through_json(scene: Scene, seed: int, batches: int) -> None:
    shell = play(scene, seed, batches)
    text = shell.run.counters
    stored = {} if text is None else json.loads(text)
    assert read_counters(stored) == (shell.run.fans, shell.run.undo, None)
