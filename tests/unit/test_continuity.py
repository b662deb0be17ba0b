"""Gaps between the responses of the database."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from windlass.core.jobs.job import LATE_ANSWER, Continuity, Gap

START = datetime(2030, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def heard(*moments: float, before: float | None = None) -> Continuity:
    continuity = Continuity()
    for moment in moments:
        continuity.answered(at(moment), before=None if before is None else at(before))
    return continuity


def test_timely_responses_leave_no_gap() -> None:
    assert heard(0, 0.5, 1.0, 1.9).gaps == []


def test_a_late_response_leaves_a_gap_since_the_previous_one() -> None:
    assert heard(0, 0.5, 6.5, 7).gaps == [Gap(at(0.5), at(6.5))]


def test_a_gap_is_forgotten_after_three_times_its_length() -> None:
    """It counts for leases of up to three times its length, and for the time of one lease."""
    rounds = [n / 2 for n in range(1, 61)]
    assert heard(0, 6, *(6 + n for n in rounds[:36])).gaps == [Gap(at(0), at(6))]
    assert heard(0, 6, *(6 + n for n in rounds[:37])).gaps == []


def test_the_gap_before_the_first_response_starts_at_the_last_renewal_of_the_term() -> None:
    assert heard(10, 10.5, before=9.5).gaps == []
    assert heard(10, 10.5, before=0).gaps == [Gap(at(0), at(10))]


def test_after_the_first_response_renewals_by_other_processes_are_ignored() -> None:
    """A process that takes over a term from one that died already has its own responses."""
    continuity = heard(0, 0.5, 1)
    continuity.answered(at(1.5), before=at(-20))
    assert continuity.gaps == []


@given(st.lists(st.floats(0.01, 30), min_size=1, max_size=50))
def test_exactly_the_gaps_that_still_count_are_remembered(waits: list[float]) -> None:
    moment, answers = 0.0, [0.0]
    for wait in waits:
        moment += wait
        answers.append(moment)
    now = at(answers[-1])
    late = [Gap(at(a), at(b)) for a, b in pairwise(answers) if at(b) - at(a) > LATE_ANSWER]
    assert heard(*answers).gaps == [gap for gap in late if now <= gap.until + 3 * (gap.until - gap.since)]
