"""Schedules of plain SQL: each due tick enqueues one job, however many schedulers run, including foreign ones.

`list_all` lists them after the schedules of workflows.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from uuid import UUID

from windlass.core.cron.expression import parse
from windlass.core.jobs.job import SQL_QUEUE
from windlass.core.jobs.spec import check_range
from windlass.core.json_value import encode
from windlass.engine import quarantine
from windlass.engine.database import Database, Tenant
from windlass.engine.quarantine import Kind, split_batch
from windlass.errors import Invalid
from windlass.schemas.common import PAGE_LIMIT
from windlass.store import schedules as store
from windlass.store.schedules import FIRST_SQL, DueSchedule, JobScheduleRow, ScheduleRow

__all__ = ["JobScheduleRow", "ScheduleRow"]
YEARS = 8  # far enough to find the next 29 February
SQL_PREFIX = "job/"  # prefix of a cursor among the schedules of plain SQL; names of workflows have no slash
_log = logging.getLogger("windlass.schedules")


@dataclass(frozen=True, slots=True)
class SchedulePage:
    """A page of schedules. Pass `next` as `after` for the next page; None means the end."""

    schedules: list[ScheduleRow | JobScheduleRow]
    next: str | None


async def tick(db: Database, *, batch: int = 100) -> int:
    """Fire the schedules that are due, once for all missed ticks; return the number of schedules fired."""
    async with db.once() as conn:
        ids = await store.find_due_sql(conn, batch=batch)

    return sum(await split_batch(ids, partial(fire, db), partial(quarantine.set_aside, db, Kind.SCHEDULE)))


async def fire(db: Database, ids: Sequence[UUID]) -> int:
    """Enqueue the jobs of these schedules and advance them; return how many were due and not locked by others."""
    async with db.begin() as conn:
        due = await store.lock_due_sql(conn, ids)
        if due:
            await store.fire_sql(conn, {schedule.id: _next(schedule) for schedule in due}, actor="scheduler")
    if due:
        db.poke(SQL_QUEUE)
    return len(due)


async def list_all(db: Tenant, *, after: str = "", limit: int = 50) -> SchedulePage:
    """Return schedules that start runs, by workflow name, then those of plain SQL, by type."""
    encode(after, field="after")
    check_range(limit, "limit", most=PAGE_LIMIT)
    is_sql = after.startswith(SQL_PREFIX)
    place = _position(after) if is_sql else FIRST_SQL
    rows: list[ScheduleRow | JobScheduleRow] = []
    async with db.begin() as conn:
        if not is_sql:
            rows += await store.list_(conn, org=db.org, after=after, limit=limit)
        if len(rows) < limit:
            rows += await store.list_sql(conn, org=db.org, limit=limit - len(rows), after=place)
    return SchedulePage(rows, _cursor(rows[-1]) if len(rows) == limit else None)


def _next(schedule: DueSchedule) -> datetime | None:
    """Return the first time after now; None (pause it) if the expression or the zone cannot be read."""
    try:
        return parse(schedule.schedule, zone=schedule.timezone).next(schedule.now, years=YEARS)
    except Invalid as error:
        _log.error("schedule %s (%s) is paused: %s", schedule.id, schedule.type, error)
        return None


def _cursor(row: ScheduleRow | JobScheduleRow) -> str:
    return row.workflow if isinstance(row, ScheduleRow) else f"{SQL_PREFIX}{row.id}/{row.type}"


def _position(text: str) -> tuple[str, UUID]:
    id_, _, type_ = text.removeprefix(SQL_PREFIX).partition("/")
    try:
        return type_, UUID(id_)
    except ValueError:
        raise Invalid(
            f"after is {text!r}, which is not a position in this list: pass the `next` of the previous page",
            field="after",
        ) from None
