"""Parses a cron line into a rule, in the dialect of the API it came from.

A dialect determines which syntax is allowed. It changes the meaning of a line in two ways only: how the two day fields
combine (`days`) and what happens to a time that is skipped at a clock change (`gap`).
"""

import re
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum, auto
from fractions import Fraction
from zoneinfo import ZoneInfo

from windlass.core.cron import calendar
from windlass.core.cron.calendar import EVERY_YEAR, Calendar, Days, Reader
from windlass.errors import InvalidCron

LONGEST = 1024


class Presence(Enum):
    NEVER = auto()
    OPTIONAL = auto()
    REQUIRED = auto()


class DayRule(Enum):
    """How day of month and day of week combine. `OR` as in Vixie cron: unless one of them starts with `*` or `?`."""

    OR = auto()
    AND = auto()


class Gap(Enum):
    """The policy for a time that is skipped at the start of DST: run right after the gap, or not at all."""

    AFTER = auto()
    SKIP = auto()


class Descriptors(Enum):
    NONE = auto()
    SHORTHANDS = auto()  # @yearly to @hourly
    ALL = auto()  # and @every, @triggered


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    seconds: Presence = Presence.NEVER
    year: Presence = Presence.NEVER
    days: DayRule = DayRule.OR
    extended: bool = False
    hashed: bool = False
    descriptors: Descriptors = Descriptors.ALL
    min_every: timedelta = timedelta(seconds=1)
    gap: Gap = Gap.AFTER
    zone_prefix: bool = False


CLASSIC = Dialect(seconds=Presence.OPTIONAL, extended=True, zone_prefix=True)
"""Persisted schedules: the semantics of Vixie cron, with extended syntax (L, W, #)."""

IN_PROCESS = Dialect(days=DayRule.AND, zone_prefix=True)
"""go-cron's standard parser."""

FULL = replace(IN_PROCESS, seconds=Presence.OPTIONAL, year=Presence.OPTIONAL, extended=True, hashed=True)
"""go-cron's full parser."""

OJS = Dialect(descriptors=Descriptors.SHORTHANDS, gap=Gap.SKIP)


@dataclass(frozen=True, slots=True)
class Every:
    """`@every 90s`: a period, counted from the time passed to `next` or `prev`."""

    period: timedelta


@dataclass(frozen=True, slots=True)
class Never:
    """`@triggered`: runs only when triggered."""


@dataclass(frozen=True, slots=True)
class At:
    """A single instant, given as a datetime. It has no cron syntax."""

    moment: datetime


Rule = Calendar | Every | Never | At

SHORTHANDS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
TRIGGERED = ("@triggered", "@manual", "@none")
_PREFIX = re.compile(r"(?:CRON_)?TZ=(\S*)\s*(.*)", re.DOTALL)
_NANOSECONDS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_AMOUNT = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_LONGEST_EVERY = 2**63 - 1  # nanoseconds: what a Go duration can hold


def split_zone(text: str, dialect: Dialect) -> tuple[str | None, str]:
    """Return the zone of a `TZ=` or `CRON_TZ=` prefix, if any, and the rest of the line."""
    if not text.strip():
        raise InvalidCron("cron: the expression is empty; expected five fields or a descriptor such as @daily")
    if len(text) > LONGEST:
        raise InvalidCron(f"cron: the expression has {len(text)} characters, the limit is {LONGEST}")
    match = _PREFIX.fullmatch(text.strip())
    if not match:
        return None, text.strip()
    if not dialect.zone_prefix:
        raise InvalidCron(
            f"time zone: the prefix {text.split()[0]!r} is not enabled here; give the zone beside the cron"
        )
    if not match[2]:
        raise InvalidCron(f"cron: nothing follows the time zone {match[1]!r}; expected five fields or a descriptor")
    return match[1].strip("\"'"), match[2]


def read_zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise InvalidCron(
            f"time zone: {name!r} is unknown; use an IANA name such as Europe/Berlin", field="timezone"
        ) from None


def read_rule(text: str, dialect: Dialect, key: str | None) -> Rule:
    if text.startswith("@"):
        return _read_descriptor(text, dialect)
    return _read_fields(_arrange(text.split(), dialect), dialect, key)


def fnv1a(key: str) -> int:
    """Return the 64-bit FNV-1a hash, as go-cron does, so that a key gives the same times in both."""
    value = 0xCBF29CE484222325
    for byte in key.encode("utf-8", "surrogatepass"):
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value


def _read_descriptor(text: str, dialect: Dialect) -> Rule:
    word, *rest = text.lower().split()
    known = {Descriptors.NONE: (), Descriptors.SHORTHANDS: (*SHORTHANDS,), Descriptors.ALL: (*SHORTHANDS, *TRIGGERED)}
    if dialect.descriptors is Descriptors.ALL and word == "@every":
        return Every(_read_period(text.split(maxsplit=1)[-1] if rest else "", dialect.min_every))
    if rest or word not in known[dialect.descriptors]:
        every = ("@every",) if dialect.descriptors is Descriptors.ALL else ()
        allowed = " ".join((*known[dialect.descriptors], *every)) or "five fields only"
        raise InvalidCron(f"descriptor: {text!r} is unknown; allowed: {allowed}")
    if word in TRIGGERED:
        return Never()
    return _read_fields(["0", *SHORTHANDS[word].split(), "*"], dialect, None)


def _read_period(text: str, least: timedelta) -> timedelta:
    """Parse a Go duration, truncated to whole seconds."""
    amounts = _AMOUNT.findall(text)
    if not amounts or "".join(number + unit for number, unit in amounts) != text.removeprefix("+"):
        raise InvalidCron(f"@every: {text!r} is not a duration; use a form such as 1h30m, 90s or 1.5h")
    nanoseconds = sum(int(Fraction(number) * _NANOSECONDS[unit]) for number, unit in amounts)
    shortest = max(least, timedelta(seconds=1))
    if nanoseconds > _LONGEST_EVERY or nanoseconds // 1000 < shortest // timedelta(microseconds=1):
        raise InvalidCron(f"@every: {text!r} is out of range; allowed: {shortest.total_seconds():g}s to 2562047h")
    return timedelta(seconds=nanoseconds // 10**9)


def _arrange(texts: list[str], dialect: Dialect) -> list[str]:
    """Return seven fields; missing ones get defaults."""
    presences = (dialect.seconds, dialect.year)
    least = 5 + presences.count(Presence.REQUIRED)
    most = least + presences.count(Presence.OPTIONAL)
    if not least <= len(texts) <= most:
        raise InvalidCron(_miscounted(len(texts), least, most, dialect))
    if len(texts) == 7:
        return texts
    if len(texts) == 6:
        return ["0", *texts] if _ends_in_a_year(texts, dialect) else [*texts, "*"]
    return ["0", *texts, "*"]


def _ends_in_a_year(texts: list[str], dialect: Dialect) -> bool:
    match dialect.seconds, dialect.year:
        case (_, Presence.NEVER) | (Presence.REQUIRED, _):
            return False
        case (Presence.NEVER, _) | (_, Presence.REQUIRED):
            return True
        case _:  # both are optional: only a year has three digits or more
            return re.match("[0-9]{3}", texts[-1]) is not None


def _miscounted(count: int, least: int, most: int, dialect: Dialect) -> str:
    layout = "minute hour day-of-month month day-of-week"
    spelling = {Presence.NEVER: "{0}", Presence.OPTIONAL: "[{1}] ", Presence.REQUIRED: "{1} "}
    before = spelling[dialect.seconds].format("", "second")
    after = spelling[dialect.year].format("", "year").rstrip()
    expected = str(least) if least == most else f"{least} to {most}"
    return f"cron: {count} fields found, expected {expected}: {before}{layout} {after}".rstrip()


def _read_fields(texts: list[str], dialect: Dialect, key: str | None) -> Calendar:
    second, minute, hour, day, month, weekday, year = texts
    reader = Reader(dialect.extended, dialect.hashed, fnv1a(key) if key else None)
    return Calendar(
        seconds=reader.mask(calendar.SECOND, second),
        minutes=reader.mask(calendar.MINUTE, minute),
        hours=reader.mask(calendar.HOUR, hour),
        months=reader.mask(calendar.MONTH, month),
        years=EVERY_YEAR if year in ("*", "?") else reader.mask(calendar.YEAR, year),
        days=_read_days(reader, day, weekday, dialect.days).table(),
    )


def _read_days(reader: Reader, day: str, weekday: str, rule: DayRule) -> Days:
    dom, dom_specials = reader.days(calendar.DAY, day)
    dow, dow_specials = reader.days(calendar.WEEKDAY, weekday)
    restricted = day[0] not in "*?" and weekday[0] not in "*?"
    either = rule is DayRule.OR and restricted
    return Days(dom=dom, dow=dow, dom_specials=dom_specials, dow_specials=dow_specials, either=either)
