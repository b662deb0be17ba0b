"""Cron expressions: their syntax and meaning."""

from dataclasses import replace
from datetime import timedelta
from zoneinfo import ZoneInfo

import pytest

from tests.unit.instants import BERLIN, NEW_YORK, SATURDAY, at, runs
from windlass.core.cron.expression import parse
from windlass.core.cron.syntax import CLASSIC, FULL, IN_PROCESS, OJS, Dialect, Presence, fnv1a
from windlass.errors import InvalidCron


def seconds_of(text: str, dialect: Dialect = FULL, key: str | None = "job1") -> list[int]:
    cron = parse(f"{text} * * * * *", dialect=dialect, key=key)
    return [when.second for when in cron.between(at("2028-01-01T00:00Z"), at("2028-01-01T00:01Z"))]


def days_of(text: str, month: str, dialect: Dialect = CLASSIC) -> list[int]:
    start = at(f"{month}-01T00:00Z")
    end = (start + timedelta(days=31)).replace(day=1)
    return [when.day for when in parse(f"0 0 {text}", dialect=dialect).between(start, end)]


# --- values of a field ---


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("5", [5]),
        ("5,3,5", [3, 5]),
        ("3-6", [3, 4, 5, 6]),
        ("10-20/5", [10, 15, 20]),
        ("*/20", [0, 20, 40]),
        ("?/20", [0, 20, 40]),
        ("*/60", [0]),
        ("50/4", [50, 54, 58]),
        ("55-2", [55, 56, 57, 58, 59, 0, 1, 2]),
        ("55-5/3", [55, 58, 1, 4]),
        ("7-7", [7]),
        ("1-3,58-0", [1, 2, 3, 58, 59, 0]),
    ],
)
def test_a_field_is_a_list_of_values_ranges_and_steps_that_may_wrap_around(text: str, named: list[int]) -> None:
    assert seconds_of(text) == sorted(named)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("* * * * *", ["2028-01-01T00:01Z", "2028-01-01T00:02Z"]),
        ("0 22-2/2 * * *", ["2028-01-01T02:00Z", "2028-01-01T22:00Z", "2028-01-02T00:00Z"]),
        ("0 0 1 NOV-FEB *", ["2028-02-01T00:00Z", "2028-11-01T00:00Z", "2028-12-01T00:00Z", "2029-01-01T00:00Z"]),
        ("0 0 1 jan,Jul *", ["2028-07-01T00:00Z", "2029-01-01T00:00Z"]),
        ("0 0 30-2 * *", ["2028-01-02T00:00Z", "2028-01-30T00:00Z", "2028-01-31T00:00Z", "2028-02-01T00:00Z"]),
        ("0 0 29 2 *", ["2028-02-29T00:00Z", "2032-02-29T00:00Z"]),
        ("0 0 31 * *", ["2028-01-31T00:00Z", "2028-03-31T00:00Z", "2028-05-31T00:00Z"]),
        ("59 23 31 12 *", ["2028-12-31T23:59Z", "2029-12-31T23:59Z"]),
        ("  0\t12  * * * ", ["2028-01-01T12:00Z"]),
    ],
)
def test_an_expression_runs_at_the_times_that_its_fields_match(line: str, expected: list[str]) -> None:
    assert runs(parse(line), SATURDAY, len(expected)) == expected


@pytest.mark.parametrize(
    ("weekdays", "first_days"),
    [
        ("0", [2]),
        ("7", [2]),
        ("SUN", [2]),
        ("sAt", [1]),
        ("1-5", [3, 4, 5, 6, 7]),
        ("5-7", [1, 2, 7]),
        ("FRI-MON", [1, 2, 3, 7]),
        ("7-2", [2, 3, 4]),
        ("SAT-SUN", [1, 2]),
        ("0-7", [1, 2, 3, 4, 5, 6, 7]),
        ("1/2", [2, 3, 5, 7]),  # to the top of 0-7, and 7 is Sunday
        ("*/2", [1, 2, 4, 6]),
    ],
)
def test_weekdays_count_from_sunday_and_seven_is_sunday_too(weekdays: str, first_days: list[int]) -> None:
    found = days_of(f"* * {weekdays}", "2028-01")
    assert [day for day in found if day <= 7] == first_days


@pytest.mark.parametrize(
    ("line", "classic", "in_process"),
    [
        ("13 * FRI", [7, 13, 14, 21, 28], []),
        ("1-7 * MON", [1, 2, 3, 4, 5, 6, 7, 10, 17, 24, 31], [3]),
        ("13 * *", [13], [13]),
        ("13 * ?", [13], [13]),
        ("? * FRI", [7, 14, 21, 28], [7, 14, 21, 28]),
        ("*/10 * FRI", [21], [21]),  # starts with a star: not restricted, so both must hold, as in Vixie cron
        ("1/10 * FRI", [1, 7, 11, 14, 21, 28, 31], [21]),
        ("13 * */6", [], []),  # a Thursday
    ],
)
def test_two_day_fields_combine_with_or_in_the_classic_and_with_and_in_the_in_process_dialect(
    line: str, classic: list[int], in_process: list[int]
) -> None:
    assert days_of(line, "2028-01") == classic
    assert days_of(line, "2028-01", IN_PROCESS) == in_process


@pytest.mark.parametrize(
    ("line", "month", "expected"),
    [
        ("L * *", "2028-02", [29]),
        ("L * *", "2027-02", [28]),
        ("L-3 * *", "2028-01", [28]),
        ("L-30 * *", "2028-01", [1]),
        ("L-30 * *", "2028-02", []),
        ("l,1 * *", "2028-04", [1, 30]),
        ("15W * *", "2028-02", [15]),
        ("15W * *", "2028-01", [14]),  # a Saturday: the Friday before
        ("16W * *", "2028-01", [17]),  # a Sunday: the Monday after
        ("1W * *", "2028-01", [3]),  # a Saturday, and the Friday before is another month
        ("31W * *", "2027-10", [29]),  # a Sunday, and the Monday after is another month
        ("31W * *", "2028-02", []),  # no such day: no such run
        ("LW * *", "2027-10", [29]),
        ("LW * *", "2028-02", [29]),
        ("* * FRI#1", "2028-01", [7]),
        ("* * FRI#3", "2028-01", [21]),
        ("* * 5#5", "2028-01", []),
        ("* * SAT#5", "2028-01", [29]),
        ("* * MON#L", "2028-01", [31]),
        ("* * 7#L", "2028-01", [30]),
        ("* * MON#1,WED", "2028-01", [3, 5, 12, 19, 26]),
        ("L * FRI", "2028-01", [7, 14, 21, 28, 31]),
    ],
)
def test_extended_days_depend_on_the_month(line: str, month: str, expected: list[int]) -> None:
    assert days_of(line, month) == expected


# --- dialects ---


@pytest.mark.parametrize(
    ("seconds", "year", "line", "expected"),
    [
        (Presence.NEVER, Presence.NEVER, "5 4 * * *", "2028-01-01T04:05:00"),
        (Presence.OPTIONAL, Presence.NEVER, "5 4 * * *", "2028-01-01T04:05:00"),
        (Presence.OPTIONAL, Presence.NEVER, "6 5 4 * * *", "2028-01-01T04:05:06"),
        (Presence.REQUIRED, Presence.NEVER, "6 5 4 * * *", "2028-01-01T04:05:06"),
        (Presence.NEVER, Presence.REQUIRED, "5 4 * * * 2030", "2030-01-01T04:05:00"),
        (Presence.NEVER, Presence.OPTIONAL, "5 4 * * *", "2028-01-01T04:05:00"),
        (Presence.NEVER, Presence.OPTIONAL, "5 4 * * * *", "2028-01-01T04:05:00"),
        (Presence.OPTIONAL, Presence.OPTIONAL, "5 4 * * * 2029-2031/2", "2029-01-01T04:05:00"),
        (Presence.OPTIONAL, Presence.OPTIONAL, "6 5 4 * * *", "2028-01-01T04:05:06"),
        (Presence.OPTIONAL, Presence.OPTIONAL, "6 5 4 * * 1", "2028-01-03T04:05:06"),
        (Presence.OPTIONAL, Presence.OPTIONAL, "6 5 4 * * * 2030,2031", "2030-01-01T04:05:06"),
        (Presence.OPTIONAL, Presence.REQUIRED, "5 4 * * * 2030", "2030-01-01T04:05:00"),
        (Presence.REQUIRED, Presence.OPTIONAL, "6 5 4 * * *", "2028-01-01T04:05:06"),
        (Presence.REQUIRED, Presence.REQUIRED, "6 5 4 * * * */2", "2028-01-01T04:05:06"),
    ],
)
def test_seconds_come_first_and_the_year_last(seconds: Presence, year: Presence, line: str, expected: str) -> None:
    found = parse(line, dialect=Dialect(seconds=seconds, year=year)).next(at(SATURDAY))
    assert found == at(expected + "Z")


@pytest.mark.parametrize(
    ("shorthand", "line"),
    [
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * 0"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@hourly", "0 * * * *"),
    ],
)
@pytest.mark.parametrize("dialect", [CLASSIC, IN_PROCESS, FULL, OJS, Dialect(seconds=Presence.REQUIRED)])
def test_a_shorthand_equals_its_expression_in_every_dialect(shorthand: str, line: str, dialect: Dialect) -> None:
    assert parse(shorthand.title(), dialect=dialect).rule == parse(shorthand, dialect=dialect).rule
    assert runs(parse(shorthand, dialect=dialect), SATURDAY, 5) == runs(parse(line), SATURDAY, 5)


@pytest.mark.parametrize("word", ["@triggered", "@manual", "@none"])
def test_a_triggered_cron_never_runs_by_itself(word: str) -> None:
    cron = parse(word)
    assert cron.triggered
    assert cron.next(at(SATURDAY)) is None
    assert cron.prev(at(SATURDAY)) is None
    assert not cron.matches(at(SATURDAY))
    assert cron.upcoming(at(SATURDAY), 3) == []
    assert list(cron.between(at(SATURDAY), at("2029-01-01T00:00Z"))) == []
    assert not parse("@daily").triggered


@pytest.mark.parametrize(
    ("duration", "period"),
    [
        ("1h30m", 5400),
        ("90s", 90),
        ("1.5h", 5400),
        (".5m", 30),
        ("1.s", 1),
        ("+1m", 60),
        ("1m1.9s", 61),
        ("1s999ms", 1),
        ("1000000us", 1),
        ("1000000µs", 1),
        ("1500000000ns", 1),
    ],
)
def test_every_counts_a_go_duration_in_whole_seconds_from_the_given_moment(duration: str, period: int) -> None:
    cron = parse(f"@every {duration}", zone=BERLIN)
    asked = at("2028-01-01T00:00:00.75Z")
    whole = at(SATURDAY)
    assert cron.next(asked) == whole + timedelta(seconds=period)
    assert cron.prev(asked) == whole - timedelta(seconds=period)
    assert list(cron.between(whole, whole + timedelta(seconds=2 * period))) == [cron.next(whole)]
    assert not cron.matches(asked)


def test_every_crosses_a_clock_change_by_elapsed_time() -> None:
    cron = parse("@every 1h", zone=BERLIN)
    assert runs(cron, "2030-03-31T01:30+01:00", 2) == ["2030-03-31T03:30+02:00", "2030-03-31T04:30+02:00"]
    assert runs(cron, "2030-10-27T02:30+02:00", 2) == ["2030-10-27T02:30+01:00", "2030-10-27T03:30+01:00"]


def test_a_dialect_may_require_a_longer_period() -> None:
    strict = replace(CLASSIC, min_every=timedelta(minutes=1))
    assert parse("@every 60s", dialect=strict).next(at(SATURDAY))
    with pytest.raises(InvalidCron, match="out of range; allowed: 60s to"):
        parse("@every 59s", dialect=strict)


@pytest.mark.parametrize(
    "prefix", ["TZ=Europe/Berlin", "CRON_TZ=Europe/Berlin", 'TZ="Europe/Berlin"', "TZ='Europe/Berlin'"]
)
def test_a_zone_prefix_takes_precedence_over_the_zone_argument(prefix: str) -> None:
    cron = parse(f"{prefix}  0 9 * * *", zone=NEW_YORK)
    assert cron.zone == ZoneInfo(BERLIN)
    assert runs(cron, SATURDAY, 1) == ["2028-01-01T09:00+01:00"]
    assert parse(f"{prefix} @daily").zone == ZoneInfo(BERLIN)


def test_a_zone_is_a_name_or_a_zoneinfo() -> None:
    assert parse("0 9 * * *", zone=ZoneInfo(BERLIN)) == parse("0 9 * * *", zone=BERLIN)


# --- H ---


@pytest.mark.parametrize(
    ("key", "expected"),
    [("", 0xCBF29CE484222325), ("a", 0xAF63DC4C8601EC8C), ("foobar", 0x85944171F73967E8)],
)
def test_the_hash_is_fnv_1a(key: str, expected: int) -> None:
    assert fnv1a(key) == expected


@pytest.mark.parametrize("key", ["job1", "nightly", "ünï"])
def test_h_spreads_runs_by_the_hash_of_the_key(key: str) -> None:
    seed = fnv1a(key)
    assert seconds_of("H", key=key) == [seed % 60]
    assert seconds_of("H(10-19)", key=key) == [10 + seed % 10]
    assert seconds_of("H/15", key=key) == [seed % 15 + turn for turn in (0, 15, 30, 45)]
    assert seconds_of("h(0-29)/10", key=key) == [seed % 10 + turn for turn in (0, 10, 20)]
    assert seconds_of("H/1", key=key) == list(range(60))


def test_h_selects_from_all_seven_weekdays() -> None:
    rules = {parse("0 0 * * H", dialect=FULL, key=f"job{n}").rule for n in range(200)}
    assert rules == {parse(f"0 0 * * {day}", dialect=FULL).rule for day in range(7)}


def test_h_accepts_names_in_its_range() -> None:
    rules = {parse("0 0 * * H(MON-FRI)", dialect=FULL, key=f"job{n}").rule for n in range(200)}
    assert rules == {parse(f"0 0 * * {day}", dialect=FULL).rule for day in range(1, 6)}
