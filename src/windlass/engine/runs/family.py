"""Advances nested compositions at once, so that a worker's next fetch finds what is due without waiting for a loop.

A composition and those inside it communicate by notices. The loops apply notices a moment later; `follow` applies them
at once, one generation per transaction.
"""

from collections.abc import Sequence
from uuid import UUID

from windlass.core.compositions import MAX_LEVELS
from windlass.core.runs.event import Begun, Event
from windlass.core.runs.run import RunState
from windlass.engine.database import Database
from windlass.engine.runs.settle import settle
from windlass.engine.runs.sweep import ACTOR, heard, untold
from windlass.store import claims, runs
from windlass.store.ojs import compositions

MOST = 4 * MAX_LEVELS  # up, down and back again; the rest is left to the loops


async def follow(db: Database, touched: Sequence[UUID]) -> None:
    """Begin pending runs inside these, apply notices to runs around and inside them, and repeat for those changed."""
    for _ in range(MOST):
        if not touched:
            return
        touched = await _once(db, touched)


async def heed(db: Database, jobs: Sequence[UUID]) -> None:
    """Apply the ends of jobs that ended without a report to their runs."""
    async with db.begin() as conn:
        touched = await claims.runs_of(conn, list(jobs))
        held = await runs.lock(conn, touched) if touched else []
        news = await untold(conn, held) if held else {}
        if not news:
            return
        wakeups = await settle(conn, db, held, news, actor=ACTOR)
    wakeups.poke(db)
    await follow(db, list(news))


async def _once(db: Database, touched: Sequence[UUID]) -> list[UUID]:
    async with db.begin() as conn:
        found = await compositions.kin(conn, touched)
        if not found:
            return []
        held = await runs.lock(conn, found)
        begun: dict[UUID, list[Event]] = {run.id: [Begun()] for run in held if run.state == RunState.PENDING}
        news = await heard(conn, held, begun)
        if not news:
            return []
        wakeups = await settle(conn, db, held, news, actor=ACTOR)
    wakeups.poke(db)
    return list(news)
