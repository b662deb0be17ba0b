"""Counts what orgs execute, from the event trail.

A submission must not wait for a counter that every other submission of its org updates. So the `created` events are
read afterwards, in the order of commits, by one process at a time, once a second. The position moves in the transaction
that adds to the counts: each event is counted once, whatever dies when.
"""

import logging
from dataclasses import dataclass

from windlass.core.events.cursor import Cursor
from windlass.engine.database import Database
from windlass.store import events
from windlass.store.orgs import usage as store

BATCH = 20_000  # events of any kind that one transaction reads
STRIDE = 1_000  # transactions without a new job after which the position moves nevertheless
_log = logging.getLogger("windlass.usage")


@dataclass(frozen=True, slots=True)
class Metered:
    executions: int = 0
    more: bool = False  # the batch was full


async def count(db: Database, *, batch: int = BATCH) -> Metered:
    """Add the new jobs to the counts of their orgs; return how many there were. The first call begins the count."""
    async with db.begin() as conn:
        at = await store.lock(conn)
        if at is None:
            await store.begin(conn, Cursor(await events.here(conn)))
            return Metered()
        counted = await store.count(conn, at.upto, limit=batch)
        if not counted.more and not counted.upto.covers(at.upto):
            _log.warning("the trail is not the one that was read last: only later jobs are counted")
            await store.add(conn, [], place=Cursor(counted.upto), read_at=counted.read_at)
            return Metered()
        executions = sum(each.executions for each in counted.counts)
        if executions or counted.more or counted.upto.xmax - at.upto.xmax > STRIDE:
            await store.add(conn, counted.counts, place=Cursor(counted.upto), read_at=counted.read_at)
    return Metered(executions, counted.more)
