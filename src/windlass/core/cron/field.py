"""One field of a cron line: its bounds, its names, and the parsing of its text into a bit mask."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from windlass.core.cron.calendar import Last, Nearest, Nth, SpecialDay
from windlass.errors import InvalidCron


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
        return bits(value for piece in pieces(kind, text) for value in self._values(kind, piece))

    def days(self, kind: Field, text: str) -> tuple[int, tuple[SpecialDay, ...]]:
        """Return the plain values of a day field, and the days that depend on the month."""
        special = {piece: special_day(kind, piece) for piece in pieces(kind, text)}
        found = tuple(day for day in special.values() if day)
        if found and not self.extended:
            refuse(kind, text, "uses L, W or #, which are not enabled here")
        plain = [piece for piece, day in special.items() if not day]
        return (self.mask(kind, ",".join(plain)) if plain else 0), found

    def _values(self, kind: Field, piece: str) -> Iterable[int]:
        base, slash, step = piece.partition("/")
        if base.startswith("H"):
            return self._hashed(kind, piece)
        stride = _step(kind, piece, step) if slash else 1
        if base in ("*", "?"):
            return span(kind, kind.low, kind.high, stride)
        first, dash, last = base.partition("-")
        if dash and not (first and last):
            refuse(kind, piece, f"is half a range; allowed are {kind.allowed}")
        start = number(kind, first)
        if dash:
            return span(kind, start, number(kind, last), stride)
        return span(kind, start, kind.high if slash else start, stride)

    def _hashed(self, kind: Field, piece: str) -> Iterable[int]:
        shape = re.fullmatch(r"H(?:\((\w+)-(\w+)\))?(?:/([0-9]+))?", piece)
        if not shape or kind.cycle is None:
            refuse(kind, piece, "is not understood; allowed are H, H/n, H(a-b), H(a-b)/n, and none of them for a year")
        start, end = (
            (number(kind, shape[1]), number(kind, shape[2])) if shape[1] else (kind.low, kind.size + kind.low - 1)
        )
        if start > end:
            refuse(kind, piece, "runs backwards; H(a-b) needs a <= b")
        size = end - start + 1
        if shape[3] is None:
            return (start + self._seed(kind, piece) % size,)
        stride = _step(kind, piece, shape[3], most=size)
        return range(start + self._seed(kind, piece) % stride, end + 1, stride)

    def _seed(self, kind: Field, piece: str) -> int:
        if not self.hashed:
            refuse(kind, piece, "uses H, which is not enabled here")
        if self.seed is None:
            refuse(kind, piece, "uses H, which needs a key to be derived from")
        return self.seed


def pieces(kind: Field, text: str) -> list[str]:
    found = text.upper().split(",")
    if "" in found:
        refuse(kind, text, f"has an empty piece; allowed is a list of {kind.allowed}")
    return found


def special_day(kind: Field, piece: str) -> SpecialDay | None:
    if kind is WEEKDAY:
        return _special_weekday(piece)
    if piece in ("L", "LW"):
        return Last() if piece == "L" else Nearest()
    if shape := re.fullmatch(r"L-([0-9]+)", piece):
        back = int(shape[1])
        return Last(back) if 1 <= back <= 30 else refuse(kind, piece, "is out of range L-1 to L-30")
    if shape := re.fullmatch(r"([0-9]+)W", piece):
        return Nearest(number(kind, shape[1]))
    return None


def _special_weekday(piece: str) -> Nth | None:
    name, hash_sign, nth = piece.partition("#")
    if not hash_sign:
        return None
    if nth not in ("1", "2", "3", "4", "5", "L"):
        refuse(WEEKDAY, piece, "is not understood; after # comes 1-5 or L")
    return Nth(number(WEEKDAY, name) % 7, None if nth == "L" else int(nth))


def number(kind: Field, text: str) -> int:
    if text in kind.names:
        return kind.names[text]
    if not re.fullmatch("[0-9]+", text):
        refuse(kind, text, f"is not understood; allowed are {kind.allowed}")
    value = int(text)
    if not kind.low <= value <= kind.high:
        raise InvalidCron(f"{kind.name}: {value} is out of range {kind.low}-{kind.high}")
    return value


def span(kind: Field, start: int, end: int, step: int) -> Iterable[int]:
    """Return the values from start to end, wrapping around if the end is before the start."""
    if start > end and kind.cycle is None:
        raise InvalidCron(f"{kind.name}: {start}-{end} runs backwards; allowed is {kind.low}-{kind.high} upwards")
    stop = end + kind.size if start > end else end
    return (kind.low + (value - kind.low) % kind.size for value in range(start, stop + 1, step))


def bits(values: Iterable[int]) -> int:
    mask = 0
    for value in values:
        mask |= 1 << value
    return mask


def refuse(kind: Field, piece: str, why: str) -> NoReturn:
    raise InvalidCron(f"{kind.name}: {piece!r} {why}")


def _step(kind: Field, piece: str, text: str, most: int | None = None) -> int:
    most = most or kind.size
    if not re.fullmatch("[0-9]+", text) or not 1 <= int(text) <= most:
        refuse(kind, piece, f"has the step {text!r}; allowed are 1-{most}")
    return int(text)
