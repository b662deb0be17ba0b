"""Gaps in which the database answered nobody here, by the database's own clock.

A lease that runs out says that its holder fell silent. After a frozen server, a failover or a network partition that is
not so: nobody could send a heartbeat. Upkeep asks the database twice a second; where two answers are further apart than
that, there was a gap, and the leases that were due in it get the time of one lease from the end of the gap on
(`release_expired`). So a gap delays the recovery of a worker that really died by no more than its lease.

Every process keeps count, whether it holds the term of upkeep or not. When the holder dies, the process that takes over
has had its own answers all along: it sees no gap, and recovers the dead process's jobs when their leases run out.
A process that has just started takes the last renewal of the term for the answer before its first.

A gap counts for a lease only if it was longer than a third of it: holders send heartbeats every third of a lease, so
after a shorter gap they have another third left. Hence a gap is of no interest any more after three times its length.
"""

from datetime import datetime, timedelta
from typing import NamedTuple

LATE = timedelta(seconds=1)  # rounds are half a second apart; no lease is shorter than a second
MOST = 100  # gaps that are kept


class Gap(NamedTuple):
    since: datetime
    until: datetime


class Continuity:
    def __init__(self) -> None:
        self.answered_at: datetime | None = None
        self._gaps: list[Gap] = []

    def answered(self, now: datetime, *, before: datetime | None = None) -> None:
        """Note an answer of the database. `before` is somebody else's last answer; it counts for the first one here."""
        last = self.answered_at or before
        if last is not None and now - last > LATE:
            self._gaps.append(Gap(last, now))
        self.answered_at = now
        self._gaps = [gap for gap in self._gaps if now <= gap.until + 3 * (gap.until - gap.since)][-MOST:]

    @property
    def gaps(self) -> list[Gap]:
        """Those that still matter to some lease, the oldest first."""
        return list(self._gaps)
