"""The lifecycle of a job is a table; these tests cover all of its cells."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.jobs.job import (
    EDGES,
    SPARE_LOSSES,
    SQL_QUEUE,
    STEP_RETRY,
    TERMINAL,
    Cancelled,
    Claimed,
    Failed,
    JobMove,
    JobState,
    Outcome,
    Released,
    Setback,
    Succeeded,
    Success,
    after,
    policy,
    spent,
)
from windlass.core.jobs.retry import SQUARED_MINUTES, Backoff, Retry
from windlass.core.json_value import decode, encode
from windlass.errors import Invalid

S, M = JobState, JobMove

# Read by column: what each move does to each state. A dash is a refusal.
SQUARE = """
            claim   succeed    retry    fail    release  suspend  cancel     expire  reopen
pending     leased  -          -        -       -        -        cancelled  failed  -
leased      -       succeeded  pending  failed  pending  pending  cancelled  -       -
succeeded   -       -          -        -       -        -        -          -       pending
failed      -       -          -        -       -        -        -          -       pending
cancelled   -       -          -        -       -        -        -          -       pending
"""

ERROR = {"type": "ValueError", "message": "no such file"}


def expected() -> Mapping[tuple[JobState, JobMove], JobState | None]:
    head, *lines = SQUARE.strip().splitlines()
    moves = [JobMove(word) for word in head.split()]
    return {
        (JobState(state), move): None if word == "-" else JobState(word)
        for state, *words in map(str.split, lines)
        for move, word in zip(moves, words, strict=True)
    }


def a_job(**columns: Any) -> Claimed:
    known: dict[str, Any] = {
        "id": UUID(int=1),
        "type": "content.thumbnail.v1",
        "payload": "{}",
        "queue": "default",
        "priority": 100,
        "seq": 1,
        "attempt": 0,
        "lost": 0,
        "max_attempts": 3,
        "claim_no": 1,
        "timeout": None,
        "retry": None,
        "created_at": datetime(2030, 1, 1, tzinfo=UTC),
        "meta": None,
    }
    return Claimed(**{**known, **columns})


@pytest.mark.parametrize(("state", "move"), [*product(JobState, JobMove)], ids=str)
def test_every_pair_of_state_and_move_has_the_result_of_the_table(state: JobState, move: JobMove) -> None:
    assert EDGES.get((state, move)) == expected()[state, move]


def test_a_terminal_job_leaves_only_by_an_explicit_reopen() -> None:
    assert {move for state, move in EDGES if state in TERMINAL} == {M.REOPEN}
    assert {EDGES[state, move] for state, move in EDGES if state in TERMINAL} == {S.PENDING}


def test_every_state_can_be_reached_from_pending_and_every_live_state_can_end() -> None:
    reached = {S.PENDING}
    while more := {new for (old, _), new in EDGES.items() if old in reached} - reached:
        reached |= more
    assert reached == set(S)
    assert all(any(EDGES.get((state, move)) in TERMINAL for move in M) for state in set(S) - TERMINAL)


def test_the_states_are_those_of_the_sql_contract() -> None:
    assert [*S] == ["pending", "leased", "succeeded", "failed", "cancelled"]
    assert {"succeeded", "failed", "cancelled"} == TERMINAL


jobs = st.builds(
    a_job,
    attempt=st.integers(0, 12),
    lost=st.integers(0, 12),
    max_attempts=st.integers(1, 12),
    queue=st.sampled_from(["default", SQL_QUEUE]),
)
failures = st.builds(Failed, st.just(ERROR), st.booleans(), st.none() | st.timedeltas(timedelta(), timedelta(days=400)))
outcomes = st.one_of(
    st.builds(Succeeded, st.sampled_from(["null", "{}", "[1,2]"])), st.builds(Released), st.builds(Cancelled), failures
)
rolls = st.floats(0, 1, exclude_max=True)


@given(jobs, outcomes, rolls)
def test_every_outcome_causes_a_legal_move_out_of_leased(job: Claimed, outcome: Outcome, roll: float) -> None:
    report = after(job, outcome, None, roll)
    move = report.move if isinstance(report, Setback) else M.SUCCEED
    assert (S.LEASED, move) in EDGES
    assert report.job is job


@given(jobs, st.sampled_from(["null", "{}", '"done"']), rolls)
def test_a_success_does_not_depend_on_the_attempt_counters(job: Claimed, result: str, roll: float) -> None:
    assert after(job, Succeeded(result), None, roll) == Success(job, result)


@given(jobs, rolls)
def test_a_released_job_is_charged_no_attempt_and_has_no_delay(job: Claimed, roll: float) -> None:
    assert after(job, Released(), None, roll) == Setback(job, M.RELEASE, None, timedelta())


@given(jobs, rolls)
def test_a_job_that_stopped_on_request_is_cancelled_and_charged_no_attempt(job: Claimed, roll: float) -> None:
    assert after(job, Cancelled(), None, roll) == Setback(job, M.CANCEL, None, timedelta())
    assert EDGES[S.LEASED, M.CANCEL] is S.CANCELLED


@given(jobs, failures, rolls)
def test_a_failure_is_retried_while_it_is_retryable_and_attempts_are_left(
    job: Claimed, outcome: Failed, roll: float
) -> None:
    report = after(job, outcome, None, roll)
    assert isinstance(report, Setback)
    assert report.error == ERROR
    if not outcome.retryable or spent(job.attempt + 1, job.lost, job.max_attempts, job.queue):
        assert (report.move, report.delay) == (M.FAIL, timedelta())
    elif outcome.retry_after is not None:
        assert (report.move, report.delay) == (M.RETRY, outcome.retry_after)
    else:
        assert (report.move, report.delay) == (M.RETRY, SQUARED_MINUTES.delay(job.attempt + 1, roll))


@pytest.mark.parametrize(
    ("attempt", "lost", "max_attempts", "queue", "is_spent"),
    [
        (0, 0, 3, "default", False),
        (2, 0, 3, "default", False),
        (3, 0, 3, "default", True),
        (4, 0, 3, "default", True),
        (0, 2, 3, "default", False),
        (0, 3, 3, "default", True),  # a job that kills its worker ends too
        (1, 1, 3, "default", False),
        (2, 1, 3, "default", True),  # failures and losses use up the same attempts
        (3, 0, 3, SQL_QUEUE, True),  # charged failures count against the producer's max_attempts
        (0, 3, 3, SQL_QUEUE, False),  # but the first few losses do not
        (0, 7, 3, SQL_QUEUE, False),
        (0, 8, 3, SQL_QUEUE, True),
        (2, 5, 3, SQL_QUEUE, False),
        (2, 6, 3, SQL_QUEUE, True),
        (0, 0, 1, "default", False),
        (1, 0, 1, SQL_QUEUE, True),
    ],
)
def test_attempts_are_spent_by_failures_and_losses(
    attempt: int, lost: int, max_attempts: int, queue: str, is_spent: bool
) -> None:
    assert spent(attempt, lost, max_attempts, queue) is is_spent


@given(st.integers(0, 50), st.integers(0, 50), st.integers(1, 50), st.sampled_from(["default", SQL_QUEUE]))
def test_attempts_once_spent_stay_spent(attempt: int, lost: int, max_attempts: int, queue: str) -> None:
    if spent(attempt, lost, max_attempts, queue):
        assert spent(attempt + 1, lost, max_attempts, queue)
        assert spent(attempt, lost + 1, max_attempts, queue)


@given(st.integers(1, 50))
def test_a_poison_job_of_plain_sql_ends_after_five_more_losses(max_attempts: int) -> None:
    losses = next(n for n in range(100) if spent(0, n, max_attempts, SQL_QUEUE))
    assert losses == max_attempts + SPARE_LOSSES == max_attempts + 5


@given(jobs)
def test_the_attempt_number_counts_failures_and_losses_from_one(job: Claimed) -> None:
    assert job.number == job.attempt + job.lost + 1


ROW, HANDLER = Retry(Backoff.CONSTANT, base=7), Retry(Backoff.CONSTANT, base=9)


@pytest.mark.parametrize(
    ("row", "handler", "chosen"),
    [
        (ROW, HANDLER, ROW),
        (ROW, None, ROW),
        (None, HANDLER, HANDLER),
        (None, None, SQUARED_MINUTES),
    ],
)
def test_the_policy_of_the_row_precedes_that_of_the_handler_and_the_default(
    row: Retry | None, handler: Retry | None, chosen: Retry
) -> None:
    job = a_job(retry=encode(row.to_json(), field="retry") if row else None)
    assert policy(job, handler) == chosen


@pytest.mark.parametrize(
    ("row", "handler", "chosen"),
    [
        (ROW, HANDLER, ROW),
        (None, HANDLER, HANDLER),
        (None, None, STEP_RETRY),  # a client may be waiting for the run: seconds, not minutes
    ],
)
def test_a_step_without_a_policy_is_retried_within_seconds(
    row: Retry | None, handler: Retry | None, chosen: Retry
) -> None:
    job = a_job(retry=encode(row.to_json(), field="retry") if row else None, run_id=UUID(int=2))
    assert policy(job, handler) == chosen
    assert STEP_RETRY.delay(1, 0.0) == timedelta(seconds=1)


@pytest.mark.parametrize(
    "written", ['{"kind": "soon"}', '{"base": "1 minute"}', '{"base": null}', '{"wait": 1}', "[]", "5", '"x"']
)
def test_a_failure_is_recorded_even_if_plain_sql_wrote_an_invalid_policy(written: str) -> None:
    """The outcome of an attempt must not be lost because its row has an unreadable policy."""
    report = after(a_job(retry=written), Failed(ERROR), HANDLER, 0.0)
    assert isinstance(report, Setback)
    assert report.move is M.RETRY
    assert report.error == ERROR


@pytest.mark.parametrize("written", ['{"kind": "soon"}', '{"base": "1 minute"}', '{"wait": 1}'])
def test_an_unreadable_policy_raises_invalid(written: str) -> None:
    with pytest.raises(Invalid, match="retry"):
        Retry.from_json(decode(written))
