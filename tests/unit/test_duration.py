"""The notations of durations."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core import duration
from windlass.errors import Invalid


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("30s", timedelta(seconds=30)),
        ("5m", timedelta(minutes=5)),
        ("1h30m", timedelta(minutes=90)),
        ("500ms", timedelta(milliseconds=500)),
        ("2d", timedelta(days=2)),
        ("1.5h", timedelta(minutes=90)),
        ("1d2h3m4s5ms", timedelta(days=1, hours=2, minutes=3, seconds=4, milliseconds=5)),
        (" 10s ", timedelta(seconds=10)),
        ("0s", timedelta()),
        ("0.5ms", timedelta(microseconds=500)),
        ("90m", timedelta(minutes=90)),
    ],
)
def test_a_valid_duration_is_parsed(written: str, meant: timedelta) -> None:
    assert duration.parse(written) == meant


@pytest.mark.parametrize(
    "written",
    [
        "",
        " ",
        "30",
        "s",
        "-5s",
        "5 s",
        "5x",
        "1s1h",
        "1h1h",
        "1e3s",
        "٣s",
        "1.s",
        ".5s",
        "nan",
        "infs",
        "5S",
        "9" * 30 + "d",
    ],
)
def test_an_invalid_duration_is_refused_with_the_allowed_notation(written: str) -> None:
    with pytest.raises(Invalid, match=r"lease is .*(500ms, 30s, 5m, 1h30m or 2d|the longest is 36525d)") as caught:
        duration.parse(written, field="lease")
    assert caught.value.field == "lease"


@given(st.timedeltas(min_value=timedelta(), max_value=duration.LONGEST))
def test_a_duration_round_trips_through_its_text(span: timedelta) -> None:
    assert duration.parse(duration.text(span)) == span


@pytest.mark.parametrize(
    ("span", "written"),
    [
        (timedelta(), "0s"),
        (timedelta(minutes=90), "1h30m"),
        (timedelta(microseconds=1500), "1.5ms"),
        (timedelta(seconds=-5), "-5s"),
        (timedelta(days=2), "2d"),
    ],
)
def test_a_duration_is_written_with_its_largest_units(span: timedelta, written: str) -> None:
    assert duration.text(span) == written


def test_a_rough_duration_has_two_units() -> None:
    assert duration.rough(timedelta(days=1, hours=2, minutes=3, seconds=4)) == "1d2h"
    assert duration.rough(timedelta(milliseconds=1200)) == "1s"
    assert duration.rough(timedelta(seconds=-90)) == "-1m30s"
