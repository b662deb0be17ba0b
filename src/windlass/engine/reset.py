"""Forget everything that was done here, so that a suite of conformance cases can start each of them from nothing."""

import asyncio

from windlass.engine.unit import Unit
from windlass.errors import Unavailable
from windlass.store import reset as store

TRIES = 5


async def reset(unit: Unit) -> None:
    """The loops of other processes may be in the way for a moment."""
    for left in reversed(range(TRIES)):
        try:
            async with unit.begin() as conn:
                await conn.execute("set local lock_timeout = '2s'")
                await store.empty(conn)
            return
        except Unavailable:
            if not left:
                raise
            await asyncio.sleep(0.05)
