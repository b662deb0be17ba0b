"""Ticks that passed while nobody was there, and which of them are made up for. Pure."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice

from windlass.core.cron import Cron as Spec
from windlass.core.cron_syntax import Every
from windlass.cron.entry import LiveEntry, Missed

MOST = 100


def missed_ticks(entry: LiveEntry, now: datetime) -> tuple[list[datetime], bool]:
    """The ticks to make up for, oldest first, and whether there were more than that."""
    if entry.prev is None or entry.run_once or entry.missed is Missed.SKIP:
        return [], False
    since = entry.prev
    if entry.grace is not None:
        since = max(since, now - entry.grace - timedelta.resolution)
    if entry.missed is Missed.ONCE:
        latest = _latest(entry.schedule, entry.prev, now)
        return ([latest] if latest is not None and latest > since else []), False
    found = list(islice(_after(entry.schedule, entry.prev, since, now), MOST + 1))
    return found[:MOST], len(found) > MOST


def _latest(schedule: Spec, prev: datetime, now: datetime) -> datetime | None:
    """The last tick up to now. `@every` counts from the run before."""
    if isinstance(schedule.rule, Every):
        period = schedule.rule.period
        passed = (now - _whole(prev)) // period
        return (_whole(prev) + passed * period).astimezone(schedule.zone) if passed > 0 else None
    return schedule.prev(now + timedelta.resolution)


def _after(schedule: Spec, prev: datetime, since: datetime, now: datetime) -> Iterator[datetime]:
    start = since.astimezone(UTC) + timedelta.resolution
    if isinstance(schedule.rule, Every):
        period = schedule.rule.period
        start = _whole(prev) + (since - _whole(prev)) // period * period
    return schedule.between(start, now + timedelta.resolution)


def _whole(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(microsecond=0)
