"""The fields of a cron line, parsed into bit masks, and the naive wall times that match them, forwards and backwards.

With a mask of its values, finding the next value of a field is a shift and a lowest set bit. Days are a table of 28
masks: the matching days of a month depend only on its first weekday and its length. `cron.expression` handles time
zones.
"""

import re
from calendar import monthrange
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NoReturn

from windlass.errors import InvalidCron

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
class Direction:
    """A direction in time; `edge` is where a field restarts after a larger one has changed."""

    step: int
    edge: int
    seek: Callable[[int, int], int]

    def within(self, year: int, limit: int) -> bool:
        return year > 0 and (limit - year) * self.step >= 0


UP = Direction(1, 0, up)
DOWN = Direction(-1, 63, down)


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
        dom = self.dom | _bits(special.day(first, length) for special in self.dom_specials)
        dow = week * _FIVE_WEEKS << 1 | _bits(special.day(first, length) for special in self.dow_specials)
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

    def search(self, direction: Direction, wall: datetime, limit: int) -> datetime | None:
        """Return the first match at or beyond `wall`, in the years up to and including `limit`."""
        today = (wall.year, wall.month, wall.day)
        date = self._date(direction, *today, limit)
        if date == today:
            clock = self._clock(direction, wall.hour, wall.minute, wall.second)
            if clock:
                return datetime(*date, *clock)  # noqa: DTZ001
            date = self._date(direction, wall.year, wall.month, wall.day + direction.step, limit)
        return datetime(*date, *self._edge_time(direction)) if date else None  # noqa: DTZ001

    def _date(self, direction: Direction, year: int, month: int, day: int, limit: int) -> tuple[int, int, int] | None:
        while direction.within(year, limit):
            if self.years >> year & self.months >> month & 1:
                match = direction.seek(self.days[_kind(year, month)], day)
                if match > 0:
                    return year, month, match
            year, month = self._next_month(direction, year, month)
            day = direction.edge
        return None

    def _next_month(self, direction: Direction, year: int, month: int) -> tuple[int, int]:
        later = direction.seek(self.months, month + direction.step) if self.years >> year & 1 else -1
        if later > 0:
            return year, later
        return direction.seek(self.years, year + direction.step), direction.seek(self.months, direction.edge)

    def _clock(self, direction: Direction, hour: int, minute: int, second: int) -> tuple[int, int, int] | None:
        if self.hours >> hour & 1:
            if self.minutes >> minute & 1 and (value := direction.seek(self.seconds, second)) >= 0:
                return hour, minute, value
            if (value := direction.seek(self.minutes, minute + direction.step)) >= 0:
                return hour, value, direction.seek(self.seconds, direction.edge)
        if (value := direction.seek(self.hours, hour + direction.step)) >= 0:
            return value, direction.seek(self.minutes, direction.edge), direction.seek(self.seconds, direction.edge)
        return None

    def _edge_time(self, direction: Direction) -> tuple[int, int, int]:
        edge = direction.edge
        return direction.seek(self.hours, edge), direction.seek(self.minutes, edge), direction.seek(self.seconds, edge)


def _bits(values: Iterable[int]) -> int:
    mask = 0
    for value in values:
        mask |= 1 << max(value, 0)
    return mask


def _kind(year: int, month: int) -> int:
    first, length = monthrange(year, month)
    return first * 4 + length - 28


# Parsing


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    low: int
    high: int
    cycle: int | None  # number of values before the field wraps around; None: it does not
    names: Mapping[str, int] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return self.cycle or self.high - self.low + 1

    @property
    def allowed(self) -> str:
        names = list(self.names)
        return f"{self.low}-{self.high}" + (f" or {names[0]}-{names[-1]}" if names else "")


def _numbered(names: str, start: int) -> dict[str, int]:
    return {name: number for number, name in enumerate(names.split(), start)}


SECOND = Field("second", 0, 59, 60)
MINUTE = Field("minute", 0, 59, 60)
HOUR = Field("hour", 0, 23, 24)
DAY = Field("day of month", 1, 31, 31)
MONTH = Field("month", 1, 12, 12, _numbered("JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC", 1))
WEEKDAY = Field("day of week", 0, 7, 7, _numbered("SUN MON TUE WED THU FRI SAT", 0))
YEAR = Field("year", 1970, 2199, None)


@dataclass(frozen=True, slots=True)
class Reader:
    """Parses fields. `H` is derived from `seed`: the hash of a key, or None without one."""

    extended: bool
    hashed: bool
    seed: int | None

    def mask(self, kind: Field, text: str) -> int:
        return _bits(value for piece in _pieces(kind, text) for value in self._values(kind, piece))

    def days(self, kind: Field, text: str) -> tuple[int, tuple[SpecialDay, ...]]:
        """Return the plain values of a day field, and the days that depend on the month."""
        special = {piece: _special_day(kind, piece) for piece in _pieces(kind, text)}
        days = tuple(day for day in special.values() if day)
        if days and not self.extended:
            _refuse(kind, text, "uses L, W or #, which are not enabled here")
        plain = [piece for piece, day in special.items() if not day]
        return (self.mask(kind, ",".join(plain)) if plain else 0), days

    def _values(self, kind: Field, piece: str) -> Iterable[int]:
        base, slash, step = piece.partition("/")
        if base.startswith("H"):
            return self._hashed(kind, piece)
        stride = _read_step(kind, piece, step) if slash else 1
        if base in ("*", "?"):
            return _span(kind, kind.low, kind.high, stride)
        first, dash, last = base.partition("-")
        if dash and not (first and last):
            _refuse(kind, piece, f"is an incomplete range; allowed: {kind.allowed}")
        start = _number(kind, first)
        if dash:
            return _span(kind, start, _number(kind, last), stride)
        return _span(kind, start, kind.high if slash else start, stride)

    def _hashed(self, kind: Field, piece: str) -> Iterable[int]:
        shape = re.fullmatch(r"H(?:\((\w+)-(\w+)\))?(?:/([0-9]+))?", piece)
        if not shape or kind.cycle is None:
            _refuse(kind, piece, "is not understood; allowed: H, H/n, H(a-b), H(a-b)/n, and none of them for a year")
        start, end = (
            (_number(kind, shape[1]), _number(kind, shape[2])) if shape[1] else (kind.low, kind.size + kind.low - 1)
        )
        if start > end:
            _refuse(kind, piece, "runs backwards; H(a-b) needs a <= b")
        size = end - start + 1
        if shape[3] is None:
            return (start + self._seed(kind, piece) % size,)
        stride = _read_step(kind, piece, shape[3], most=size)
        return range(start + self._seed(kind, piece) % stride, end + 1, stride)

    def _seed(self, kind: Field, piece: str) -> int:
        if not self.hashed:
            _refuse(kind, piece, "uses H, which is not enabled here")
        if self.seed is None:
            _refuse(kind, piece, "uses H, which needs a key to be derived from")
        return self.seed


def _pieces(kind: Field, text: str) -> list[str]:
    parts = text.upper().split(",")
    if "" in parts:
        _refuse(kind, text, f"has an empty list item; allowed: a list of {kind.allowed}")
    return parts


def _special_day(kind: Field, piece: str) -> SpecialDay | None:
    if kind is WEEKDAY:
        return _special_weekday(piece)
    if piece in ("L", "LW"):
        return Last() if piece == "L" else Nearest()
    if shape := re.fullmatch(r"L-([0-9]+)", piece):
        back = int(shape[1])
        return Last(back) if 1 <= back <= 30 else _refuse(kind, piece, "is out of range L-1 to L-30")
    if shape := re.fullmatch(r"([0-9]+)W", piece):
        return Nearest(_number(kind, shape[1]))
    return None


def _special_weekday(piece: str) -> Nth | None:
    name, hash_sign, nth = piece.partition("#")
    if not hash_sign:
        return None
    if nth not in ("1", "2", "3", "4", "5", "L"):
        _refuse(WEEKDAY, piece, "is not understood; after # comes 1-5 or L")
    return Nth(_number(WEEKDAY, name) % 7, None if nth == "L" else int(nth))


def _number(kind: Field, text: str) -> int:
    if text in kind.names:
        return kind.names[text]
    if not re.fullmatch("[0-9]+", text):
        _refuse(kind, text, f"is not understood; allowed: {kind.allowed}")
    value = int(text)
    if not kind.low <= value <= kind.high:
        raise InvalidCron(f"{kind.name}: {value} is out of range {kind.low}-{kind.high}")
    return value


def _span(kind: Field, start: int, end: int, step: int) -> Iterable[int]:
    """Return the values from start to end, wrapping around if the end is before the start."""
    if start > end and kind.cycle is None:
        raise InvalidCron(f"{kind.name}: {start}-{end} runs backwards; allowed: {kind.low}-{kind.high}, ascending")
    stop = end + kind.size if start > end else end
    return (kind.low + (value - kind.low) % kind.size for value in range(start, stop + 1, step))


def _refuse(kind: Field, piece: str, why: str) -> NoReturn:
    raise InvalidCron(f"{kind.name}: {piece!r} {why}")


def _read_step(kind: Field, piece: str, text: str, most: int | None = None) -> int:
    most = most or kind.size
    if not re.fullmatch("[0-9]+", text) or not 1 <= int(text) <= most:
        _refuse(kind, piece, f"has the step {text!r}; allowed: 1-{most}")
    return int(text)
