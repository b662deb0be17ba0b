"""When entries run: the scheduler's options, the parsing of specs, the queue of due times, and which missed ticks run.

A tick is missed if it fell before the start, or if a suspension or a stall delayed it.
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import count, islice
from typing import NamedTuple
from zoneinfo import ZoneInfo

from windlass.core import duration
from windlass.core.cron import expression as cron_expression
from windlass.core.cron.expression import YEARS
from windlass.core.cron.expression import Cron as Spec
from windlass.core.cron.syntax import IN_PROCESS, Dialect, Every, Presence, read_zone
from windlass.core.duration import Duration
from windlass.cron.context import EntryId
from windlass.cron.entry import LiveEntry, Missed, When
from windlass.cron.job import Wrapper
from windlass.errors import Invalid

WITH_SECONDS = replace(IN_PROCESS, seconds=Presence.REQUIRED)
SECOND_OPTIONAL = replace(IN_PROCESS, seconds=Presence.OPTIONAL)
MOST = 100
PUNCTUAL = timedelta(seconds=1)  # ticks are whole seconds apart: below this only one can be due
TOLERANCE = timedelta(minutes=1)  # how late a tick may be with `skip`, if there is no `grace`


def parse(text: str, *, dialect: Dialect = IN_PROCESS, zone: str | ZoneInfo = "UTC", key: str | None = None) -> Spec:
    """Parse a cron expression as the in-process scheduler does; `H` fields are derived from `key`."""
    return cron_expression.parse(text, dialect=dialect, zone=zone, key=key)


@dataclass(frozen=True, kw_only=True)
class CronOptions:
    location: str | ZoneInfo = "UTC"
    dialect: Dialect = IN_PROCESS
    min_every: Duration | None = None
    search_years: int = YEARS
    wrappers: tuple[Wrapper, ...] = ()
    max_entries: int = 0
    retention: int = 100
    threads: int = 64

    def __post_init__(self) -> None:
        if self.max_entries < 0 or self.retention < 0 or self.threads < 1 or self.search_years < 1:
            raise Invalid("max_entries and retention must be 0 (no limit) or more, threads and search_years 1 or more")
        if isinstance(self.location, str):
            object.__setattr__(self, "location", read_zone(self.location))
        if self.min_every is not None:
            shortest = duration.read(self.min_every, field="min_every")
            if shortest < IN_PROCESS.min_every:
                message = f"min_every is {self.min_every}: entries have whole seconds, so it must be 1 s or more"
                raise Invalid(message, field="min_every")
            object.__setattr__(self, "dialect", replace(self.dialect, min_every=shortest))

    def schedule(self, spec: When, key: str | None) -> Spec:
        """Parse a spec; `H` fields are derived from `key`, the entry's name."""
        match spec:
            case Spec():
                return spec
            case datetime():
                return self._once(spec)
            case timedelta():
                return self._every(spec)
            case str():
                # the parser caches by its arguments: a key that is not used would make every entry miss the cache
                key = key if self.dialect.hashed else None
                return parse(spec, dialect=self.dialect, zone=self.location, key=key)
        raise Invalid(
            f"spec is {spec!r}; it must be a cron expression such as '*/5 * * * *', a datetime or a timedelta",
            field="spec",
        )

    def _every(self, period: timedelta) -> Spec:
        if period <= timedelta() or period.microseconds:
            raise Invalid(
                f"spec is {period!r}; an interval must be a whole number of seconds, at least 1", field="spec"
            )
        return parse(f"@every {period // timedelta(seconds=1)}s", dialect=self.dialect, zone=self.location)

    def _once(self, moment: datetime) -> Spec:
        assert isinstance(self.location, ZoneInfo)
        if moment.utcoffset() is None:
            raise Invalid(f"spec is {moment}, without a time zone; it must be an aware datetime", field="spec")
        return cron_expression.once(moment, zone=self.location)


class Moment(NamedTuple):
    seconds: float  # first: aware datetimes are slow to compare
    order: int
    entry: EntryId
    at: datetime


class Due:
    """A heap of times. An entry has at most one current time; superseded ones stay until they are popped or swept."""

    def __init__(self) -> None:
        self._heap: list[Moment] = []
        self._current: dict[EntryId, int] = {}
        self._order = count()

    def put(self, entry: EntryId, at: datetime) -> None:
        order = next(self._order)
        self._current[entry] = order
        heapq.heappush(self._heap, Moment(at.timestamp(), order, entry, at))
        if len(self._heap) > 2 * len(self._current) + 64:
            self._sweep()

    def drop(self, entry: EntryId) -> None:
        self._current.pop(entry, None)

    def first(self) -> datetime | None:
        while self._heap and not self._is_current(self._heap[0]):
            heapq.heappop(self._heap)
        return self._heap[0].at if self._heap else None

    def pop(self, now: datetime) -> Iterator[tuple[EntryId, datetime]]:
        """Yield the entries that are due, in order. Times put during the iteration must be later than `now`."""
        limit = now.timestamp()
        while self._heap and self._heap[0].seconds <= limit:
            moment = heapq.heappop(self._heap)
            if self._is_current(moment):
                del self._current[moment.entry]
                yield moment.entry, moment.at

    def clear(self) -> None:
        self._heap.clear()
        self._current.clear()

    def __len__(self) -> int:
        return len(self._current)

    def _is_current(self, moment: Moment) -> bool:
        return self._current.get(moment.entry) == moment.order

    def _sweep(self) -> None:
        self._heap = [moment for moment in self._heap if self._is_current(moment)]
        heapq.heapify(self._heap)


def missed_ticks(entry: LiveEntry, now: datetime) -> tuple[list[datetime], bool]:
    """Return the ticks since the last known run to start now, and whether some were left out."""
    if entry.prev is None or entry.run_once or entry.missed not in (Missed.ONCE, Missed.ALL):
        return [], False
    first = entry.schedule.next(entry.prev)
    if first is None or _utc(first) > now:
        return [], False
    return _ticks_to_run(entry, first, now, entry.grace)


def late_ticks(entry: LiveEntry, at: datetime, now: datetime) -> tuple[list[datetime], bool]:
    """Return the ticks to start from `at`, the time of the timer, until now, and whether some were left out."""
    if now - at < PUNCTUAL:
        return [at], False
    grace = TOLERANCE if entry.missed is Missed.SKIP and entry.grace is None else entry.grace
    return _ticks_to_run(entry, at, now, grace)


def _ticks_to_run(
    entry: LiveEntry, first: datetime, now: datetime, grace: timedelta | None
) -> tuple[list[datetime], bool]:
    oldest = _utc(first) if grace is None else max(_utc(first), _utc(now) - grace)
    if entry.missed is Missed.ALL and not entry.run_once:
        ticks = list(islice(_since(entry.schedule, first, oldest, now), MOST + 1))
        return ticks[:MOST], len(ticks) > MOST
    latest = _latest(entry.schedule, first, now)
    return ([latest] if latest is not None and _utc(latest) >= oldest else []), False


def _latest(schedule: Spec, first: datetime, now: datetime) -> datetime | None:
    """Return the last tick up to now. An `@every` rule counts from `first`."""
    if isinstance(schedule.rule, Every):
        return _every(schedule, first, now)
    return schedule.prev(now + timedelta.resolution)


def _since(schedule: Spec, first: datetime, oldest: datetime, now: datetime) -> Iterator[datetime]:
    if isinstance(schedule.rule, Every):
        # `between` counts from its start and excludes it
        oldest = _utc(_every(schedule, first, oldest - timedelta.resolution))
    return schedule.between(oldest, now + timedelta.resolution)


def _every(schedule: Spec, first: datetime, now: datetime) -> datetime:
    """Return the last tick of an `@every` rule up to now; if `first` is in the future, the tick before it."""
    assert isinstance(schedule.rule, Every)
    period = schedule.rule.period
    return (_utc(first) + (_utc(now) - _utc(first)) // period * period).astimezone(schedule.zone)


def _utc(moment: datetime) -> datetime:
    """Convert for comparisons: Python compares two times of one zone by wall time, which is ambiguous at a DST end."""
    return moment.astimezone(UTC)
