"""Random graphs, outcomes and orders of events: properties of every run, compared with the reference."""

from collections import Counter
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.decide_harness import (
    NOW,
    Scene,
    Shell,
    all_good,
    ordered_scenes,
    play,
    scenes,
    seeds,
    unhurried,
    worlds,
)
from tests.unit.reference import descendants, results, verdict
from windlass.core.runs.command import Cancel
from windlass.core.runs.decide import decide
from windlass.core.runs.event import Begun, CancelRequested, Expired, RerunRequested, RetryRequested
from windlass.core.runs.run import Letter, Reason, RunState


@unhurried
@given(scenes, seeds)
def test_every_run_ends_like_the_reference(scene: Scene, seed: int) -> None:
    steps, world = scene
    shell = play(scene, seed)
    assert shell.known == results(steps, world)
    assert shell.state == verdict(steps, shell.known)
    assert shell.conclusions == [shell.state]


@unhurried
@given(ordered_scenes, seeds, seeds)
def test_with_all_joins_the_order_and_the_batches_of_events_do_not_change_the_result(
    scene: Scene, seed: int, other: int
) -> None:
    one, two = play(scene, seed), play(scene, other)
    assert (one.run.letters, one.run.state, one.run.fans) == (two.run.letters, two.run.state, two.run.fans)
    assert one.notes == two.notes
    assert one.starts == two.starts


@unhurried
@given(scenes, seeds)
def test_a_failed_run_whose_retry_succeeds_completes_and_keeps_its_successful_steps(scene: Scene, seed: int) -> None:
    steps, world = scene
    shell = play(scene, seed)
    if shell.state != "failed":
        return
    kept = {name: letter for name, letter in shell.known.items() if letter == "s"}
    partly = {
        step.name: sum(end in "ftc" for end in shell.ends[step.name][: world.sizes[step.name]] if end)
        for step in steps
        if step.fan_out and shell.known[step.name] in "fc" and world.sizes[step.name] is not None
        if all(edge.parent in kept for edge in step.edges) and not step.final
    }
    shell.next_round(all_good(world))
    shell.send(RetryRequested())
    shell.drive()
    assert shell.state == "completed"
    assert shell.known == results(steps, shell.world, kept=kept)
    started = Counter(steps[step].name for step, _ in shell.starts)
    assert not started.keys() & kept.keys()
    assert {name: started[name] for name in partly} == partly, "successful instances were started again"


@unhurried
@given(scenes, seeds, st.data())
def test_a_run_retried_several_times_ends_like_the_reference(scene: Scene, seed: int, data: Any) -> None:
    """Also when it expired midway and outcomes arrive before and after the retry."""
    steps, world = scene
    shell = Shell(scene, seed)
    for _ in range(3):
        shell.drive(data.draw(st.integers(0, 4)))
        shell.send(Expired())
        shell.drive(data.draw(st.integers(0, 2)))
        if shell.state == "completed":
            return
        kept = {name: letter for name, letter in shell.known.items() if letter == "s"}
        shell.next_round(replace(world, outcomes=data.draw(worlds(steps)).outcomes))
        shell.forced = {step for step, letter in enumerate(shell.run.letters) if letter == Letter.ACTIVE}
        held = {steps[step].name for step in shell.forced}  # they are active, and their outcomes count
        shell.send(RetryRequested())
        if data.draw(st.booleans()):
            continue
        shell.drive()
        assert shell.known == results(steps, shell.recorded(), kept=kept, forced=held)
        assert shell.state == verdict(steps, shell.known)


@unhurried
@given(scenes, seeds, st.data())
def test_a_rerun_repeats_a_step_and_its_descendants_and_keeps_the_rest(scene: Scene, seed: int, data: Any) -> None:
    """Also in a run that expired while steps were active: they keep running, and their outcomes count."""
    steps, world = scene
    shell = play(scene, seed, data.draw(st.sampled_from([2, 4, 10_000])))
    shell.send(Expired())
    shell.drive(data.draw(st.integers(0, 1)))
    again = data.draw(st.integers(0, len(steps) - 1))
    shell.forced = {again} | {step for step, letter in enumerate(shell.run.letters) if letter == Letter.ACTIVE}
    forced = {steps[step].name for step in shell.forced}
    after = descendants(steps, steps[again].name)
    kept = {name: end for name, end in shell.known.items() if name not in after | forced}
    shell.next_round(replace(world, outcomes=data.draw(worlds(steps)).outcomes))
    shell.send(RerunRequested(again))
    shell.drive()
    assert shell.known == results(steps, shell.recorded(), kept=kept, forced=forced)
    assert shell.state == verdict(steps, shell.known)
    assert not {steps[step].name for step, _ in shell.starts} & kept.keys()


@unhurried
@given(scenes, seeds, st.integers(0, 12), st.sampled_from([CancelRequested(Reason("user", "enough")), Expired()]))
def test_a_run_stopped_at_any_moment_starts_no_more_steps(
    scene: Scene, seed: int, batches: int, stop: CancelRequested | Expired
) -> None:
    shell = play(scene, seed, batches)
    if shell.state != "running":
        return
    active = {step for step, _ in shell.under_way}
    commands = shell.send(stop)
    assert {command.step for command in commands if isinstance(command, Cancel)} == active
    stopped = shell.run
    assert stopped.state is (RunState.TIMEOUT if isinstance(stop, Expired) else RunState.CANCELLED)
    assert Letter.WAITING not in stopped.letters
    shell.starts.clear()
    shell.drive()
    shell.send(stop, Begun())
    assert shell.conclusions == [stopped.state]
    assert not shell.starts
    assert shell.state is stopped.state
    assert Letter.ACTIVE not in shell.run.letters
    for step, (before, after) in enumerate(zip(stopped.letters, shell.run.letters, strict=True)):
        assert before == after or step in active


@unhurried
@given(scenes, seeds, st.integers(0, 12))
def test_a_cancelled_run_is_never_reopened(scene: Scene, seed: int, batches: int) -> None:
    shell = play(scene, seed, batches)
    if shell.state != "running":
        return
    shell.send(CancelRequested(Reason("user", "enough")))
    cancelled = shell.run
    assert decide(cancelled, [RetryRequested(), RerunRequested(0), Expired(), Begun()], NOW) == (cancelled, [])
