"""The benchmark of scale: which series of measurements count as flat."""

from dataclasses import replace

from bench.scale.trend import FLAT, JUDGED, Minute, drift, percentile, trends
from hypothesis import given
from hypothesis import strategies as st

MINUTE = Minute(drain=1000, chains=100, claim_p99=50, list_p99=20, wal_per_job=2000, dead=5, autovacuum=1)
values = st.floats(min_value=1, max_value=1e6)


@given(value=values, count=st.integers(min_value=3, max_value=40))
def test_a_constant_series_does_not_drift(value: float, count: int) -> None:
    assert drift([value] * count) == 0


@given(start=values, change=st.floats(min_value=-0.9, max_value=5), count=st.integers(min_value=3, max_value=40))
def test_a_straight_line_drifts_by_its_change(start: float, change: float, count: int) -> None:
    row = [start * (1 + change * n / (count - 1)) for n in range(count)]
    expected = change / (1 + change / 2)  # relative to the middle of the row
    assert abs(drift(row) - expected) < 1e-6


@given(row=st.lists(values, min_size=3, max_size=30))
def test_a_reversed_series_drifts_by_the_opposite_amount(row: list[float]) -> None:
    assert abs(drift(row) + drift(row[::-1])) < 1e-6


@given(value=values, place=st.integers(min_value=0, max_value=19), spike=st.floats(min_value=0, max_value=100))
def test_one_outlier_in_twenty_intervals_is_not_a_drift(value: float, place: int, spike: float) -> None:
    row = [value] * 20
    row[place] = value * spike
    assert drift(row) == 0


def test_a_falling_rate_and_a_rising_time_are_worse() -> None:
    falling = [replace(MINUTE, drain=1000 - 20 * n, claim_p99=50 + 2 * n) for n in range(10)]
    verdicts = {one.name: one.verdict for one in trends(falling, warm_up=0)}
    assert verdicts == {name: "WORSE" if name in ("drain", "claim_p99") else "flat" for name in JUDGED}


def test_a_rising_rate_is_better() -> None:
    rising = [replace(MINUTE, drain=1000 + 50 * n) for n in range(10)]
    assert next(one for one in trends(rising, warm_up=0) if one.name == "drain").verdict == "better"


def test_the_warm_up_is_left_out() -> None:
    minutes = [replace(MINUTE, drain=5000), *([MINUTE] * 5)]
    assert all(abs(one.drift) <= FLAT for one in trends(minutes, warm_up=1))


def test_too_few_intervals_have_no_verdict() -> None:
    assert trends([MINUTE] * 4, warm_up=2) == []


def test_the_percentile_of_an_empty_list_is_zero() -> None:
    assert percentile([], 0.99) == 0
    assert percentile([1.0, 2.0, 3.0], 0.99) == 3.0
