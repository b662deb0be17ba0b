"""Which ticks run when the scheduler comes too late for them: before its start, or after a sleep or a stall. Pure."""

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
    """Ticks since the last known run that are made up for when the scheduler starts; whether some were left out."""
    if entry.prev is None or entry.run_once or entry.missed not in (Missed.ONCE, Missed.ALL):
        return [], False
    first = entry.schedule.next(entry.prev)
    if first is None or _utc(first) > now:
        return [], False
    return _chosen(entry, first, now, entry.grace)


def late_ticks(entry: LiveEntry, at: datetime, now: datetime) -> tuple[list[datetime], bool]:
    """Of the ticks from `at`, which the scheduler waited for, until now, those that run; whether some were left out."""
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
    """The last tick up to now. `@every` counts on from its first."""
    if isinstance(schedule.rule, Every):
        return _every(schedule, first, now)
    return schedule.prev(now + timedelta.resolution)


def _since(schedule: Spec, first: datetime, oldest: datetime, now: datetime) -> Iterator[datetime]:
    if isinstance(schedule.rule, Every):
        # `between` counts from its start, which is not among its answers
        oldest = _utc(_every(schedule, first, oldest - timedelta.resolution))
    return schedule.between(oldest, now + timedelta.resolution)


def _every(schedule: Spec, first: datetime, now: datetime) -> datetime:
    """The last tick of an `@every` up to now; the one before `first` if that is still to come."""
    assert isinstance(schedule.rule, Every)
    period = schedule.rule.period
    return (_utc(first) + (_utc(now) - _utc(first)) // period * period).astimezone(schedule.zone)


def _utc(moment: datetime) -> datetime:
    """For comparisons: two times of one zone are compared by their wall times, which an hour in autumn repeats."""
    return moment.astimezone(UTC)
