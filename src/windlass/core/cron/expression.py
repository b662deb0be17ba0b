"""`Cron`: a cron expression with a time zone, and the instants at which it runs.

The calendar finds wall times; this module maps them to instants. At changes of daylight saving time:

* A wall time that occurs twice runs at its first occurrence. A wall time that is skipped runs right after the gap
  (`Gap.AFTER`: one run, however many were skipped) or not at all (`Gap.SKIP`).
* A cron that matches every hour of the day is treated as an interval. It gets no extra run for a gap, since its next
  run is less than an hour away, and it keeps running through the second pass of a repeated hour.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice, takewhile
from typing import assert_never
from zoneinfo import ZoneInfo

from windlass.core.cron.calendar import DOWN, EVERY_HOUR, UP, Calendar, Direction
from windlass.core.cron.syntax import CLASSIC, At, Dialect, Every, Gap, Never, Rule, read_rule, read_zone, split_zone
from windlass.errors import Invalid

YEARS = 5
_SECOND = timedelta(seconds=1)


def parse(text: str, *, dialect: Dialect = CLASSIC, zone: str | ZoneInfo = "UTC", key: str | None = None) -> "Cron":
    """Parse a cron line or raise `InvalidCron`. A `TZ=` prefix overrides `zone`; `H` is derived from `key`."""
    return _parse(text, dialect, zone, key)


def once(moment: datetime, *, zone: ZoneInfo) -> "Cron":
    """Return a schedule with a single instant, shown in `zone`."""
    moment = _utc(moment).astimezone(zone)
    return Cron(f"@at {moment.isoformat()}", zone, At(moment), Gap.AFTER)


@dataclass(frozen=True, slots=True)
class Cron:
    """A parsed cron expression. Runs are at whole seconds; results are aware datetimes in the cron's zone.

    Compare results after `astimezone(UTC)`: in a repeated hour Python ignores which of the two passes is meant when it
    compares times of one zone, and treats a time as unequal to the same instant in another zone.
    """

    text: str
    zone: ZoneInfo
    rule: Rule
    gap: Gap

    @property
    def triggered(self) -> bool:
        """Whether it has no scheduled times and runs only when triggered."""
        return isinstance(self.rule, Never)

    def next(self, after: datetime, *, years: int = YEARS) -> datetime | None:
        """Return the first run strictly after `after`; None if there is none this year or in the next `years`."""
        return self._closest(UP, _utc(after), years)

    def prev(self, before: datetime, *, years: int = YEARS) -> datetime | None:
        """Return the last run strictly before `before`."""
        return self._closest(DOWN, _utc(before), years)

    def matches(self, at: datetime) -> bool:
        """Return whether a run falls into this second. `@every` has no fixed times and never matches."""
        second = _utc(at).replace(microsecond=0)
        if not isinstance(self.rule, Calendar | At):
            return False
        match = self.next(second - timedelta.resolution, years=1)
        return match is not None and match.astimezone(UTC).replace(microsecond=0) == second

    def upcoming(self, after: datetime, count: int, *, years: int = YEARS) -> list[datetime]:
        return list(islice(self._following(after, years), max(count, 0)))

    def between(self, start: datetime, end: datetime, *, limit: int | None = None) -> Iterator[datetime]:
        """Return the first `limit` runs (None: all) from `start` on and before `end`. `@every` counts from `start`."""
        start, end = _utc(start), _utc(end)
        if not isinstance(self.rule, Every):
            start -= timedelta.resolution
        years = end.year - start.year + 1
        return islice(takewhile(lambda at: at < end, self._following(start, years)), limit)

    def _following(self, after: datetime, years: int) -> Iterator[datetime]:
        at = self.next(after, years=years)
        while at:
            yield at
            at = self.next(at, years=years)

    def _closest(self, direction: Direction, moment: datetime, years: int) -> datetime | None:
        try:
            match self.rule:
                case Calendar():
                    return self._search(self.rule, direction, moment, years)
                case Every(period):
                    return (moment.replace(microsecond=0) + direction.step * period).astimezone(self.zone)
                case Never():
                    return None
                case At(at):
                    return at if (_utc(at) - moment) * direction.step > timedelta(0) else None
                case _:
                    assert_never(self.rule)
        except OverflowError:  # beyond the range of datetime
            return None

    def _search(self, calendar: Calendar, direction: Direction, moment: datetime, years: int) -> datetime | None:
        local = moment.astimezone(self.zone)
        limit = max(2, min(local.year + direction.step * years, 9998))  # so that every result exists in every zone
        first = self._first_pass(calendar, direction, local, moment, limit)
        second = _second_pass(calendar, direction, local, first, limit) if calendar.hours == EVERY_HOUR else None
        if first is None or second is None:
            return first or second
        return min(first, second, key=_utc) if direction is UP else max(first, second, key=_utc)

    def _first_pass(
        self, calendar: Calendar, direction: Direction, local: datetime, moment: datetime, limit: int
    ) -> datetime | None:
        """Return the closest match to `moment`, counting only the first occurrence of a repeated wall time."""
        wall = _start(direction, local)
        while match := calendar.search(direction, wall, limit):
            at, wall = self._place(calendar, direction, match)
            if at and (at > moment if direction is UP else at < moment):
                return at
        return None

    def _place(self, calendar: Calendar, direction: Direction, wall: datetime) -> tuple[datetime | None, datetime]:
        """Return the instant of a wall time, None if it has none, and the wall time to continue from."""
        at = wall.replace(tzinfo=self.zone)
        skipped = _offset(at.replace(fold=1)) - _offset(at)
        if skipped <= timedelta(0):
            return at, wall + direction.step * _SECOND
        end = _gap_end(at)
        edge = end.replace(tzinfo=None)
        made_up_for = self.gap is Gap.AFTER and calendar.hours != EVERY_HOUR
        return end if made_up_for else None, edge if direction is UP else edge - skipped - _SECOND


@lru_cache(maxsize=1024)
def _parse(text: str, dialect: Dialect, zone: str | ZoneInfo, key: str | None) -> Cron:
    prefix, line = split_zone(text, dialect)
    chosen = prefix if prefix is not None else zone
    rule = read_rule(line, dialect, key)
    return Cron(text, read_zone(chosen) if isinstance(chosen, str) else chosen, rule, dialect.gap)


def _utc(moment: datetime) -> datetime:
    if moment.utcoffset() is None:
        raise Invalid(f"{moment} has no time zone; pass an aware datetime")
    return moment.astimezone(UTC)


def _start(direction: Direction, local: datetime) -> datetime:
    """Return the first wall time to check. In the second pass of a repeated hour, the whole hour has already run."""
    if local.fold:
        wall = _repeat_end(local)
        return wall if direction is UP else wall - _SECOND
    return _beside(direction, local)


def _beside(direction: Direction, local: datetime) -> datetime:
    """Return the wall time one step beyond a local time, in whole seconds."""
    wall = local.replace(tzinfo=None, microsecond=0, fold=0)
    if direction is UP:
        return wall + _SECOND
    return wall if local.microsecond else wall - _SECOND


def _second_pass(
    calendar: Calendar, direction: Direction, local: datetime, first: datetime | None, limit: int
) -> datetime | None:
    """Return the closest match in the second pass of a repeated hour, if one is between `local` and the match `first`.

    Both passes have the same wall times, so the second can only be closer if `local` is inside the repeated hour or,
    backwards, if `first` is.
    """
    anchor = local if direction is UP or local.fold or first is None else first
    repeated = _offset(anchor.replace(fold=0)) - _offset(anchor.replace(fold=1))
    if repeated <= timedelta(0):
        return None
    end = _repeat_end(anchor)
    start = end - repeated
    edge = start if direction is UP else end - _SECOND
    wall = calendar.search(direction, _beside(direction, local) if local.fold else edge, limit)
    if wall is None or not start <= wall < end:
        return None
    at = wall.replace(tzinfo=local.tzinfo, fold=1)
    return at if direction is UP or at.astimezone(UTC) < local.astimezone(UTC) else None


def _repeat_end(local: datetime) -> datetime:
    """Return the first wall time after the repeated hour."""
    second = local.replace(microsecond=0)

    def repeated(seconds: int) -> timedelta:
        later = second + seconds * _SECOND
        return _offset(later.replace(fold=0)) - _offset(later.replace(fold=1))

    length = _first(repeated(0) // _SECOND, lambda seconds: not repeated(seconds))
    return (second + length * _SECOND).replace(tzinfo=None, fold=0)


def _gap_end(skipped: datetime) -> datetime:
    """Return the first instant after the gap that contains this wall time."""
    earlier = skipped.replace(fold=1).astimezone(UTC)  # with the offset after the gap: an instant before it
    before, after = _offset(skipped), _offset(skipped.replace(fold=1))

    def later(seconds: int) -> datetime:
        return (earlier + seconds * _SECOND).astimezone(skipped.tzinfo)

    return later(_first((after - before) // _SECOND, lambda seconds: _offset(later(seconds)) != before))


def _first(limit: int, holds: Callable[[int], bool]) -> int:
    """Return the first number from 1 to `limit` for which `holds` is true, as it is for all that follow."""
    return bisect_left(range(1, limit), True, key=holds) + 1


def _offset(at: datetime) -> timedelta:
    offset = at.utcoffset()
    assert offset is not None
    return offset
