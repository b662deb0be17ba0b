"""The regression guard of the benchmark: which changes count as worse, and the file of recorded ratios."""

from pathlib import Path

import pytest
from bench import recorded, report
from bench.plan import Measure, Plan, Series
from bench.ratios import GUARDED, TOLERANCE, Compared, Pair, Ratio, Verdict, compare, judge, ratio, ratios
from bench.recorded import Entry
from hypothesis import given
from hypothesis import strategies as st

RATE = Pair(Measure.DRAIN, "rate", "bare", "rate")
TIME = Pair(Measure.LATENCY, "p50", "pgqueuer", "p50")

sizes = st.floats(min_value=0.01, max_value=100)
repetitions = st.lists(sizes, min_size=1, max_size=9)
pairs = st.sampled_from([RATE, TIME])


def exactly(value: float) -> Ratio:
    return Ratio(value, value, value, 5)


@given(pair=pairs, values=repetitions)
def test_a_ratio_is_never_worse_than_itself(pair: Pair, values: list[float]) -> None:
    assert judge(pair, ratio(values), ratio(values)) is Verdict.SAME


@given(values=repetitions)
def test_the_range_of_a_ratio_contains_it(values: list[float]) -> None:
    one = ratio(values)
    assert min(values) <= one.low <= one.value <= one.high <= max(values)


@given(pair=pairs, before=sizes, change=st.floats(min_value=0.5, max_value=2))
def test_without_noise_a_change_above_the_tolerance_decides_the_verdict(
    pair: Pair, before: float, change: float
) -> None:
    loss = change - 1 if pair is TIME else 1 - change
    if abs(abs(loss) - TOLERANCE) < 1e-9:
        return  # on the edge, where rounding decides
    expected = Verdict.WORSE if loss > TOLERANCE else Verdict.BETTER if loss < -TOLERANCE else Verdict.SAME
    assert judge(pair, exactly(before), exactly(before * change)) is expected


@given(pair=pairs, before=repetitions, now=repetitions)
def test_overlapping_ranges_are_never_judged_worse_or_better(pair: Pair, before: list[float], now: list[float]) -> None:
    one, other = ratio(before), ratio(now)
    verdict = judge(pair, one, other)
    if one.low <= other.high and other.low <= one.high:
        assert verdict in (Verdict.SAME, Verdict.UNCLEAR)


@given(pair=pairs, before=repetitions, now=repetitions, further=st.floats(min_value=1, max_value=4))
def test_a_worse_ratio_stays_worse_when_it_degrades_further(
    pair: Pair, before: list[float], now: list[float], further: float
) -> None:
    if judge(pair, ratio(before), ratio(now)) is Verdict.WORSE:
        factor = further if pair is TIME else 1 / further
        assert judge(pair, ratio(before), ratio([value * factor for value in now])) is Verdict.WORSE


def test_a_large_loss_within_the_noise_is_unclear() -> None:
    assert judge(RATE, Ratio(0.8, 0.7, 0.9, 5), Ratio(0.6, 0.5, 0.75, 5)) is Verdict.UNCLEAR


def test_ratios_compare_repetitions_that_ran_next_to_each_other() -> None:
    """The machine was three times slower in the second repetition, for both."""
    found = [
        Series(measure=Measure.DRAIN, contestant="windlass", column="rate", values=(80.0, 27.0, 80.0)),
        Series(measure=Measure.DRAIN, contestant="bare", column="rate", values=(100.0, 30.0, 100.0)),
    ]
    assert ratios(found) == {RATE: ratio([0.8, 0.9, 0.8])}


def test_a_ratio_without_results_of_the_rival_is_not_measured() -> None:
    found = [Series(measure=Measure.DRAIN, contestant="windlass", column="rate", values=(80.0,))]
    assert compare({RATE: exactly(0.8)}, ratios(found)) == [Compared(RATE, exactly(0.8), None, Verdict.NOT_MEASURED)]


def test_every_measure_is_guarded() -> None:
    assert {pair.measure for pair in GUARDED} == set(Measure)


def entry(value: float, *, count: int = 20_000, others: float = 0.0, date: str = "2026-11-16") -> Entry:
    return Entry(exactly(value), count, others, date, {"Postgres": "18.4"})


def test_recording_replaces_the_measured_ratios_and_keeps_the_rest(tmp_path: Path) -> None:
    file = tmp_path / "recorded.json"
    recorded.write(file, {RATE: entry(0.7), TIME: entry(0.9)})
    recorded.write(file, {RATE: entry(0.8, date="2026-12-01")})
    assert recorded.read(file) == {RATE: entry(0.8, date="2026-12-01"), TIME: entry(0.9)}


def test_the_recorded_file_of_the_repository_has_only_guarded_ratios() -> None:
    assert set(recorded.read(recorded.FILE)) <= set(GUARDED)


@pytest.mark.parametrize(
    ("entries", "note"),
    [
        (entry(0.8, count=10), "recorded with 10, now 20,000"),
        (entry(0.8, others=1.5), "recorded on a busy machine"),
    ],
)
def test_the_table_notes_what_makes_a_comparison_unreliable(entries: Entry, note: str) -> None:
    text = report.comparison(compare({RATE: entries.ratio}, {RATE: exactly(0.5)}), {RATE: entries}, Plan())
    assert note in text
    assert "WORSE" in text
    assert "1 of 1 ratios got worse" in text


def test_the_report_lists_the_measures_taken_on_a_busy_machine() -> None:
    assert "was quiet" in report.machine({Measure.DRAIN: 0.01})
    assert "NOT QUIET: other processes used cores (drain 1.20)" in report.machine(
        {Measure.DRAIN: 1.2, Measure.SUBMIT: 0.0}
    )
