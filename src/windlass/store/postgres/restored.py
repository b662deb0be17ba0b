"""Renumbers event trails that were restored from a dump into another cluster.

Events are ordered by the ids of the transactions that wrote them. A dump keeps those ids, but the new cluster starts
its own counter: the restored events would sort after all new ones until the counter has caught up, and would then be
read as new. So they are renumbered when a process starts on such a database: events that were already delivered to
subscribers become old, the others become new. This is one transaction under the migration lock; it rewrites every
event.
"""

import logging

from windlass.core.events.cursor import LAST, Cursor, Snapshot
from windlass.errors import Invalid
from windlass.store import live
from windlass.store.postgres.migrate import LOCK
from windlass.store.postgres.pool import Connection
from windlass.store.postgres.queries import statements

_SQL = statements("restored")
_NOTHING = Cursor(Snapshot(LAST))  # without a readable cursor all restored events count as delivered
_log = logging.getLogger("windlass.database")


async def renumber(conn: Connection) -> bool:
    """Renumber the trails if they come from another cluster; return whether they did."""
    if not await conn.fetchval(_SQL["foreign"]):
        return False
    async with conn.transaction():
        await conn.execute("select pg_advisory_xact_lock($1)", LOCK)
        if not await conn.fetchval(_SQL["foreign"]):
            return False  # another process has done it
        here = await live.here(conn)  # before this transaction gets an id, so that its writes come after this position
        place = await conn.fetchval(_SQL["bookmark"])
        had = _cursor(place).base
        seen = str(had.xmax), [str(xid) for xid in sorted(had.under_way)]
        await conn.execute(_SQL["renumber_checkpoints"])
        for trail in ("events", "job_events", "cron_events"):
            await conn.execute(_SQL[f"renumber_{trail}"], *seen)
        await conn.execute(_SQL["renumber_lines"])
        await conn.execute(_SQL["forget_takers"])
        if place is not None:
            await conn.execute(_SQL["move_bookmark"], str(Cursor(here)))
    _log.warning("the data was restored from another cluster: the lines of its trails were renumbered")
    return True


def _cursor(place: str | None) -> Cursor:
    try:
        return _NOTHING if place is None else Cursor.parse(place)
    except Invalid:
        return _NOTHING
