"""The times of the steps of a run, from the trails of their jobs."""

from datetime import timedelta
from typing import Any

import pytest

from tests.unit.snapshots import NOW, SECOND, job, run_snapshot
from windlass.core.explain.timeline import Move, timeline
from windlass.core.workflows.step import HookAction, JobAction, SleepAction, Step

WORK = Step(name="work", action=JobAction("a"))
NAP = Step(name="nap", action=SleepAction(10 * SECOND))
CALL = Step(name="call", action=HookAction(timeout=60 * SECOND))


def at(seconds: float) -> Any:
    return NOW + seconds * SECOND


def moves(*told: tuple[Any, ...]) -> list[Move]:
    return [Move(0, word, attempt, at(when), *more) for word, attempt, when, *more in told]


def spans(found: list[Any]) -> list[tuple[str, int | None, float, float | None]]:
    def seconds(moment: Any) -> float | None:
        return None if moment is None else (moment - NOW) / SECOND

    return [(span.kind.value, span.attempt, seconds(span.began_at) or 0.0, seconds(span.ended_at)) for span in found]


DELAY = timedelta(seconds=5)
STORIES: dict[str, tuple[list[Move], list[tuple[str, int, float, float | None]]]] = {
    "queued": (moves(("created", None, -9)), [("queued", 1, -9, None)]),
    "running": (
        moves(("created", None, -9), ("leased", 1, -8)),
        [("queued", 1, -9, -8), ("running", 1, -8, None)],
    ),
    "retried": (
        moves(
            ("created", None, -9),
            ("leased", 1, -9),
            ("retried", 1, -8, None, DELAY),
            ("leased", 2, -2),
            ("failed", 2, -1),
        ),
        [
            ("queued", 1, -9, -9),
            ("running", 1, -9, -8),
            ("backoff", 2, -8, -3),
            ("queued", 2, -3, -2),
            ("running", 2, -2, -1),
        ],
    ),
    "claimed before it was due": (
        moves(("leased", 1, -9), ("retried", 1, -8, None, DELAY), ("leased", 2, -6)),
        [("running", 1, -9, -8), ("backoff", 2, -8, -6), ("running", 2, -6, None)],
    ),
    "backing off": (
        moves(("leased", 1, -9), ("retried", 1, -3, None, DELAY)),
        [("running", 1, -9, -3), ("backoff", 2, -3, None)],
    ),
    "due and not claimed": (
        moves(("leased", 1, -9), ("retried", 1, -8, None, DELAY)),
        [("running", 1, -9, -8), ("backoff", 2, -8, -3), ("queued", 2, -3, None)],
    ),
    "lease lost": (
        moves(("leased", 1, -9), ("retried", 1, -8, "lease lost")),
        [("running", 1, -9, -8), ("queued", 2, -8, None)],
    ),
    "reopened": (
        moves(("leased", 2, -9), ("succeeded", 2, -8), ("retried", None, -5, "reopened"), ("leased", 1, -4)),
        [("running", 2, -9, -8), ("queued", 1, -5, -4), ("running", 1, -4, None)],
    ),
}


@pytest.mark.parametrize("story", STORIES)
def test_the_timeline_of_a_job_has_queued_running_and_backoff_spans(story: str) -> None:
    trail, expected = STORIES[story]
    assert spans(timeline(run_snapshot("a", WORK, tell_work={"job": job()}), trail)) == expected


def test_a_step_without_a_job_is_one_span() -> None:
    known = run_snapshot(
        "saa.k",
        NAP,
        CALL,
        Step(name="second", action=SleepAction(10 * SECOND)),
        WORK,
        Step(name="left", action=JobAction("b")),
        tell_nap={"began_at": at(-30), "ended_at": at(-20)},
        tell_call={"wakes_at": at(40)},
        tell_second={"began_at": at(-4), "wakes_at": at(6)},
    )
    found = timeline(known, [])
    assert [span.step for span in found] == [0, 1, 2]
    assert spans(found) == [("sleeping", None, -30, -20), ("waiting", None, -20, None), ("sleeping", None, -4, None)]
