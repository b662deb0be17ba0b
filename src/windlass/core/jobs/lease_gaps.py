"""Gaps in which the database did not answer this process, measured by the database's clock.

An expired lease normally means that its worker stopped sending heartbeats. After a frozen server, a failover or a
network partition it does not: no worker could send one. Upkeep queries the database twice a second; if two answers are
more than LATE apart, there was a gap. `release_expired` releases a lease that was last extended before the end of a gap
only when one lease length has passed since that end. A gap therefore delays the recovery of a worker that really died
by at most the length of its lease.

Every process records gaps, whether it holds the leader term of upkeep or not. When the leader dies, its successor has
its own record of answers: it sees no gap, and recovers the dead process's jobs when their leases expire. A process that
has just started uses the last renewal of the term as the answer before its first.

A gap matters to a lease only if it lasted at least a third of it: workers send heartbeats every third of a lease, so
after a shorter gap another third is left. A gap is therefore dropped after three times its length.
"""

from datetime import datetime, timedelta
from typing import NamedTuple

LATE = timedelta(seconds=1)  # queries are half a second apart; no lease is shorter than a second
MOST = 100  # gaps kept


class Gap(NamedTuple):
    since: datetime
    until: datetime


class Continuity:
    def __init__(self) -> None:
        self.answered_at: datetime | None = None
        self._gaps: list[Gap] = []

    def answered(self, now: datetime, *, before: datetime | None = None) -> None:
        """Record an answer of the database. `before` is another process's last answer; only the first call uses it."""
        last = self.answered_at or before
        if last is not None and now - last > LATE:
            self._gaps.append(Gap(last, now))
        self.answered_at = now
        self._gaps = [gap for gap in self._gaps if now <= gap.until + 3 * (gap.until - gap.since)][-MOST:]

    @property
    def gaps(self) -> list[Gap]:
        """Return the gaps that may still matter to a lease, oldest first."""
        return list(self._gaps)
