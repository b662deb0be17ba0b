"""The timeline of a run: the spans in which its steps were queued, running, backing off, sleeping or waiting.

The spans of a step with one job come from that job's event trail; sleeps, waits, child runs and fanned-out steps have
one span each, from start to end.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from windlass.core.explain.snapshot import Round, RunSnapshot, StepSnapshot
from windlass.core.runs.run import Letter
from windlass.core.workflows.step import ApprovalAction, ChildAction, EventAction, HookAction, SleepAction, Step

REOPENED = "reopened"
HANDED_BACK = "handed back"
SUSPENDED = "suspended"  # its handler waits


class SpanKind(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    BACKOFF = "backoff"
    SLEEPING = "sleeping"
    WAITING = "waiting"


@dataclass(frozen=True, slots=True)
class Move:
    """An entry of a job's event trail."""

    step: int
    word: str
    attempt: int | None
    at: datetime
    reason: str | None = None
    delay: timedelta | None = None  # before the next attempt


@dataclass(frozen=True, slots=True)
class Span:
    """A period in which a step was in one state; without `ended_at` it continues."""

    step: int
    kind: SpanKind
    attempt: int | None
    began_at: datetime
    ended_at: datetime | None = None
    failed: bool = False  # the attempt or the step failed


def timeline(run: RunSnapshot, moves: Iterable[Move]) -> list[Span]:
    """Return the spans in definition order of the steps, and by time within a step."""
    trails: dict[int, list[Move]] = defaultdict(list)
    for move in moves:
        trails[move.step].append(move)
    return [
        span
        for n, step in enumerate(run.steps)
        for span in (_worked(trails[n], run.now) if n in trails else _whole(n, step))
    ]


def is_several(step: Step) -> bool:
    """Return whether a step is executed by several jobs or by child runs."""
    return step.fan_out is not None or isinstance(step.action, ChildAction)


def during(run: RunSnapshot, round_: Round, moves: Iterable[Move], together: Iterable[Span]) -> list[Span]:
    """Return the spans of one round.

    A step with several jobs or child runs may have been executed in part in earlier rounds: `together` has the spans
    of such steps in this round.
    """
    until = round_.left_at
    alone = [
        span
        for span in timeline(run, moves)
        if round_.began_at <= span.began_at
        and (until is None or span.began_at < until)
        and not is_several(run.steps[span.step].step)
    ]
    return sorted([*alone, *(_still(run, span, until) for span in together)], key=lambda span: span.step)


def _still(run: RunSnapshot, span: Span, until: datetime | None) -> Span:
    goes_on = until is None and run.steps[span.step].letter is Letter.ACTIVE
    return replace(span, ended_at=None) if goes_on else span


def _whole(number: int, step: StepSnapshot) -> Iterator[Span]:
    began = step.began_at
    action = step.step.action
    length = action.duration if isinstance(action, SleepAction) else None
    length = action.timeout if isinstance(action, HookAction | EventAction) else length
    if began is None and step.wakes_at is not None and length is not None:
        began = step.wakes_at - length  # only its timer is stored
    if began is None or step.letter in (Letter.WAITING, Letter.SKIPPED):
        return
    waits = HookAction, EventAction, ApprovalAction
    kind = SpanKind.WAITING if isinstance(action, waits) else SpanKind.RUNNING
    ended = None if step.letter is Letter.ACTIVE else step.ended_at or began
    yield Span(
        number,
        SpanKind.SLEEPING if isinstance(action, SleepAction) else kind,
        None,
        began,
        ended,
        step.letter in (Letter.FAILED, Letter.TIMED_OUT),
    )


def _worked(trail: Sequence[Move], now: datetime) -> Iterator[Span]:
    attempt = 1
    for move, following in zip(trail, [*trail[1:], None], strict=True):
        until = following.at if following is not None else None
        match move.word:
            case "created":
                attempt = 1
                yield Span(move.step, SpanKind.QUEUED, attempt, move.at, until)
            case "leased" | "started":
                attempt = move.attempt or attempt
                yield Span(move.step, SpanKind.RUNNING, attempt, move.at, until, _came_to_nothing(following))
            case "retried":
                if move.reason != SUSPENDED:
                    attempt = 1 if move.reason == REOPENED else attempt + 1
                yield from _again(move, attempt, until, now)
            case _:
                pass  # the job has ended


def _came_to_nothing(following: Move | None) -> bool:
    if following is None or following.word != "retried":
        return following is not None and following.word == "failed"
    return following.reason not in (REOPENED, HANDED_BACK, SUSPENDED)


def _again(move: Move, attempt: int, until: datetime | None, now: datetime) -> Iterator[Span]:
    """Yield the backoff, or the wait of a handler, until the job is due again; then the time in the queue."""
    queued = Span(move.step, SpanKind.QUEUED, attempt, move.at, until)
    pause = SpanKind.WAITING if move.reason == SUSPENDED else SpanKind.BACKOFF
    if move.delay is None:
        yield replace(queued, kind=pause) if pause is SpanKind.WAITING else queued
        return
    due = move.at + move.delay
    if due >= (until or now):
        yield replace(queued, kind=pause)
    else:
        yield replace(queued, kind=pause, ended_at=due)
        yield replace(queued, began_at=due)
