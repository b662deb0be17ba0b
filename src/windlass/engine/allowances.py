"""Caches the limits and the usage of orgs in this process, with the executions admitted since the usage was read."""

import time
from dataclasses import dataclass, field
from datetime import datetime

from windlass.core.plans import Limits

TOPIC = "orgs"  # of the notification after a change of an org or of a plan
FRESH = 1.0  # seconds for which the limits and the usage of an org are cached
FRESH_UNLIMITED = 10.0  # seconds for which it is cached that an org has no limits
TICKS = 10  # per second: admissions within one tick are added up
LONGEST = 3600.0  # seconds after which an admission is dropped even if executions are not being counted


@dataclass(slots=True)
class Allowance:
    """The limits of an org, its counted executions of this month, and the admitted ones that are not counted yet."""

    limits: Limits
    executions: int
    now: datetime
    read_at: float
    admitted: dict[int, int] = field(default_factory=dict)  # by tick of the monotonic clock

    @property
    def used(self) -> int:
        return self.executions + sum(self.admitted.values())

    def admit(self, executions: int) -> None:
        tick = int(time.monotonic() * TICKS)
        self.admitted[tick] = self.admitted.get(tick, 0) + executions

    def update(self, limits: Limits, executions: int, now: datetime, read_at: float, *, lag: float | None) -> None:
        """Replace the cached values. Drop admissions before the last count, `lag` seconds ago: they are counted."""
        if (now.year, now.month) != (self.now.year, self.now.month):
            self.admitted = {}
        self.limits, self.executions, self.now, self.read_at = limits, executions, now, read_at
        first = int((read_at - (LONGEST if lag is None else min(LONGEST, max(0.0, lag)))) * TICKS)
        self.admitted = {tick: count for tick, count in self.admitted.items() if tick >= first}


class Allowances:
    """The cached limits and usage, by org."""

    def __init__(self) -> None:
        self.unlimited_until: dict[str, float] = {}  # by the monotonic clock
        self.limited: dict[str, Allowance] = {}

    def woken(self, topic: str) -> None:
        """Handle a notification: orgs or plans have changed."""
        if topic == TOPIC:
            self.forget()

    def forget(self) -> None:
        """Invalidate the cache, because plans have changed: they are read before the next use. Admissions are kept."""
        self.unlimited_until.clear()
        for allowance in self.limited.values():
            allowance.read_at = float("-inf")
