"""Comparison with croniter and cronsim, for expressions whose rules are the same."""

from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from croniter import CroniterBadDateError, croniter  # type: ignore[import-untyped]  # it ships no stubs
from cronsim import CronSim, CronSimError
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from windlass.core.cron.expression import Cron, parse

unhurried = settings(deadline=None)
COUNT = 5
BERLIN = ZoneInfo("Europe/Berlin")
FROM = datetime(2020, 1, 1)  # noqa: DTZ001
TO = datetime(2050, 1, 1)  # noqa: DTZ001
MOMENTS = st.datetimes(FROM, TO, timezones=st.just(UTC)).map(lambda moment: moment.replace(microsecond=0))


def fields(low: int, high: int, *more: str) -> st.SearchStrategy[str]:
    value = st.integers(low, high).map(str)
    spanned = st.tuples(st.integers(low, high - 1), st.integers(1, high - low)).map(
        lambda pair: f"{pair[0]}-{min(pair[0] + pair[1], high)}"
    )
    stepped = st.tuples(st.just("*") | spanned, st.integers(2, max(2, (high - low) // 2)).map(str)).map("/".join)
    listed = st.lists(value | spanned | stepped, min_size=1, max_size=3).map(",".join)
    return st.just("*") | listed | (st.sampled_from(more) if more else st.nothing())


MONTHS = fields(1, 12, "JAN", "MAR-SEP", "feb,NOV")
WEEKDAYS = fields(0, 6, "7", "SUN", "mon-FRI", "5-7")
LINES = st.tuples(fields(0, 59), fields(0, 23), fields(1, 31), MONTHS, WEEKDAYS).map(" ".join)
EXTENDED = st.tuples(
    fields(0, 59),
    fields(0, 23),
    st.sampled_from(["*", "L", "LW", "13,L"]),
    MONTHS,
    st.sampled_from(["*", "FRI#3", "1#5,0#1"]),
).map(" ".join)


def ours(cron: Cron, moment: datetime, *, back: bool = False) -> list[datetime]:
    found: list[datetime] = []
    ask = cron.prev if back else cron.next
    while len(found) < COUNT and (when := ask(found[-1] if found else moment, years=45)):
        found.append(when)
    return found


def theirs(line: str, moment: datetime, *, back: bool = False) -> list[datetime]:
    try:
        return list(islice(CronSim(line, moment, reverse=back), COUNT))
    except CronSimError:  # it refuses dates that never occur; Windlass returns no time for them
        return []


@unhurried
@given(LINES | EXTENDED, MOMENTS)
def test_next_times_equal_those_of_cronsim_in_utc(line: str, moment: datetime) -> None:
    assert ours(parse(line), moment) == theirs(line, moment)


@unhurried
@given(LINES | EXTENDED, MOMENTS)
def test_previous_times_equal_those_of_cronsim_in_utc(line: str, moment: datetime) -> None:
    assert ours(parse(line), moment, back=True) == theirs(line, moment, back=True)


@unhurried
@given(LINES, MOMENTS)
def test_next_times_equal_those_of_croniter_in_utc_with_one_day_field(line: str, moment: datetime) -> None:
    assume("*" in line.split()[2::2])  # it treats 0-6 like a star; Windlass, Vixie cron and cronsim do not
    peer = croniter(line, moment, implement_cron_bug=True, max_years_between_matches=45)
    try:
        expected = [peer.get_next(datetime) for _ in range(COUNT)]
    except CroniterBadDateError:
        assume(False)
    assert ours(parse(line), moment) == expected


@unhurried
@given(
    st.tuples(st.integers(0, 59), st.integers(0, 3), st.sampled_from(["*", "SUN", "SUN-MON"])),
    st.integers(2020, 2036),
    st.sampled_from([(3, 24), (10, 24)]),
)
def test_daily_times_around_a_clock_change_equal_those_of_cronsim(
    pieces: tuple[int, int, str], year: int, day: tuple[int, int]
) -> None:
    line = "{} {} * * {}".format(*pieces)
    moment = datetime(year, *day, tzinfo=BERLIN)
    expected = list(islice(CronSim(line, moment), 10))
    assert [when.isoformat() for when in parse(line, zone=BERLIN).upcoming(moment, 10)] == [
        when.isoformat() for when in expected
    ]


@pytest.mark.parametrize("line", ["*/15 * * * *", "0 9 * * MON-FRI", "30 4 1,15 * *", "0 0 29 2 *"])
def test_the_times_of_common_expressions_equal_those_of_cronsim(line: str) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    end = start + timedelta(days=3653 if line.startswith(("0 0", "30")) else 30)
    expected: list[datetime] = []
    for when in CronSim(line, start):
        if when >= end:
            break
        expected.append(when)
    assert [when for when in parse(line).between(start, end) if when > start] == expected
