"""The times of a cron expression: next, previous, in an interval, and at clock changes."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from tests.unit.instants import APIA, BEIRUT, BERLIN, LORD_HOWE, NEW_YORK, SAO_PAULO, SATURDAY, at, runs
from windlass.core.cron.expression import Cron, parse
from windlass.core.cron.syntax import CLASSIC, FULL, IN_PROCESS, OJS, DayRule, Dialect

# --- queries ---


def test_next_is_strictly_after_and_prev_strictly_before() -> None:
    cron = parse("0 9 * * *")
    nine, next_nine = at("2028-01-01T09:00Z"), at("2028-01-02T09:00Z")
    tick = timedelta(microseconds=1)
    assert [cron.next(nine - tick), cron.next(nine), cron.next(nine + tick)] == [nine, next_nine, next_nine]
    assert [cron.prev(next_nine - tick), cron.prev(next_nine), cron.prev(next_nine + tick)] == [nine, nine, next_nine]


def test_a_returned_time_is_in_the_zone_of_the_expression() -> None:
    found = parse("0 9 * * *", zone=BERLIN).next(at(SATURDAY).astimezone(ZoneInfo(NEW_YORK)))
    assert found
    assert found.tzinfo is ZoneInfo(BERLIN)
    assert found == at("2028-01-01T08:00Z")


def test_matches_compares_whole_seconds() -> None:
    cron = parse("30 9 * * *", zone=BERLIN)
    assert cron.matches(at("2028-01-01T08:30:00.9Z"))
    assert not cron.matches(at("2028-01-01T08:30:01Z"))
    assert not cron.matches(at("2028-01-01T09:30Z"))


def test_between_includes_its_start_excludes_its_end_and_may_be_limited() -> None:
    cron = parse("0 * * * *")
    start, end = at(SATURDAY), at("2028-01-01T03:00Z")
    assert [when.hour for when in cron.between(start, end)] == [0, 1, 2]
    assert [when.hour for when in cron.between(start, end, limit=2)] == [0, 1]
    assert list(cron.between(end, start)) == []


@pytest.mark.parametrize("line", ["0 0 31 2 *", "0 0 30 FEB *", "0 0 31 4,6,9,11 *", "0 0 * * 1#5,1#1 1999"])
def test_an_expression_whose_date_never_occurs_has_no_next_and_no_previous_time(line: str) -> None:
    cron = parse(line, dialect=replace(FULL, days=DayRule.OR))
    assert cron.next(at(SATURDAY)) is None
    assert cron.prev(at("1998-01-01T00:00Z")) is None


def test_the_search_ends_after_five_years_or_the_requested_number() -> None:
    leap_day = parse("0 0 29 2 *")
    assert leap_day.next(at("2096-03-01T00:00Z")) is None
    assert leap_day.next(at("2096-03-01T00:00Z"), years=8) == at("2104-02-29T00:00Z")
    assert leap_day.prev(at("2104-02-01T00:00Z")) is None
    assert leap_day.prev(at("2104-02-01T00:00Z"), years=8) == at("2096-02-29T00:00Z")


@pytest.mark.parametrize("line", ["* * * * * *", "@every 1h", "0 0 1 1 *"])
@pytest.mark.parametrize("zone", ["UTC", BERLIN, NEW_YORK])
def test_there_is_no_time_beyond_the_ends_of_the_calendar(line: str, zone: str) -> None:
    cron = parse(line, zone=zone)
    assert cron.next(datetime.max.replace(tzinfo=UTC)) is None
    assert cron.prev(datetime.min.replace(tzinfo=UTC)) is None


# --- clock changes ---


@pytest.mark.parametrize(
    ("line", "zone", "after", "expected"),
    [
        # 02:00 to 03:00 does not exist
        ("30 2 * * *", BERLIN, "2030-03-30T12:00+01:00", ["2030-03-31T03:00+02:00", "2030-04-01T02:30+02:00"]),
        ("*/10 2 * * *", BERLIN, "2030-03-30T12:00+01:00", ["2030-03-31T03:00+02:00", "2030-04-01T02:00+02:00"]),
        ("0 2,3 * * *", BERLIN, "2030-03-30T12:00+01:00", ["2030-03-31T03:00+02:00", "2030-04-01T02:00+02:00"]),
        ("30 2,3 * * *", BERLIN, "2030-03-30T12:00+01:00", ["2030-03-31T03:00+02:00", "2030-03-31T03:30+02:00"]),
        ("0 */2 * * *", BERLIN, "2030-03-31T00:00+01:00", ["2030-03-31T03:00+02:00", "2030-03-31T04:00+02:00"]),
        ("30 2 31 3 *", BERLIN, "2030-01-01T00:00+01:00", ["2030-03-31T03:00+02:00", "2031-03-31T02:30+02:00"]),
        ("30 1 * * *", BERLIN, "2030-03-31T01:00+01:00", ["2030-03-31T01:30+01:00", "2030-04-01T01:30+02:00"]),
        # every hour of the day is an interval: nothing to make up for
        ("30 * * * *", BERLIN, "2030-03-31T01:00+01:00", ["2030-03-31T01:30+01:00", "2030-03-31T03:30+02:00"]),
        ("*/30 * * * *", BERLIN, "2030-03-31T01:00+01:00", ["2030-03-31T01:30+01:00", "2030-03-31T03:00+02:00"]),
        ("30 0-23 * * *", BERLIN, "2030-03-31T01:00+01:00", ["2030-03-31T01:30+01:00", "2030-03-31T03:30+02:00"]),
        # 02:00 to 03:00 comes twice
        ("30 2 * * *", BERLIN, "2030-10-26T12:00+02:00", ["2030-10-27T02:30+02:00", "2030-10-28T02:30+01:00"]),
        ("30 2 * * *", BERLIN, "2030-10-27T02:10+01:00", ["2030-10-28T02:30+01:00"]),
        ("0 3 * * *", BERLIN, "2030-10-27T02:10+01:00", ["2030-10-27T03:00+01:00"]),
        # midnight does not exist, or comes twice
        ("0 0 * * *", SAO_PAULO, "2018-11-03T12:00-03:00", ["2018-11-04T01:00-02:00", "2018-11-05T00:00-02:00"]),
        ("0 0 4 11 *", SAO_PAULO, "2018-11-03T12:00-03:00", ["2018-11-04T01:00-02:00", "2019-11-04T00:00-03:00"]),
        ("30 23 * * *", SAO_PAULO, "2018-02-17T12:00-02:00", ["2018-02-17T23:30-02:00", "2018-02-18T23:30-03:00"]),
        ("0 0 * * *", SAO_PAULO, "2018-02-17T23:30-03:00", ["2018-02-18T00:00-03:00", "2018-02-19T00:00-03:00"]),
        ("@daily", BEIRUT, "2022-03-26T12:00+02:00", ["2022-03-27T01:00+03:00", "2022-03-28T00:00+03:00"]),
        # half an hour
        ("15 2 * * *", LORD_HOWE, "2026-10-03T12:00+10:30", ["2026-10-04T02:30+11:00", "2026-10-05T02:15+11:00"]),
        ("45 1 * * *", LORD_HOWE, "2026-04-04T12:00+11:00", ["2026-04-05T01:45+11:00", "2026-04-06T01:45+10:30"]),
        ("0 2 * * *", LORD_HOWE, "2026-04-05T01:40+10:30", ["2026-04-05T02:00+10:30"]),
        # a whole day
        ("0 9 * * *", APIA, "2011-12-29T09:00-10:00", ["2011-12-31T00:00+14:00", "2011-12-31T09:00+14:00"]),
        ("0 9 30 12 *", APIA, "2011-12-01T09:00-10:00", ["2011-12-31T00:00+14:00", "2012-12-30T09:00+14:00"]),
        ("0 * * * *", APIA, "2011-12-29T22:00-10:00", ["2011-12-29T23:00-10:00", "2011-12-31T00:00+14:00"]),
    ],
)
def test_a_skipped_time_runs_right_after_the_gap_and_a_repeated_one_at_its_first_occurrence(
    line: str, zone: str, after: str, expected: list[str]
) -> None:
    assert runs(parse(line, zone=zone), after, len(expected)) == expected


def backwards(cron: Cron, before: datetime, count: int) -> list[datetime]:
    found: list[datetime] = []
    while len(found) < count and (when := cron.prev(found[-1] if found else before)):
        found.append(when)
    return found


@pytest.mark.parametrize("dialect", [CLASSIC, IN_PROCESS, OJS], ids=["classic", "in-process", "ojs"])
@pytest.mark.parametrize(
    ("line", "zone", "first", "count"),
    [
        ("*/15 * * * *", BERLIN, "2030-10-26T23:30Z", 12),
        ("* * * * *", BERLIN, "2030-10-26T23:30Z", 180),
        ("@hourly", BERLIN, "2030-10-26T22:00Z", 6),
        ("30 0-23 * * *", BERLIN, "2030-10-26T22:30Z", 6),
        ("*/10 * 27 10 *", BERLIN, "2030-10-26T23:30Z", 18),
        ("*/15 * * * *", LORD_HOWE, "2026-04-04T14:00Z", 10),
        ("*/15 * * * *", SAO_PAULO, "2018-02-18T01:00Z", 10),
    ],
)
def test_a_cron_that_names_every_hour_keeps_firing_through_the_repeated_hour(
    line: str, zone: str, first: str, count: int, dialect: Dialect
) -> None:
    cron = parse(line, zone=zone, dialect=dialect)
    start = at(first).astimezone(UTC)
    found = [when.astimezone(UTC) for when in cron.upcoming(start - timedelta(seconds=1), count)]
    step = found[1] - found[0]
    assert found == [start + n * step for n in range(count)]
    assert [when.astimezone(UTC) for when in backwards(cron, found[-1], count - 1)] == found[-2::-1]
    assert all(cron.matches(when) for when in found)


def test_a_repeated_hour_on_a_day_given_by_date_is_not_lost() -> None:
    """In Newfoundland the clock went back at 00:01, so the first minute of that day came twice, an hour apart."""
    cron = parse("0 * 7 11 *", zone="America/St_Johns")
    assert runs(cron, "2010-01-01T12:00-03:30", 2) == ["2010-11-07T00:00-02:30", "2010-11-07T00:00-03:30"]


@pytest.mark.parametrize(
    ("line", "zone", "after", "expected"),
    [
        ("30 2 * * *", BERLIN, "2030-03-30T12:00+01:00", ["2030-04-01T02:30+02:00"]),
        ("0 2,3 * * *", BERLIN, "2030-03-30T12:00+01:00", ["2030-03-31T03:00+02:00"]),
        ("0 0 * * *", SAO_PAULO, "2018-11-03T12:00-03:00", ["2018-11-05T00:00-02:00"]),
        ("0 9 * * *", APIA, "2011-12-29T09:00-10:00", ["2011-12-31T09:00+14:00"]),
        ("30 2 * * *", BERLIN, "2030-10-26T12:00+02:00", ["2030-10-27T02:30+02:00", "2030-10-28T02:30+01:00"]),
    ],
)
def test_an_ojs_cron_does_not_run_at_a_skipped_time(line: str, zone: str, after: str, expected: list[str]) -> None:
    assert runs(parse(line, zone=zone, dialect=OJS), after, len(expected)) == expected


def test_prev_returns_the_time_after_a_gap_and_the_first_of_two_repeated_times() -> None:
    cron = parse("30 2 * * *", zone=BERLIN)
    assert cron.prev(at("2030-03-31T12:00+02:00")) == at("2030-03-31T03:00+02:00")
    assert cron.prev(at("2030-03-31T03:00+02:00")) == at("2030-03-30T02:30+01:00")
    found = cron.prev(at("2030-10-27T02:10+01:00"))
    assert found
    assert found.isoformat() == "2030-10-27T02:30:00+02:00"


def test_a_skipped_time_matches_after_the_gap_and_a_repeated_time_matches_only_once() -> None:
    cron = parse("30 2 * * *", zone=BERLIN)
    assert cron.matches(at("2030-03-31T03:00+02:00"))
    assert cron.matches(at("2030-10-27T02:30+02:00"))
    assert not cron.matches(at("2030-10-27T02:30+01:00"))


def test_between_compares_instants_even_inside_a_repeated_hour() -> None:
    cron = parse("30 2 * * *", zone=BERLIN)
    zone = ZoneInfo(BERLIN)
    again = at("2030-10-27T01:10Z").astimezone(zone)
    assert [when.fold for when in cron.between(at("2030-10-27T00:10Z").astimezone(zone), again)] == [0]
    assert list(cron.between(again, at("2030-10-27T02:00Z").astimezone(zone))) == []
