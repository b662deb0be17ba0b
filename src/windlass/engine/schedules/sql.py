"""Schedules of plain SQL: each due tick enqueues one job, however many schedulers there are, ours or foreign."""

import logging
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from uuid import UUID

from windlass.core.cron.expression import parse
from windlass.core.jobs.job import SQL_QUEUE
from windlass.engine import quarantine
from windlass.engine.database import Database
from windlass.engine.quarantine import Kind, split_batch
from windlass.errors import Invalid
from windlass.store import schedules as store
from windlass.store.schedules import Due, JobScheduleRow

_log = logging.getLogger("windlass.schedules")
YEARS = 8  # far enough to find the next 29 February


async def tick(db: Database, *, batch: int = 100) -> int:
    """Fire the schedules that are due, missed ticks once; return the number of schedules fired."""
    async with db.once() as conn:
        found = await store.find_due(conn, batch=batch)

    async def set_aside(id_: UUID, error: Exception) -> None:
        await quarantine.set_aside(db, Kind.SCHEDULE, id_, error)

    return sum(await split_batch(found, partial(fire, db), set_aside))


async def fire(db: Database, ids: Sequence[UUID]) -> int:
    """Enqueue the jobs of these schedules and advance them; return how many were due and not locked elsewhere."""
    async with db.begin() as conn:
        due = await store.lock_due(conn, ids)
        if due:
            await store.fire(conn, {schedule.id: _next(schedule) for schedule in due}, actor="scheduler")
    if due:
        db.poke(SQL_QUEUE)
    return len(due)


async def list_(db: Database, *, limit: int = 1000) -> list[JobScheduleRow]:
    """Return the schedules of plain SQL, by type. They belong to no org."""
    async with db.once() as conn:
        return await store.list_(conn, limit=limit)


def _next(schedule: Due) -> datetime | None:
    """Return the first time after now; None (pause it) if the expression or the zone cannot be read."""
    try:
        return parse(schedule.schedule, zone=schedule.timezone).next(schedule.now, years=YEARS)
    except Invalid as error:
        _log.error("schedule %s (%s) is paused: %s", schedule.id, schedule.type, error)
        return None
