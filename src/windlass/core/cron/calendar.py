"""Finds the naive wall times that match a set of cron fields, forwards and backwards.

Every field is a bit mask of its values, so finding the next value is a shift and a lowest set bit. Days are a table of
28 masks: the matching days of a month depend only on its first weekday and its length. `cron.expression` handles time
zones.
"""

from calendar import monthrange
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

EVERY_YEAR = -1  # in two's complement every bit is set
EVERY_HOUR = (1 << 24) - 1
_FIVE_WEEKS = 0b10000001000000100000010000001


def up(mask: int, at: int) -> int:
    """Return the lowest set bit at or above `at`, or -1."""
    rest = mask >> at
    return at + (rest & -rest).bit_length() - 1 if rest else -1


def down(mask: int, at: int) -> int:
    """Return the highest set bit at or below `at`, or -1."""
    return (mask & ((1 << (at + 1)) - 1)).bit_length() - 1


@dataclass(frozen=True, slots=True)
class Way:
    """A direction in time; `edge` is where a field restarts after a larger one has changed."""

    step: int
    edge: int
    seek: Callable[[int, int], int]

    def within(self, year: int, limit: int) -> bool:
        return year > 0 and (limit - year) * self.step >= 0


UP = Way(1, 0, up)
DOWN = Way(-1, 63, down)


@dataclass(frozen=True, slots=True)
class Last:
    """`L`, or `L-3`: the last day of the month minus `back` days."""

    back: int = 0

    def day(self, first: int, length: int) -> int:
        return length - self.back


@dataclass(frozen=True, slots=True)
class Nearest:
    """`15W`, or `LW` (no target): the working day nearest to a day, without leaving its month."""

    target: int | None = None

    def day(self, first: int, length: int) -> int:
        day = self.target or length
        if day > length:
            return 0
        match (first + day - 1) % 7:
            case 6:
                return day - 1 if day > 1 else day + 2
            case 0:
                return day + 1 if day < length else day - 2
            case _:
                return day


@dataclass(frozen=True, slots=True)
class Nth:
    """`FRI#3`, or `FRI#L` (no n): the nth or the last such weekday of the month."""

    weekday: int
    n: int | None = None

    def day(self, first: int, length: int) -> int:
        earliest = 1 + (self.weekday - first) % 7
        if self.n is None:
            return earliest + (length - earliest) // 7 * 7
        return earliest + (self.n - 1) * 7


SpecialDay = Last | Nearest | Nth


@dataclass(frozen=True, slots=True, kw_only=True)
class Days:
    """The two day fields and how they combine. Weekdays count from Sunday = 0."""

    dom: int
    dow: int
    dom_specials: tuple[SpecialDay, ...] = ()
    dow_specials: tuple[SpecialDay, ...] = ()
    either: bool

    def table(self) -> tuple[int, ...]:
        """Return the matching days of all 28 kinds of months, in the order of `_kind`."""
        return tuple(self._month((first + 1) % 7, length) for first in range(7) for length in range(28, 32))

    def _month(self, first: int, length: int) -> int:
        week = ((self.dow << 7 | self.dow) >> first) & 0b1111111  # rotated so that bit 0 is the 1st of the month
        dom = self.dom | _bits(self.dom_specials, first, length)
        dow = week * _FIVE_WEEKS << 1 | _bits(self.dow_specials, first, length)
        return (dom | dow if self.either else dom & dow) & ((2 << length) - 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Calendar:
    """The wall times that match all fields."""

    seconds: int
    minutes: int
    hours: int
    months: int
    years: int
    days: tuple[int, ...]

    def search(self, way: Way, wall: datetime, limit: int) -> datetime | None:
        """Return the first match at or beyond `wall`, in the years up to and including `limit`."""
        today = (wall.year, wall.month, wall.day)
        date = self._date(way, *today, limit)
        if date == today:
            clock = self._clock(way, wall.hour, wall.minute, wall.second)
            if clock:
                return datetime(*date, *clock)  # noqa: DTZ001
            date = self._date(way, wall.year, wall.month, wall.day + way.step, limit)
        return datetime(*date, *self._fresh(way)) if date else None  # noqa: DTZ001

    def _date(self, way: Way, year: int, month: int, day: int, limit: int) -> tuple[int, int, int] | None:
        while way.within(year, limit):
            if self.years >> year & self.months >> month & 1:
                found = way.seek(self.days[_kind(year, month)], day)
                if found > 0:
                    return year, month, found
            year, month = self._month_beyond(way, year, month)
            day = way.edge
        return None

    def _month_beyond(self, way: Way, year: int, month: int) -> tuple[int, int]:
        found = way.seek(self.months, month + way.step) if self.years >> year & 1 else -1
        if found > 0:
            return year, found
        return way.seek(self.years, year + way.step), way.seek(self.months, way.edge)

    def _clock(self, way: Way, hour: int, minute: int, second: int) -> tuple[int, int, int] | None:
        if self.hours >> hour & 1:
            if self.minutes >> minute & 1 and (found := way.seek(self.seconds, second)) >= 0:
                return hour, minute, found
            if (found := way.seek(self.minutes, minute + way.step)) >= 0:
                return hour, found, way.seek(self.seconds, way.edge)
        if (found := way.seek(self.hours, hour + way.step)) >= 0:
            return found, way.seek(self.minutes, way.edge), way.seek(self.seconds, way.edge)
        return None

    def _fresh(self, way: Way) -> tuple[int, int, int]:
        edge = way.edge
        return way.seek(self.hours, edge), way.seek(self.minutes, edge), way.seek(self.seconds, edge)


def _kind(year: int, month: int) -> int:
    first, length = monthrange(year, month)
    return first * 4 + length - 28


def _bits(specials: tuple[SpecialDay, ...], first: int, length: int) -> int:
    mask = 0
    for special in specials:
        mask |= 1 << max(special.day(first, length), 0)
    return mask
