"""Selects which missed ticks run: ticks from before the start, and ticks delayed by a suspension or a stall. Pure."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice

from windlass.core.cron.expression import Cron as Spec
from windlass.core.cron.syntax import Every
from windlass.cron.entry import LiveEntry, Missed

MOST = 100
PUNCTUAL = timedelta(seconds=1)  # ticks are whole seconds apart: below this only one can be due
TOLERANCE = timedelta(minutes=1)  # how late a tick may be with `skip`, if there is no `grace`


def missed_ticks(entry: LiveEntry, now: datetime) -> tuple[list[datetime], bool]:
    """Return the ticks since the last known run to start now, and whether some were left out."""
    if entry.prev is None or entry.run_once or entry.missed not in (Missed.ONCE, Missed.ALL):
        return [], False
    first = entry.schedule.next(entry.prev)
    if first is None or _utc(first) > now:
        return [], False
    return _chosen(entry, first, now, entry.grace)


def late_ticks(entry: LiveEntry, at: datetime, now: datetime) -> tuple[list[datetime], bool]:
    """Return the ticks to start from `at`, the time of the timer, until now, and whether some were left out."""
    if now - at < PUNCTUAL:
        return [at], False
    grace = TOLERANCE if entry.missed is Missed.SKIP and entry.grace is None else entry.grace
    return _chosen(entry, at, now, grace)


def _chosen(entry: LiveEntry, first: datetime, now: datetime, grace: timedelta | None) -> tuple[list[datetime], bool]:
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
