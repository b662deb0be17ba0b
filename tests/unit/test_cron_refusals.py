"""Invalid cron expressions are refused: the error names the field, the invalid part, and the allowed values."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.instants import SATURDAY, at, unhurried
from windlass.core.cron.expression import parse
from windlass.core.cron.syntax import CLASSIC, FULL, IN_PROCESS, OJS, Descriptors, Dialect, Presence
from windlass.errors import Invalid, InvalidCron

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
        ("x * * * *", CLASSIC, "minute: 'X' is not understood; allowed: 0-59"),
        ("-1 * * * *", CLASSIC, "minute: '-1' is an incomplete range; allowed: 0-59"),
        ("5- * * * *", CLASSIC, "minute: '5-' is an incomplete range; allowed: 0-59"),
        ("1-2-3 * * * *", CLASSIC, "minute: '2-3' is not understood"),
        ("*-5 * * * *", CLASSIC, "minute: '*' is not understood"),
        ("** * * * *", CLASSIC, "minute: '**' is not understood"),
        ("٣ * * * *", CLASSIC, "minute: '٣' is not understood"),
        ("* * * FOO *", CLASSIC, "month: 'FOO' is not understood; allowed: 1-12 or JAN-DEC"),
        ("* * * * JAN", CLASSIC, "day of week: 'JAN' is not understood; allowed: 0-7 or SUN-SAT"),
        ("1,,2 * * * *", CLASSIC, "minute: '1,,2' has an empty list item; allowed: a list of 0-59"),
        ("* * , * *", CLASSIC, "day of month: ',' has an empty list item"),
        ("*/0 * * * *", CLASSIC, "minute: '*/0' has the step '0'; allowed: 1-60"),
        ("*/90 * * * *", CLASSIC, "minute: '*/90' has the step '90'; allowed: 1-60"),
        ("*/ * * * *", CLASSIC, "minute: '*/' has the step ''; allowed: 1-60"),
        ("*/5/5 * * * *", CLASSIC, "minute: '*/5/5' has the step '5/5'; allowed: 1-60"),
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
        ("H(0-5)/7 * * * *", FULL, "minute: 'H(0-5)/7' has the step '7'; allowed: 1-6"),
        ("H3 * * * *", FULL, "minute: 'H3' is not understood; allowed: H, H/n, H(a-b), H(a-b)/n"),
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
        ("", CLASSIC, "cron: the expression is empty"),
        (" \t ", CLASSIC, "cron: the expression is empty"),
        ("*" * 1025, CLASSIC, "cron: the expression has 1025 characters, the limit is 1024"),
        ("@reboot", CLASSIC, "descriptor: '@reboot' is unknown; allowed: @yearly"),
        ("@daily 5", CLASSIC, "descriptor: '@daily 5' is unknown"),
        ("@every 1h", OJS, "descriptor: '@every 1h' is unknown; allowed: @yearly"),
        ("@triggered", OJS, "descriptor: '@triggered' is unknown; allowed: @yearly"),
        ("@daily", BARE, "descriptor: '@daily' is unknown; allowed: five fields only"),
        ("@every", CLASSIC, "@every: '' is not a duration"),
        ("@every soon", CLASSIC, "@every: 'soon' is not a duration; use a form such as 1h30m"),
        ("@every 5", CLASSIC, "@every: '5' is not a duration"),
        ("@every 1h 5m", CLASSIC, "@every: '1h 5m' is not a duration"),
        ("@every -5m", CLASSIC, "@every: '-5m' is not a duration"),
        ("@every 0s", CLASSIC, "@every: '0s' is out of range; allowed: 1s to 2562047h"),
        ("@every 999ms", CLASSIC, "@every: '999ms' is out of range"),
        ("@every 9999999h", CLASSIC, "@every: '9999999h' is out of range"),
        ("TZ=UTC", CLASSIC, "cron: nothing follows the time zone 'UTC'"),
        ("TZ=Mars/Olympus * * * * *", CLASSIC, "time zone: 'Mars/Olympus' is unknown; use an IANA name"),
        ("TZ= * * * * *", CLASSIC, "time zone: '' is unknown"),
        ("TZ=../etc/passwd * * * * *", CLASSIC, "time zone: '../etc/passwd' is unknown"),
        ("TZ=Europe * * * * *", CLASSIC, "time zone: 'Europe' is unknown"),
        ("TZ=UTC * * * * *", OJS, "time zone: the prefix 'TZ=UTC' is not enabled here"),
    ],
)
def test_the_error_names_the_field_the_invalid_part_and_the_allowed_values(
    line: str, dialect: Dialect, message: str
) -> None:
    with pytest.raises(InvalidCron, match=re.escape(message)):
        parse(line, dialect=dialect)


@pytest.mark.parametrize("zone", ["UTC+5", "Mars/Olympus", "", "Europe", "\x00", "/etc/passwd", "x" * 5000])
def test_the_error_of_an_unknown_zone_has_the_field_timezone(zone: str) -> None:
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
def test_any_string_is_parsed_or_refused(text: str, dialect: Dialect) -> None:
    try:
        cron = parse(text, dialect=dialect, key="k")
    except InvalidCron:
        return
    assert cron.text == text
    cron.next(at(SATURDAY))
