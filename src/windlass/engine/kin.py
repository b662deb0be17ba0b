"""Compositions inside compositions go on without waiting for a loop: whoever asks next must find what is due.

A run and the runs inside it are never settled together: what one has to tell the other is a notice. The loops take
notices a moment later; here they are taken at once, generation by generation.
"""

from collections.abc import Sequence
from uuid import UUID

from windlass.core.event import Begun, Event
from windlass.core.primitives import MAX_LEVELS
from windlass.core.run import RunState
from windlass.engine.settle import settle
from windlass.engine.strays import ACTOR, heard, untold
from windlass.engine.unit import Unit
from windlass.store import claims, compositions, runs

MOST = 4 * MAX_LEVELS  # up, down and back again; what is left then is left to the loops


async def follow(unit: Unit, touched: Sequence[UUID]) -> None:
    """Begin what is inside these runs and may begin, tell those around them what they have to hear, and so on."""
    for _ in range(MOST):
        if not touched:
            return
        touched = await _once(unit, touched)


async def heed(unit: Unit, jobs: Sequence[UUID]) -> None:
    """Jobs ended without a report: their runs hear of it now."""
    async with unit.begin() as conn:
        touched = await claims.runs_of(conn, list(jobs))
        held = await runs.lock(conn, touched) if touched else []
        news: dict[UUID, list[Event]] = {}
        for id_, event in await untold(conn, held) if held else ():
            news.setdefault(id_, []).append(event)
        if not news:
            return
        stirred = await settle(conn, unit, held, news, actor=ACTOR)
    stirred.poke(unit)
    await follow(unit, list(news))


async def _once(unit: Unit, touched: Sequence[UUID]) -> list[UUID]:
    async with unit.begin() as conn:
        found = await compositions.kin(conn, touched)
        if not found:
            return []
        held = await runs.lock(conn, found)
        news: dict[UUID, list[Event]] = {run.id: [Begun()] for run in held if run.state == RunState.PENDING}
        for id_, event in await heard(conn, held):
            news.setdefault(id_, []).append(event)
        if not news:
            return []
        stirred = await settle(conn, unit, held, news, actor=ACTOR)
    stirred.poke(unit)
    return list(news)
