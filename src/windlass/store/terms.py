"""Leader terms: leases on duties."""

from datetime import datetime, timedelta
from typing import NamedTuple

from windlass.store.postgres.pool import Connection
from windlass.store.postgres.queries import statements

_SQL = statements("terms")


class TermAnswer(NamedTuple):
    """The result of an attempt to take or renew a term."""

    held: bool  # by the caller
    now: datetime
    renewed_before: datetime | None  # the previous renewal, by any holder; None if there was none


async def take(conn: Connection, *, duty: str, holder: str, term: timedelta) -> TermAnswer:
    row = await conn.fetchrow(_SQL["take"], duty, holder, term)
    assert row is not None  # it has no `from`
    return TermAnswer(*row)


async def resign(conn: Connection, *, duty: str, holder: str) -> None:
    await conn.execute(_SQL["resign"], duty, holder)
