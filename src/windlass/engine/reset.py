"""Forget everything that was done here, so that a suite of conformance cases can start each of them from nothing."""

import asyncio

from windlass.engine.database import Database
from windlass.errors import Unavailable
from windlass.store.postgres import reset as store

TRIES = 5


async def reset(db: Database) -> None:
    """The loops of other processes may be in the way for a moment."""
    for left in reversed(range(TRIES)):
        try:
            async with db.begin() as conn:
                await conn.execute("set local lock_timeout = '2s'")
                await store.empty(conn)
            return
        except Unavailable:
            if not left:
                raise
            await asyncio.sleep(0.05)
