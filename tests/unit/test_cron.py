"""Cron lines: what may be written, what it means, and when it runs."""

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from windlass.core.cron import CLASSIC, FULL, IN_PROCESS, OJS, Cron, DayRule, Descriptors, Dialect, Gap, Presence, parse
from windlass.core.cron_syntax import fnv1a
from windlass.errors import Invalid, InvalidCron

unhurried = settings(deadline=None)
SATURDAY = "2028-01-01T00:00Z"
BERLIN, SAO_PAULO, BEIRUT = "Europe/Berlin", "America/Sao_Paulo", "Asia/Beirut"
LORD_HOWE, APIA, NEW_YORK = "Australia/Lord_Howe", "Pacific/Apia", "America/New_York"


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def runs(cron: Cron, after: str, count: int) -> list[str]:
    return [when.isoformat(timespec="minutes").replace("+00:00", "Z") for when in cron.upcoming(at(after), count)]


def seconds_of(text: str, dialect: Dialect = FULL, key: str | None = "job1") -> list[int]:
    cron = parse(f"{text} * * * * *", dialect=dialect, key=key)
    return [when.second for when in cron.between(at("2028-01-01T00:00Z"), at("2028-01-01T00:01Z"))]


def days_of(text: str, month: str, dialect: Dialect = CLASSIC) -> list[int]:
    start = at(f"{month}-01T00:00Z")
    end = (start + timedelta(days=31)).replace(day=1)
    return [when.day for when in parse(f"0 0 {text}", dialect=dialect).between(start, end)]


# --- what a field names ---


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
def test_a_line_runs_at_the_times_its_fields_name(line: str, expected: list[str]) -> None:
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
def test_two_restricted_day_fields_join_by_or_in_the_classic_dialect_and_by_and_in_process(
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
def test_a_shorthand_stands_for_a_line_in_every_dialect(shorthand: str, line: str, dialect: Dialect) -> None:
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
def test_every_counts_a_go_duration_in_whole_seconds_from_the_moment_asked(duration: str, period: int) -> None:
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


def test_a_dialect_may_ask_for_a_longer_period() -> None:
    strict = replace(CLASSIC, min_every=timedelta(minutes=1))
    assert parse("@every 60s", dialect=strict).next(at(SATURDAY))
    with pytest.raises(InvalidCron, match="out of range; allowed are 60s to"):
        parse("@every 59s", dialect=strict)


@pytest.mark.parametrize(
    "prefix", ["TZ=Europe/Berlin", "CRON_TZ=Europe/Berlin", 'TZ="Europe/Berlin"', "TZ='Europe/Berlin'"]
)
def test_a_zone_prefix_wins_over_the_zone_given_beside_it(prefix: str) -> None:
    cron = parse(f"{prefix}  0 9 * * *", zone=NEW_YORK)
    assert cron.zone == ZoneInfo(BERLIN)
    assert runs(cron, SATURDAY, 1) == ["2028-01-01T09:00+01:00"]
    assert parse(f"{prefix} @daily").zone == ZoneInfo(BERLIN)


def test_a_zone_is_a_name_or_a_zone() -> None:
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


def test_h_gives_every_weekday_the_same_chance() -> None:
    rules = {parse("0 0 * * H", dialect=FULL, key=f"job{n}").rule for n in range(200)}
    assert rules == {parse(f"0 0 * * {day}", dialect=FULL).rule for day in range(7)}


def test_h_takes_names() -> None:
    rules = {parse("0 0 * * H(MON-FRI)", dialect=FULL, key=f"job{n}").rule for n in range(200)}
    assert rules == {parse(f"0 0 * * {day}", dialect=FULL).rule for day in range(1, 6)}


# --- refusals ---

YEARLY = Dialect(year=Presence.OPTIONAL)
BARE = Dialect(descriptors=Descriptors.NONE)


@pytest.mark.parametrize(
    ("line", "dialect", "message"),
    [
        ("75 * * * *", CLASSIC, "minute: 75 is out of range 0-59"),
        ("* 24 * * *", CLASSIC, "hour: 24 is out of range 0-23"),
        ("* * 0 * *", CLASSIC, "day of month: 0 is out of range 1-31"),
        ("* * 32 * *", CLASSIC, "day of month: 32 is out of range 1-31"),
        ("* * * 13 *", CLASSIC, "month: 13 is out of range 1-12"),
        ("* * * * 8", CLASSIC, "day of week: 8 is out of range 0-7"),
        ("60 * * * * *", CLASSIC, "second: 60 is out of range 0-59"),
        ("0-60 * * * *", CLASSIC, "minute: 60 is out of range 0-59"),
        ("x * * * *", CLASSIC, "minute: 'X' is not understood; allowed are 0-59"),
        ("-1 * * * *", CLASSIC, "minute: '-1' is half a range; allowed are 0-59"),
        ("5- * * * *", CLASSIC, "minute: '5-' is half a range; allowed are 0-59"),
        ("1-2-3 * * * *", CLASSIC, "minute: '2-3' is not understood"),
        ("*-5 * * * *", CLASSIC, "minute: '*' is not understood"),
        ("** * * * *", CLASSIC, "minute: '**' is not understood"),
        ("٣ * * * *", CLASSIC, "minute: '٣' is not understood"),
        ("* * * FOO *", CLASSIC, "month: 'FOO' is not understood; allowed are 1-12 or JAN-DEC"),
        ("* * * * JAN", CLASSIC, "day of week: 'JAN' is not understood; allowed are 0-7 or SUN-SAT"),
        ("1,,2 * * * *", CLASSIC, "minute: '1,,2' has an empty piece; allowed is a list of 0-59"),
        ("* * , * *", CLASSIC, "day of month: ',' has an empty piece"),
        ("*/0 * * * *", CLASSIC, "minute: '*/0' has the step '0'; allowed are 1-60"),
        ("*/90 * * * *", CLASSIC, "minute: '*/90' has the step '90'; allowed are 1-60"),
        ("*/ * * * *", CLASSIC, "minute: '*/' has the step ''; allowed are 1-60"),
        ("*/5/5 * * * *", CLASSIC, "minute: '*/5/5' has the step '5/5'; allowed are 1-60"),
        ("* * L-31 * *", CLASSIC, "day of month: 'L-31' is out of range L-1 to L-30"),
        ("* * 32W * *", CLASSIC, "day of month: 32 is out of range 1-31"),
        ("* * W * *", CLASSIC, "day of month: 'W' is not understood"),
        ("* * L/2 * *", CLASSIC, "day of month: 'L' is not understood"),
        ("* * * * FRI#6", CLASSIC, "day of week: 'FRI#6' is not understood; after # comes 1-5 or L"),
        ("* * * * L", CLASSIC, "day of week: 'L' is not understood"),
        ("* * L * *", OJS, "day of month: 'L' uses L, W or #, which are not enabled here"),
        ("* * * * FRI#2", IN_PROCESS, "day of week: 'FRI#2' uses L, W or #, which are not enabled here"),
        ("H * * * *", CLASSIC, "minute: 'H' uses H, which is not enabled here"),
        ("H * * * *", FULL, "minute: 'H' uses H, which needs a key to be derived from"),
        ("H(9-3) * * * *", FULL, "minute: 'H(9-3)' runs backwards; H(a-b) needs a <= b"),
        ("H(0-5)/7 * * * *", FULL, "minute: 'H(0-5)/7' has the step '7'; allowed are 1-6"),
        ("H3 * * * *", FULL, "minute: 'H3' is not understood; allowed are H, H/n, H(a-b), H(a-b)/n"),
        ("* * * * * 1969", YEARLY, "year: 1969 is out of range 1970-2199"),
        ("* * * * * 2030-2028", YEARLY, "year: 2030-2028 runs backwards"),
        (
            "* * * *",
            CLASSIC,
            "cron: 4 fields found, expected 5 to 6: [second] minute hour day-of-month month day-of-week",
        ),
        ("* * * * * *", OJS, "cron: 6 fields found, expected 5: minute hour day-of-month month day-of-week"),
        ("* * * * * * *", CLASSIC, "cron: 7 fields found, expected 5 to 6"),
        ("* * * * *", Dialect(seconds=Presence.REQUIRED), "cron: 5 fields found, expected 6: second minute"),
        ("* * * * *", Dialect(year=Presence.REQUIRED), "cron: 5 fields found, expected 6: minute"),
        ("every minute", CLASSIC, "cron: 2 fields found"),
        ("", CLASSIC, "cron: the text is empty"),
        (" \t ", CLASSIC, "cron: the text is empty"),
        ("*" * 1025, CLASSIC, "cron: the text has 1025 characters; allowed are 1024"),
        ("@reboot", CLASSIC, "descriptor: '@reboot' is unknown; allowed are @yearly"),
        ("@daily 5", CLASSIC, "descriptor: '@daily 5' is unknown"),
        ("@every 1h", OJS, "descriptor: '@every 1h' is unknown; allowed are @yearly"),
        ("@triggered", OJS, "descriptor: '@triggered' is unknown; allowed are @yearly"),
        ("@daily", BARE, "descriptor: '@daily' is unknown; allowed are five fields only"),
        ("@every", CLASSIC, "@every: '' is not a duration"),
        ("@every soon", CLASSIC, "@every: 'soon' is not a duration; allowed is something like 1h30m"),
        ("@every 5", CLASSIC, "@every: '5' is not a duration"),
        ("@every 1h 5m", CLASSIC, "@every: '1h 5m' is not a duration"),
        ("@every -5m", CLASSIC, "@every: '-5m' is not a duration"),
        ("@every 0s", CLASSIC, "@every: '0s' is out of range; allowed are 1s to 2562047h"),
        ("@every 999ms", CLASSIC, "@every: '999ms' is out of range"),
        ("@every 9999999h", CLASSIC, "@every: '9999999h' is out of range"),
        ("TZ=UTC", CLASSIC, "cron: nothing follows the time zone 'UTC'"),
        ("TZ=Mars/Olympus * * * * *", CLASSIC, "time zone: 'Mars/Olympus' is unknown; allowed are IANA names"),
        ("TZ= * * * * *", CLASSIC, "time zone: '' is unknown"),
        ("TZ=../etc/passwd * * * * *", CLASSIC, "time zone: '../etc/passwd' is unknown"),
        ("TZ=Europe * * * * *", CLASSIC, "time zone: 'Europe' is unknown"),
        ("TZ=UTC * * * * *", OJS, "time zone: the prefix 'TZ=UTC' is not enabled here"),
    ],
)
def test_a_refusal_names_the_field_the_piece_and_what_is_allowed(line: str, dialect: Dialect, message: str) -> None:
    with pytest.raises(InvalidCron, match=re.escape(message)):
        parse(line, dialect=dialect)


@pytest.mark.parametrize("zone", ["UTC+5", "Mars/Olympus", "", "Europe", "\x00", "/etc/passwd", "x" * 5000])
def test_an_unknown_zone_is_refused_and_blamed_on_the_zone(zone: str) -> None:
    with pytest.raises(InvalidCron, match="time zone: ") as refusal:
        parse("* * * * *", zone=zone)
    assert refusal.value.field == "timezone"


def test_a_moment_without_a_zone_is_refused() -> None:
    naive = at("2028-01-01T00:00")
    cron = parse("* * * * *")
    for ask in (cron.next, cron.prev, cron.matches):
        with pytest.raises(Invalid, match="has no time zone"):
            ask(naive)


LINES = st.lists(
    st.sampled_from([*"0123456789*?/-,LWH#() @", "TZ=", "UTC ", "MON", "JAN", "@every ", "1h", "* * * * "]), max_size=30
).map("".join)


@unhurried
@given(st.text() | LINES, st.sampled_from([CLASSIC, IN_PROCESS, FULL, OJS, YEARLY]))
def test_any_text_is_either_a_cron_or_refused(text: str, dialect: Dialect) -> None:
    try:
        cron = parse(text, dialect=dialect, key="k")
    except InvalidCron:
        return
    assert cron.text == text
    cron.next(at(SATURDAY))


# --- asking ---


def test_next_is_strictly_after_and_prev_strictly_before() -> None:
    cron = parse("0 9 * * *")
    nine, next_nine = at("2028-01-01T09:00Z"), at("2028-01-02T09:00Z")
    tick = timedelta(microseconds=1)
    assert [cron.next(nine - tick), cron.next(nine), cron.next(nine + tick)] == [nine, next_nine, next_nine]
    assert [cron.prev(next_nine - tick), cron.prev(next_nine), cron.prev(next_nine + tick)] == [nine, nine, next_nine]


def test_an_answer_is_in_the_zone_of_the_cron() -> None:
    found = parse("0 9 * * *", zone=BERLIN).next(at(SATURDAY).astimezone(ZoneInfo(NEW_YORK)))
    assert found
    assert found.tzinfo is ZoneInfo(BERLIN)
    assert found == at("2028-01-01T08:00Z")


def test_matches_asks_for_the_very_second() -> None:
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
def test_a_date_that_does_not_come_is_dormant(line: str) -> None:
    cron = parse(line, dialect=replace(FULL, days=DayRule.OR))
    assert cron.next(at(SATURDAY)) is None
    assert cron.prev(at("1998-01-01T00:00Z")) is None


def test_the_search_ends_after_five_years_or_as_many_as_asked() -> None:
    leap_day = parse("0 0 29 2 *")
    assert leap_day.next(at("2096-03-01T00:00Z")) is None
    assert leap_day.next(at("2096-03-01T00:00Z"), years=8) == at("2104-02-29T00:00Z")
    assert leap_day.prev(at("2104-02-01T00:00Z")) is None
    assert leap_day.prev(at("2104-02-01T00:00Z"), years=8) == at("2096-02-29T00:00Z")


@pytest.mark.parametrize("line", ["* * * * * *", "@every 1h", "0 0 1 1 *"])
@pytest.mark.parametrize("zone", ["UTC", BERLIN, NEW_YORK])
def test_beyond_the_ends_of_the_calendar_there_is_nothing(line: str, zone: str) -> None:
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
        ("*/30 * * * *", BERLIN, "2030-10-27T02:00+02:00", ["2030-10-27T02:30+02:00", "2030-10-27T03:00+01:00"]),
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


def test_looking_back_finds_the_run_after_the_gap_and_the_first_of_two() -> None:
    cron = parse("30 2 * * *", zone=BERLIN)
    assert cron.prev(at("2030-03-31T12:00+02:00")) == at("2030-03-31T03:00+02:00")
    assert cron.prev(at("2030-03-31T03:00+02:00")) == at("2030-03-30T02:30+01:00")
    found = cron.prev(at("2030-10-27T02:10+01:00"))
    assert found
    assert found.isoformat() == "2030-10-27T02:30:00+02:00"


def test_a_run_matches_where_it_was_moved_to_and_not_when_it_comes_again() -> None:
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


# --- properties ---

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
def test_next_moves_on_and_prev_moves_back(cron: Cron, moment: datetime) -> None:
    following, before = cron.next(moment), cron.prev(moment)
    assert following is None or following.astimezone(UTC) > moment
    assert before is None or before.astimezone(UTC) < moment


@unhurried
@given(crons(), moments())
def test_what_is_found_matches_and_nothing_lies_between(cron: Cron, moment: datetime) -> None:
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
    assert all(a.astimezone(UTC) < b.astimezone(UTC) and a < b for a, b in pairwise(expected))


def watched(cron: Cron, wall_cron: Cron, start: datetime, hours: int) -> Iterator[datetime]:
    """What somebody sees who looks at a wall clock every minute, with a finger on the cron line."""
    every_hour = cron.text.split()[1] in ("*", "*/1", "0-23")
    last = start.astimezone(cron.zone).replace(tzinfo=None) - timedelta(minutes=1)
    for minute in range(hours * 60):
        instant = start + timedelta(minutes=minute)
        local = instant.astimezone(cron.zone)
        wall = local.replace(tzinfo=None)
        skipped = cron.gap is Gap.AFTER and not every_hour and any(_walls(wall_cron, last, wall))
        if skipped or (local.fold == 0 and wall_cron.matches(wall.replace(tzinfo=UTC))):
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
def test_around_a_clock_change_it_runs_as_somebody_watching_the_clock_would(
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
