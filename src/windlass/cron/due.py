"""What is due: the queue of entries by time, and which missed ticks run.

A tick is missed if it fell before the start, or if a suspension or a stall delayed it.
"""

import heapq
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count, islice
from typing import NamedTuple

from windlass.core.cron.expression import Cron as Spec
from windlass.core.cron.syntax import Every
from windlass.cron.context import EntryId
from windlass.cron.entry import LiveEntry, Missed

MOST = 100
PUNCTUAL = timedelta(seconds=1)  # ticks are whole seconds apart: below this only one can be due
TOLERANCE = timedelta(minutes=1)  # how late a tick may be with `skip`, if there is no `grace`


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
