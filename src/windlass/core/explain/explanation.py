"""Explains a run in sentences, based on a snapshot.

Each step has a paragraph: why it ran, waits or was skipped, and how it ended. The run has one: why it ended as it did,
or what it is waiting for now.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import assert_never

from windlass.core import duration
from windlass.core.diagrams import doing
from windlass.core.explain.activity import at, current_sentences, first_line
from windlass.core.explain.snapshot import RunSnapshot, StepSnapshot
from windlass.core.runs.edges import CONDITION_WORDS, MEETS, MOST_NAMES, STATE_WORDS, handlers, join_names
from windlass.core.runs.run import BAD, OPEN, Letter, RunState
from windlass.core.workflows.step import Condition, Edge, Join


@dataclass(frozen=True, slots=True)
class StepExplanation:
    step: str
    state: str
    does: str
    sentences: list[str]


@dataclass(frozen=True, slots=True)
class Explanation:
    """`now` is what the run is waiting for; empty if the run has ended."""

    run: list[str]
    now: list[str]
    steps: list[StepExplanation]


def explain(run: RunSnapshot) -> Explanation:
    """Return the explanation of a run, with its steps in definition order."""
    steps = [
        StepExplanation(step.step.name, step.word, doing(step.step.action), [*_step(run, n)])
        for n, step in enumerate(run.steps)
    ]
    return Explanation([*_run(run)], [*_now(run)], steps)


# Steps


def _step(run: RunSnapshot, n: int) -> Iterator[str]:
    step = run.steps[n]
    match step.letter:
        case Letter.WAITING:
            yield _why_it_waits(run, n)
        case Letter.SKIPPED if step.step.compensates is not None:
            yield f"It undoes {step.step.compensates} if the run fails, times out or is cancelled with compensation."
        case Letter.SKIPPED:
            yield f"It was skipped: {step.reason or 'no reason was recorded'}."
        case Letter.ACTIVE:
            yield _why_it_ran(run, n)
            yield from current_sentences(run, step)
        case Letter.SUCCEEDED:
            yield _why_it_ran(run, n)
            yield from _success(run, step)
        case Letter.FAILED | Letter.TIMED_OUT:
            yield _why_it_ran(run, n)
            yield from _failure(run, step)
            yield from _handling(run, n)
        case Letter.CANCELLED:
            yield from _cancelled(run, step)
        case _:
            assert_never(step.letter)


def _why_it_ran(run: RunSnapshot, n: int) -> str:
    node = run.steps[n].step
    reason = f" ({run.steps[n].held})" if run.steps[n].held else ""
    judged = f", and its `if` was true{reason}" if node.condition else ""
    if node.final:
        return f"It is the final step: it ran once all others had ended{judged}."
    if node.compensates is not None:
        return f"It undoes {node.compensates}, because the run is undone."
    if not node.edges:
        return f"It needs no other step and started with the run{judged}."
    met = [edge for edge in node.edges if _is_met(run, edge)]
    if len(met) < (1 if node.join is Join.ANY else len(node.edges)):
        return f"It ran because a rerun was requested ({run.last_restart or 'from it'})."
    why = join_names([_ended(run, edge) for edge in met])
    one = " (one of its edges is enough)" if node.join is Join.ANY and len(node.edges) > 1 else ""
    return f"It ran because {why}{one}{judged}."


def _why_it_waits(run: RunSnapshot, n: int) -> str:
    node = run.steps[n].step
    if run.state is RunState.PENDING:
        return "It waits for the run to start."
    if node.compensates is not None:
        return f"It undoes {node.compensates} and waits for its turn: the step that succeeded last is undone first."
    if node.final:
        names = [s.step.name for m, s in enumerate(run.steps) if m != n and s.letter in OPEN]
        unfinished = f"{join_names(names)} {_verb(names, 'has', 'have')} not"
        return f"It is the final step and waits for all others to end: {unfinished}."
    unmet = [edge for edge in node.edges if not _is_met(run, edge)]
    conditions = [f"{e.parent} {CONDITION_WORDS[e.condition]} (it {_state(run, e.parent)})" for e in unmet]
    glue = " or " if node.join is Join.ANY else " and "
    then = "; then its `if` is evaluated" if node.condition is not None else ""
    return f"It waits for {join_names(conditions, glue)}{then}." if conditions else "It is about to start."


def _success(run: RunSnapshot, step: StepSnapshot) -> Iterator[str]:
    took = step.took(run.now)
    time = f" in {duration.brief(took)}" if took is not None else ""
    if step.fan is not None:
        yield f"All of its {step.fan.count} instances succeeded{time}."
    elif step.reason:
        yield f"It succeeded: {step.reason}."
    elif step.child is not None:
        yield f"It succeeded{time}: run {step.child.id} completed."
    elif step.job is not None and step.job.failures:
        attempts = f"at attempt {step.job.attempts} of {step.job.max_attempts}"
        yield f"It succeeded{time}, {attempts}; the one before failed: {first_line(step.job.error)}."
    else:
        yield f"It succeeded{time}."


def _failure(run: RunSnapshot, step: StepSnapshot) -> Iterator[str]:
    verb = "It timed out" if step.letter is Letter.TIMED_OUT else "It failed"
    if step.fan is not None:
        fan = step.fan
        yield f"{verb}: {fan.failed} of {fan.count} instances failed and {fan.succeeded} succeeded."
        if step.failed is not None:
            yield f"The first is number {step.failed.item}: {first_line(step.failed.error)}."
            yield f"Its log: `windlass runs logs {run.id} --step {step.step.name} --index {step.failed.item}`."
        return
    if step.child is not None:
        yield f"{verb}: {first_line(step.reason or f'run {step.child.id} is {step.child.state}')}."
        yield f"To see why: `windlass explain {step.child.id}`."
        return
    yield f"{verb}: {first_line(step.reason or (step.job.error if step.job else None))}."
    if step.job is not None:
        used, most = step.job.failures, step.job.max_attempts
        yield f"It was tried {_times(used)}" + (f" of {most} possible" if used < most else "") + "."
        yield f"Its log: `windlass runs logs {run.id} --step {step.step.name}`."


def _handling(run: RunSnapshot, n: int) -> Iterator[str]:
    """Yield a sentence on the steps that handled a failure; they are known only once the run has ended."""
    if run.is_live or run.state in (RunState.CANCELLED, RunState.TIMEOUT) or n in run.workflow.plan.compensations:
        return
    by = [run.steps[m].step.name for m in handlers(run.workflow.plan, run.letters, n)]
    alone = "It is allowed to fail." if run.steps[n].step.allow_failure else "No step handled this failure."
    yield f"This was handled by {join_names(by)}." if by else alone


def _cancelled(run: RunSnapshot, step: StepSnapshot) -> Iterator[str]:
    if step.reason is not None:
        yield f"It was cancelled: {step.reason}."
    elif step.job is None and step.child is None:
        yield f"It had not started when the run {_ending(run.state)}."
    else:
        yield f"It was cancelled when the run {_ending(run.state)}."


# The run


def _run(run: RunSnapshot) -> Iterator[str]:
    took = run.took
    time = f" after {duration.brief(took)}" if took is not None else ""
    match run.state:
        case RunState.PENDING:
            yield _held(run)
        case RunState.RUNNING:
            yield f"The run has been active{time.replace(' after', ' for')}: {_counted(run)}."
            if run.is_undone:
                yield f"It is being undone: {run.reason}."
        case RunState.COMPLETED:
            yield f"The run completed{time}: {_counted(run)}."
            yield from _failures(run)
        case RunState.FAILED:
            yield f"The run failed{time}: {_counted(run)}."
            yield from _failures(run)
            yield from _compensated(run)
        case RunState.CANCELLED:
            by = f" by {run.actor}" if run.actor else ""
            why = f": {run.reason}" if run.reason else ""
            yield f"The run was cancelled{by}{time}{why}."
            yield f"Now {_counted(run)}."
        case RunState.TIMEOUT:
            yield f"The run timed out{time}: it had to end by {at(run.expires_at)}; {_counted(run)}."
            yield from _compensated(run)
        case _:
            assert_never(run.state)
    yield from _history(run)


def _history(run: RunSnapshot) -> Iterator[str]:
    if run.paused_at is not None:
        yield f"It has been paused since {at(run.paused_at)}: `windlass runs resume {run.id}`."
    if run.parent_id is not None:
        yield f"It was started by run {run.parent_id}: `windlass explain {run.parent_id}`."
    if run.last_restart is not None:
        yield f"It was started again {_times(run.round)}, the last time: {run.last_restart}."


def _held(run: RunSnapshot) -> str:
    limit = run.workflow.concurrency
    if limit is not None and run.running >= limit:
        rule = f"workflow {run.workflow.name} allows {limit} active {_verb(limit, 'run', 'runs')} at a time"
        return f"The run waits to start: {rule}, and {run.running} {_verb(run.running, 'is', 'are')} active."
    return "The run waits to start: a worker or `windlass up` starts it in a moment, if one is running."


def _failures(run: RunSnapshot) -> Iterator[str]:
    plan, letters = run.workflow.plan, run.letters
    bad = [n for n, letter in enumerate(letters) if letter in BAD and n not in plan.compensations]
    by = {n: [run.steps[m].step.name for m in handlers(plan, letters, n)] for n in bad}
    unhandled = [run.steps[n].step.name for n in bad if not by[n] and not run.steps[n].step.allow_failure]
    if unhandled:
        yield f"No step handled the failure of {join_names(unhandled)}, so the run failed."
    for n in [n for n in bad if by[n]][:MOST_NAMES]:
        yield f"The failure of {run.steps[n].step.name} was handled by {join_names(by[n])}."


def _compensated(run: RunSnapshot) -> Iterator[str]:
    """Yield sentences on the steps of an ended run that were undone, and on those that were not."""
    plan, letters = run.workflow.plan, run.letters
    ran = {step: letters[by] for step, by in plan.undo.items() if letters[by] != Letter.SKIPPED}
    for verb, names in (
        ("undone", [plan.steps[step].name for step, letter in ran.items() if letter == Letter.SUCCEEDED]),
        ("not undone, because the compensation failed", [plan.steps[step].name for step in ran if ran[step] in BAD]),
    ):
        if names:
            yield f"{join_names(names)} {_verb(names, 'was', 'were')} {verb}."


def _now(run: RunSnapshot) -> Iterator[str]:
    """Yield sentences on what the active steps of the run are waiting for."""
    active = [step for step in run.steps if step.letter is Letter.ACTIVE]
    for step in active[:MOST_NAMES]:
        for sentence in current_sentences(run, step):
            yield f"{step.step.name}: {sentence[0].lower() + sentence[1:]}"
    if len(active) > MOST_NAMES:
        yield f"and {len(active) - MOST_NAMES} more steps are active."


def _counted(run: RunSnapshot) -> str:
    """Return the counts of the steps by state, such as `of 5 steps 3 succeeded, 1 failed and 1 was skipped`."""
    letters = [step.letter for step in run.steps if step.step.compensates is None]
    counts = {letter: letters.count(letter) for letter in Letter}
    parts = [
        f"{counts[letter]} {STATE_WORDS[letter] if counts[letter] == 1 else _plural(letter)}"
        for letter in map(Letter, "sftkca.")
        if counts[letter]
    ]
    total = len(letters)
    if counts[Letter.SUCCEEDED] == total:
        return f"all {total} steps succeeded" if total > 1 else "its step succeeded"
    return f"of {total} {_verb(total, 'step', 'steps')} {join_names(parts)}"


def _plural(letter: Letter) -> str:
    return STATE_WORDS[letter].replace("was ", "were ").replace("is ", "are ").replace("waits", "wait")


# Phrases


def _is_met(run: RunSnapshot, edge: Edge) -> bool:
    return run.steps[run.workflow.plan.number[edge.parent]].letter in MEETS[edge.condition]


def _ended(run: RunSnapshot, edge: Edge) -> str:
    """Return how a parent met an edge. A `complete` edge handles no failure, so it must not read like one that does."""
    state = _state(run, edge.parent)
    return f"{edge.parent} ended (it {state})" if edge.condition is Condition.COMPLETE else f"{edge.parent} {state}"


def _state(run: RunSnapshot, name: str) -> str:
    return STATE_WORDS[run.steps[run.workflow.plan.number[name]].letter]


def _ending(state: RunState) -> str:
    return "timed out" if state is RunState.TIMEOUT else "was cancelled" if state is RunState.CANCELLED else "ended"


def _verb(many: int | Sequence[str], one: str, more: str) -> str:
    return one if (many if isinstance(many, int) else len(many)) == 1 else more


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")
