"""Explanation of a run in sentences, made from a snapshot.

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
from windlass.core.runs.edges import MEETS, MOST_NAMES, STATE_WORDS, WISH_WORDS, handlers, join_names
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
    """`now` says what the run is waiting for; it is empty if the run has ended."""

    run: list[str]
    now: list[str]
    steps: list[StepExplanation]


def explain(account: RunSnapshot) -> Explanation:
    """Return the explanation of a run, with its steps in definition order."""
    steps = [
        StepExplanation(step.step.name, step.word, doing(step.step.action), [*_step(account, n)])
        for n, step in enumerate(account.steps)
    ]
    return Explanation([*_run(account)], [*_now(account)], steps)


# Steps


def _step(account: RunSnapshot, n: int) -> Iterator[str]:
    step = account.steps[n]
    match step.letter:
        case Letter.WAITING:
            yield _why_it_waits(account, n)
        case Letter.SKIPPED:
            yield f"It was skipped: {step.reason or 'no reason was recorded'}."
        case Letter.ACTIVE:
            yield _why_it_ran(account, n)
            yield from current_sentences(account, step)
        case Letter.SUCCEEDED:
            yield _why_it_ran(account, n)
            yield from _success(account, step)
        case Letter.FAILED | Letter.TIMED_OUT:
            yield _why_it_ran(account, n)
            yield from _failure(account, step)
            yield from _handling(account, n)
        case Letter.CANCELLED:
            yield from _cancelled(account, step)
        case _:
            assert_never(step.letter)


def _why_it_ran(account: RunSnapshot, n: int) -> str:
    node = account.steps[n].step
    held = account.steps[n].held
    judged = f"its `if` held ({held})" if held else "its `if` held"
    if node.final:
        return f"It is the final step: it ran once all others had ended{_and(judged if node.condition else None)}."
    if not node.edges:
        return f"It needs no other step and started with the run{_and(judged if node.condition else None)}."
    met = [edge for edge in node.edges if _is_met(account, edge)]
    if len(met) < (1 if node.join is Join.ANY else len(node.edges)):
        return f"It ran because a rerun was requested ({account.asked_again or 'from it'})."
    why = join_names([_ended(account, edge) for edge in met])
    one = " (one of its edges is enough)" if node.join is Join.ANY and len(node.edges) > 1 else ""
    return f"It ran because {why}{one}{_and(judged if node.condition else None)}."


def _why_it_waits(account: RunSnapshot, n: int) -> str:
    node = account.steps[n].step
    if account.state is RunState.PENDING:
        return "It waits for the run to start."
    if node.final:
        open_ = [s.step.name for m, s in enumerate(account.steps) if m != n and s.letter in OPEN]
        unfinished = f"{join_names(open_)} {_verb(open_, 'has', 'have')} not"
        return f"It is the final step and waits for all others to end: {unfinished}."
    lacking = [edge for edge in node.edges if not _is_met(account, edge)]
    wants = [f"{e.parent} {WISH_WORDS[e.condition]} (it {_state(account, e.parent)})" for e in lacking]
    glue = " or " if node.join is Join.ANY else " and "
    then = "; then its `if` is evaluated" if node.condition is not None else ""
    return f"It waits for {join_names(wants, glue)}{then}." if wants else "It is about to start."


def _success(account: RunSnapshot, step: StepSnapshot) -> Iterator[str]:
    took = step.took(account.now)
    time = f" in {duration.brief(took)}" if took is not None else ""
    if step.fan is not None:
        yield f"All of its {step.fan.count} instances succeeded{time}."
    elif step.reason:
        yield f"It succeeded: {step.reason}."
    elif step.below is not None:
        yield f"It succeeded{time}: run {step.below.id} completed."
    elif step.job is not None and step.job.failures:
        attempts = f"at attempt {step.job.attempts} of {step.job.max_attempts}"
        yield f"It succeeded{time}, {attempts}; the one before failed: {first_line(step.job.error)}."
    else:
        yield f"It succeeded{time}."


def _failure(account: RunSnapshot, step: StepSnapshot) -> Iterator[str]:
    verb = "It timed out" if step.letter is Letter.TIMED_OUT else "It failed"
    if step.fan is not None:
        fan = step.fan
        yield f"{verb}: {fan.failed} of {fan.count} instances failed and {fan.succeeded} succeeded."
        if step.failed is not None:
            yield f"The first is number {step.failed.item}: {first_line(step.failed.error)}."
            yield f"Its log: `windlass runs logs {account.id} --step {step.step.name} --index {step.failed.item}`."
        return
    if step.below is not None:
        yield f"{verb}: {first_line(step.reason or f'run {step.below.id} is {step.below.state}')}."
        yield f"To see why: `windlass explain {step.below.id}`."
        return
    yield f"{verb}: {first_line(step.reason or (step.job.error if step.job else None))}."
    if step.job is not None:
        used, most = step.job.failures, step.job.max_attempts
        yield f"It was tried {_times(used)}" + (f" of {most} possible" if used < most else "") + "."
        yield f"Its log: `windlass runs logs {account.id} --step {step.step.name}`."


def _handling(account: RunSnapshot, n: int) -> Iterator[str]:
    """Yield which steps handled a failure; this is known only once the run has ended."""
    if account.is_live or account.state in (RunState.CANCELLED, RunState.TIMEOUT):
        return
    by = [account.steps[m].step.name for m in handlers(account.workflow.plan, account.letters, n)]
    alone = "It is allowed to fail." if account.steps[n].step.allow_failure else "No step handled this failure."
    yield f"This was handled by {join_names(by)}." if by else alone


def _cancelled(account: RunSnapshot, step: StepSnapshot) -> Iterator[str]:
    if step.reason is not None:
        yield f"It was cancelled: {step.reason}."
    elif step.job is None and step.below is None:
        yield f"It had not started when the run {_ending(account.state)}."
    else:
        yield f"It was cancelled when the run {_ending(account.state)}."


# The run


def _run(account: RunSnapshot) -> Iterator[str]:
    took = account.took
    time = f" after {duration.brief(took)}" if took is not None else ""
    match account.state:
        case RunState.PENDING:
            yield _held(account)
        case RunState.RUNNING:
            yield f"The run has been active{time.replace(' after', ' for')}: {_counted(account)}."
        case RunState.COMPLETED:
            yield f"The run completed{time}: {_counted(account)}."
            yield from _failures(account)
        case RunState.FAILED:
            yield f"The run failed{time}: {_counted(account)}."
            yield from _failures(account)
        case RunState.CANCELLED:
            by = f" by {account.actor}" if account.actor else ""
            why = f": {account.reason}" if account.reason else ""
            yield f"The run was cancelled{by}{time}{why}."
            yield f"Now {_counted(account)}."
        case RunState.TIMEOUT:
            yield f"The run timed out{time}: it had to end by {at(account.expires_at)}; {_counted(account)}."
        case _:
            assert_never(account.state)
    if account.parent_id is not None:
        yield f"It was started by run {account.parent_id}: `windlass explain {account.parent_id}`."
    if account.asked_again is not None:
        yield f"It was started again {_times(account.round)}, the last time: {account.asked_again}."


def _held(account: RunSnapshot) -> str:
    limit = account.workflow.concurrency
    if limit is not None and account.running >= limit:
        rule = f"workflow {account.workflow.name} allows {limit} active {_verb(limit, 'run', 'runs')} at a time"
        return f"The run waits to start: {rule}, and {account.running} {_verb(account.running, 'is', 'are')} active."
    return "The run waits to start: a worker or `windlass up` starts it in a moment, if one is running."


def _failures(account: RunSnapshot) -> Iterator[str]:
    plan, letters = account.workflow.plan, account.letters
    bad = [n for n, letter in enumerate(letters) if letter in BAD]
    by = {n: [account.steps[m].step.name for m in handlers(plan, letters, n)] for n in bad}
    unhandled = [account.steps[n].step.name for n in bad if not by[n] and not account.steps[n].step.allow_failure]
    if unhandled:
        yield f"No step handled the failure of {join_names(unhandled)}, so the run failed."
    for n in [n for n in bad if by[n]][:MOST_NAMES]:
        yield f"The failure of {account.steps[n].step.name} was handled by {join_names(by[n])}."


def _now(account: RunSnapshot) -> Iterator[str]:
    """Yield what the active steps of the run are waiting for."""
    active = [step for step in account.steps if step.letter is Letter.ACTIVE]
    for step in active[:MOST_NAMES]:
        for sentence in current_sentences(account, step):
            yield f"{step.step.name}: {sentence[0].lower() + sentence[1:]}"
    if len(active) > MOST_NAMES:
        yield f"and {len(active) - MOST_NAMES} more steps are active."


def _counted(account: RunSnapshot) -> str:
    """Return the steps counted by state: of 5 steps 3 succeeded, 1 failed and 1 was skipped."""
    counts = {letter: account.letters.count(letter) for letter in Letter}
    parts = [
        f"{counts[letter]} {STATE_WORDS[letter] if counts[letter] == 1 else _plural(letter)}"
        for letter in map(Letter, "sftkca.")
        if counts[letter]
    ]
    total = len(account.steps)
    if counts[Letter.SUCCEEDED] == total:
        return f"all {total} steps succeeded" if total > 1 else "its step succeeded"
    return f"of {total} {_verb(total, 'step', 'steps')} {join_names(parts)}"


def _plural(letter: Letter) -> str:
    return STATE_WORDS[letter].replace("was ", "were ").replace("is ", "are ").replace("waits", "wait")


# Phrases


def _is_met(account: RunSnapshot, edge: Edge) -> bool:
    return account.steps[account.workflow.plan.number[edge.parent]].letter in MEETS[edge.condition]


def _ended(account: RunSnapshot, edge: Edge) -> str:
    """Return how a parent met an edge. A `complete` edge handles no failure, so it must not read like one that does."""
    state = _state(account, edge.parent)
    return f"{edge.parent} ended (it {state})" if edge.condition is Condition.COMPLETE else f"{edge.parent} {state}"


def _state(account: RunSnapshot, name: str) -> str:
    return STATE_WORDS[account.steps[account.workflow.plan.number[name]].letter]


def _ending(state: RunState) -> str:
    return "timed out" if state is RunState.TIMEOUT else "was cancelled" if state is RunState.CANCELLED else "ended"


def _verb(many: int | Sequence[str], one: str, more: str) -> str:
    return one if (many if isinstance(many, int) else len(many)) == 1 else more


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def _and(more: str | None) -> str:
    return f", and {more}" if more else ""
