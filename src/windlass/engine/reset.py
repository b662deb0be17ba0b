"""Deletes all data, so that each case of a conformance suite starts with an empty database."""

import asyncio

from windlass.engine.database import Database
from windlass.errors import Unavailable
from windlass.store.postgres import reset as store
from windlass.store.postgres.pool import limit_lock_wait

TRIES = 5
LOCK_MILLISECONDS = 2000


async def reset(db: Database) -> None:
    """Empty the database; retry, because the loops of other processes may hold locks for a moment."""
    for left in reversed(range(TRIES)):
        try:
            async with db.begin() as conn:
                await limit_lock_wait(conn, LOCK_MILLISECONDS)
                await store.empty(conn)
            return
        except Unavailable:
            if not left:
                raise
            await asyncio.sleep(0.05)
