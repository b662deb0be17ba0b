"""Decides which ticks of a schedule are due, which start a run, which waits and which are skipped.

A tick is an instant at which the cron runs. The latest due tick is current; earlier ones were missed, and `catch_up`
decides whether they run. If a run is still active, `overlap` decides what happens to the remaining ticks.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import assert_never
from uuid import UUID

from windlass.core.cron.expression import Cron, parse
from windlass.core.cron.syntax import CLASSIC, Dialect, Every

LIMIT = 1000  # ticks of one schedule that are handled in one pass
GRACE = timedelta(minutes=1)  # a tick up to this old counts as on time, not as missed
YEARS = 8  # far enough to find the next 29 February


class Overlap(StrEnum):
    """The policy for a tick while an earlier run is active."""

    ALLOW = "allow"
    SKIP = "skip"
    REPLACE = "replace"
    BUFFER = "buffer"


class CatchUp(StrEnum):
    """The policy for missed ticks."""

    NONE = "none"
    ONE = "one"
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    cron: str
    timezone: str = "UTC"
    overlap: Overlap = Overlap.ALLOW
    catch_up: CatchUp = CatchUp.ONE
    next_run_at: datetime | None = None  # the first tick that has not been handled
    buffered_at: datetime | None = None  # a tick that waits until the run before it ends
    dialect: Dialect = CLASSIC

    def read(self) -> Cron:
        return parse(self.cron, dialect=self.dialect, zone=self.timezone)


@dataclass(frozen=True, slots=True)
class Firing:
    """The runs to start now, and the new state of the schedule."""

    ticks: tuple[datetime, ...]  # each starts a run, oldest first
    replaces: bool  # the live runs are cancelled first
    next_run_at: datetime | None
    buffered_at: datetime | None = None
    skipped_at: datetime | None = None  # the last tick that starts no run
    reason: str | None = None  # why it was skipped


def key(id_: UUID, tick: datetime) -> str:
    """Return the idempotency key of a tick's run: the same for the scheduler and for a backfill."""
    return f"schedule/{id_}/{moment(tick)}"


def is_key(key: str | None) -> bool:
    return key is not None and key.startswith("schedule/")


def moment(tick: datetime) -> str:
    return tick.astimezone(UTC).isoformat().replace("+00:00", "Z")


def following(schedule: Schedule, now: datetime) -> datetime | None:
    """Return the first tick after now, None if there is none within `YEARS`. Raise `Invalid` for an invalid cron."""
    return _utc(schedule.read().next(now, years=YEARS))


def upcoming(schedule: Schedule, now: datetime, count: int) -> list[datetime]:
    """Return the next ticks in the schedule's time zone."""
    cron = schedule.read()
    first = schedule.next_run_at if isinstance(cron.rule, Every) else None
    ahead = cron.upcoming(first or now, count, years=YEARS)
    return [first.astimezone(cron.zone), *ahead][:count] if first else ahead


def between(schedule: Schedule, start: datetime, end: datetime, *, limit: int) -> list[datetime]:
    """Return the first `limit` ticks from `start` on and before `end`."""
    return [tick.astimezone(UTC) for tick in schedule.read().between(start, end, limit=limit)]


def fire(schedule: Schedule, now: datetime, *, live: bool, limit: int = LIMIT) -> Firing:
    """Return the runs to start now and the new state. `live`: an earlier run of the schedule is still active."""
    ticks, next_run_at = due(schedule, now, limit=limit)
    if schedule.catch_up is CatchUp.NONE and ticks and now - ticks[-1] > GRACE:
        firing = _apply_overlap(schedule, [], next_run_at, live=live)
        return replace(firing, skipped_at=ticks[-1], reason=f"it was missed, and detected at {moment(now)}")
    return _apply_overlap(schedule, ticks, next_run_at, live=live)


def skip(firing: Firing, reason: str) -> Firing:
    """Return the firing without its runs, because they may not be started."""
    skipped_at = firing.ticks[-1] if firing.ticks else firing.skipped_at
    return replace(firing, ticks=(), replaces=False, skipped_at=skipped_at, reason=reason)


def due(schedule: Schedule, now: datetime, *, limit: int = LIMIT) -> tuple[list[datetime], datetime | None]:
    """Return the due ticks, oldest first (all with `CatchUp.ALL`, else only the latest), and the tick after them."""
    first = _utc(schedule.next_run_at)
    if first is None or first > now:
        return [], first
    cron = schedule.read()
    if schedule.catch_up is CatchUp.ALL:
        return _all(cron, first, now, limit)
    latest = _latest(cron, first, now)
    return [latest], _after(cron, latest)


def _apply_overlap(schedule: Schedule, ticks: list[datetime], next_run_at: datetime | None, *, live: bool) -> Firing:
    match schedule.overlap:
        case Overlap.ALLOW:
            return Firing(tuple(ticks), False, next_run_at)
        case Overlap.SKIP:
            return _queue_up(ticks, next_run_at, begin=0 if live else 1, wait=0, reason="an earlier run was active")
        case Overlap.REPLACE:
            firing = Firing(tuple(ticks[-1:]), live and bool(ticks), next_run_at)
            return replace(firing, skipped_at=ticks[-2], reason="a later tick replaced it") if ticks[1:] else firing
        case Overlap.BUFFER:
            line = [schedule.buffered_at.astimezone(UTC), *ticks] if schedule.buffered_at else ticks
            return _queue_up(line, next_run_at, begin=0 if live else 1, wait=1, reason="another tick was waiting")
        case _:
            assert_never(schedule.overlap)


def _queue_up(line: list[datetime], next_run_at: datetime | None, *, begin: int, wait: int, reason: str) -> Firing:
    waiting, skipped = line[begin : begin + wait], line[begin + wait :]
    return Firing(
        tuple(line[:begin]),
        False,
        next_run_at,
        buffered_at=waiting[0] if waiting else None,
        skipped_at=skipped[-1] if skipped else None,
        reason=reason if skipped else None,
    )


def _all(cron: Cron, first: datetime, now: datetime, limit: int) -> tuple[list[datetime], datetime | None]:
    ticks: list[datetime] = []
    tick: datetime | None = first
    while tick is not None and tick <= now and len(ticks) < limit:
        ticks.append(tick)
        tick = _after(cron, tick)
    return ticks, tick


def _latest(cron: Cron, first: datetime, now: datetime) -> datetime:
    """Return the last tick up to now, without iterating over the earlier ones."""
    if isinstance(cron.rule, Every):
        return first + (now - first) // cron.rule.period * cron.rule.period
    latest = _utc(cron.prev(now + timedelta.resolution, years=YEARS))
    return first if latest is None else max(first, latest)


def _after(cron: Cron, tick: datetime) -> datetime | None:
    return _utc(cron.next(tick, years=YEARS))


def _utc(at: datetime | None) -> datetime | None:
    return None if at is None else at.astimezone(UTC)
