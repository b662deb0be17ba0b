"""Schedules: each due tick enqueues one job, with any number of tickers, ours or foreign."""

import logging
from datetime import datetime

from windlass.core.cron import parse
from windlass.core.job import SQL_QUEUE
from windlass.engine.unit import Unit
from windlass.errors import Invalid
from windlass.store import schedules as store
from windlass.store.schedules import Due, JobScheduleRow

_log = logging.getLogger("windlass.schedules")
YEARS = 8  # far enough to find the next 29 February


async def tick(unit: Unit, *, batch: int = 100) -> int:
    """Fire what is due, missed times once; returns how many schedules were served."""
    async with unit.begin() as conn:
        due = await store.due(conn, batch=batch)
        if due:
            await store.fire(conn, {schedule.id: _next(schedule) for schedule in due}, actor="scheduler")
    if due:
        unit.poke(SQL_QUEUE)
    return len(due)


async def list_(unit: Unit, *, limit: int = 1000) -> list[JobScheduleRow]:
    """Those of plain SQL, by type. They belong to no org."""
    async with unit.once() as conn:
        return await store.list_(conn, limit=limit)


def _next(schedule: Due) -> datetime | None:
    """The first time after now; a row that cannot be read is paused, loudly, rather than tried for ever."""
    try:
        return parse(schedule.schedule, zone=schedule.timezone).next(schedule.now, years=YEARS)
    except Invalid as error:
        _log.error("schedule %s (%s) is paused: %s", schedule.id, schedule.type, error)
        return None
