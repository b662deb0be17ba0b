"""The partitions of the current and the coming weeks and months: of the event trail, the archive and the audit log."""

from collections.abc import Awaitable, Callable
from functools import partial

from windlass.store import archive, events
from windlass.store.orgs import audit
from windlass.store.postgres.pool import Connection

WEEKS_AHEAD = 2
MONTHS_AHEAD = 2
Make = Callable[[Connection], Awaitable[str | None]]


def weekly() -> list[Make]:
    """Return functions that each create one partition, unless it exists. Each locks a table that is written to."""
    makes = (events.make_partition, archive.make)
    return [partial(make, week=week) for week in range(WEEKS_AHEAD + 1) for make in makes]


def monthly() -> list[Make]:
    return [partial(audit.make_partition, month=month) for month in range(MONTHS_AHEAD + 1)]
