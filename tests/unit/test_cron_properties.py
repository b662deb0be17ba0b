"""Properties of every cron expression at every time, especially at clock changes."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import assume, given
from hypothesis import strategies as st

from tests.unit.instants import APIA, BERLIN, LORD_HOWE, NEW_YORK, SAO_PAULO, at, unhurried
from windlass.core.cron.expression import Cron, parse
from windlass.core.cron.syntax import CLASSIC, OJS, DayRule, Dialect, Gap

CHANGES = {
    BERLIN: ["2030-03-31T01:00Z", "2030-10-27T01:00Z"],
    NEW_YORK: ["2030-03-10T07:00Z", "2030-11-03T06:00Z"],
    SAO_PAULO: ["2018-11-04T03:00Z", "2018-02-18T02:00Z"],
    LORD_HOWE: ["2026-10-03T15:30Z", "2026-04-04T15:00Z"],
    APIA: ["2011-12-30T10:00Z"],
    "UTC": ["2028-02-29T00:00Z"],
}


def field_texts(low: int, high: int, *more: str) -> st.SearchStrategy[str]:
    value = st.integers(low, high).map(str)
    spanned = st.tuples(value, value).map("-".join)
    stepped = st.tuples(st.just("*") | value | spanned, st.integers(1, high - low).map(str)).map("/".join)
    piece = value | spanned | stepped | st.sampled_from(["*", *more])
    return st.just("*") | st.lists(piece, min_size=1, max_size=2).map(",".join)


MINUTES, HOURS = field_texts(0, 59), field_texts(0, 23)
DAYS, MONTHS = field_texts(1, 31, "L", "15W", "LW", "L-2"), field_texts(1, 12)
WEEKDAYS = field_texts(0, 7, "FRI#3", "MON#L", "SUN")
TEXTS = st.tuples(MINUTES, HOURS, DAYS, MONTHS, WEEKDAYS).map(" ".join)
DAILY = st.tuples(MINUTES, HOURS | st.sampled_from(["0", "1", "2", "23", "*/2"])).map(
    lambda pair: " ".join(pair) + " * * *"
)
WITH_SECONDS = st.tuples(st.sampled_from(["0", "*/7", "59", "1,30"]), TEXTS).map(" ".join)


@st.composite
def crons(draw: st.DrawFn) -> Cron:
    dialect = draw(st.sampled_from([CLASSIC, replace(CLASSIC, gap=Gap.SKIP), replace(CLASSIC, days=DayRule.AND)]))
    return parse(draw(TEXTS | DAILY | WITH_SECONDS), dialect=dialect, zone=draw(st.sampled_from([*CHANGES])))


@st.composite
def moments(draw: st.DrawFn) -> datetime:
    change = at(draw(st.sampled_from([text for texts in CHANGES.values() for text in texts])))
    near = st.timedeltas(timedelta(hours=-30), timedelta(hours=30))
    moment = change + draw(near | st.timedeltas(timedelta(days=-9999), timedelta(days=9999)))
    return moment.replace(microsecond=draw(st.sampled_from([0, 1, 999_999])))


@unhurried
@given(crons(), moments())
def test_next_is_later_and_prev_is_earlier_than_the_given_moment(cron: Cron, moment: datetime) -> None:
    following, before = cron.next(moment), cron.prev(moment)
    assert following is None or following.astimezone(UTC) > moment
    assert before is None or before.astimezone(UTC) < moment


@unhurried
@given(crons(), moments())
def test_the_next_time_matches_and_is_also_the_next_from_just_before_it(cron: Cron, moment: datetime) -> None:
    found = cron.next(moment)
    assume(found)
    assert found
    assert cron.matches(found)
    assert cron.next(found.astimezone(UTC) - timedelta(microseconds=1)) == found


@unhurried
@given(crons(), moments())
def test_prev_and_next_are_inverse(cron: Cron, moment: datetime) -> None:
    far = 60  # a rare date may be found in one direction and lie too far away in the other
    first, second = ([*cron.upcoming(moment, 2, years=far), None, None])[:2]
    assume(second)
    assert second
    assert cron.prev(second, years=far) == first
    before = cron.prev(moment, years=far)
    now = moment if cron.matches(moment) and not moment.microsecond else first
    assert now
    assert before is None or cron.next(before, years=far) == now.astimezone(cron.zone)


@unhurried
@given(crons(), moments(), st.integers(0, 5))
def test_upcoming_is_next_repeated_and_strictly_rising(cron: Cron, moment: datetime, count: int) -> None:
    expected: list[datetime] = []
    while len(expected) < count and (found := cron.next(expected[-1] if expected else moment)):
        expected.append(found)
    assert cron.upcoming(moment, count) == expected
    assert all(a.astimezone(UTC) < b.astimezone(UTC) for a, b in pairwise(expected))


def watched(cron: Cron, wall_cron: Cron, start: datetime, hours: int) -> Iterator[datetime]:
    """Yield the expected times by comparing the wall clock with the expression at every minute."""
    every_hour = cron.text.split()[1] in ("*", "*/1", "0-23")
    last = start.astimezone(cron.zone).replace(tzinfo=None) - timedelta(minutes=1)
    for minute in range(hours * 60):
        instant = start + timedelta(minutes=minute)
        local = instant.astimezone(cron.zone)
        wall = local.replace(tzinfo=None)
        skipped = cron.gap is Gap.AFTER and not every_hour and any(_walls(wall_cron, last, wall))
        if skipped or ((local.fold == 0 or every_hour) and wall_cron.matches(wall.replace(tzinfo=UTC))):
            yield instant
        last = wall.replace(fold=0)


def _walls(wall_cron: Cron, last: datetime, wall: datetime) -> list[datetime]:
    first = last + timedelta(minutes=1)
    return (
        [] if first >= wall else list(wall_cron.between(first.replace(tzinfo=UTC), wall.replace(tzinfo=UTC), limit=1))
    )


@unhurried
@given(
    DAILY | st.tuples(MINUTES, HOURS).map(lambda pair: " ".join(pair) + " 30,31,4 * *"),
    st.sampled_from([(zone, change) for zone, changes in CHANGES.items() for change in changes]),
    st.sampled_from([CLASSIC, OJS]),
)
def test_times_around_a_clock_change_equal_a_simulation_of_the_wall_clock(
    line: str, change: tuple[str, str], dialect: Dialect
) -> None:
    zone, instant = change
    cron, wall_cron = parse(line, zone=zone, dialect=dialect), parse(line)
    start = at(instant) - timedelta(hours=4)
    assume(cron.text.split()[1] in ("*", "*/1", "0-23") or len(_hours(wall_cron)) < 24)
    expected = list(watched(cron, wall_cron, start, 8))
    end = start + timedelta(hours=8)
    assert [when.astimezone(UTC) for when in cron.between(start, end)] == expected
    assert [when.astimezone(UTC) for when in _backwards(cron, end, start)] == expected[::-1]


def _hours(cron: Cron) -> set[int]:
    return {when.hour for when in cron.between(at("2028-01-30T00:00Z"), at("2028-01-31T00:00Z"))}


def _backwards(cron: Cron, end: datetime, start: datetime) -> Iterator[datetime]:
    found = cron.prev(end)
    while found and found >= start:
        yield found
        found = cron.prev(found)
