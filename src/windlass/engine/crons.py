"""Schedules that enqueue jobs of the Open Job Spec. One tick is one job, with any number of schedulers: whoever serves
one holds its row."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

from windlass.core import schedule
from windlass.core.cron_syntax import OJS
from windlass.core.schedule import Schedule
from windlass.core.submission import JobSpec, check
from windlass.core.template import Template
from windlass.core.trail import Snapshot
from windlass.core.workflow import Overlap
from windlass.engine import pushes
from windlass.engine.quarantine import Kind, each_alone
from windlass.engine.unit import Unit, new_ids
from windlass.errors import Duplicate, Invalid, NotFound
from windlass.store import claims, jobs
from windlass.store import crons as store
from windlass.store.crons import CronRow, HeldCron, Skipped

__all__ = ["CronRow", "Skipped", "delete", "list_", "next_due", "put", "skipped", "tick"]
ACTOR = "scheduler"
REPLACED = "the next tick of its schedule replaced it"
_log = logging.getLogger("windlass.crons")


async def put(
    unit: Unit,
    name: str,
    *,
    expression: str,
    timezone: str,
    overlap: Overlap,
    asked: Mapping[str, Any],
    template: Template,
) -> tuple[CronRow, bool]:
    """Make a schedule, or say anew what the one of this name does; whether it is new is told, too."""
    check(template.spec)
    wanted = Schedule(cron=expression, timezone=timezone, overlap=overlap, dialect=OJS)
    async with unit.begin() as conn:
        now = await claims.moment(conn)
        wanted = replace(wanted, next_run_at=schedule.following(wanted, now))
        row = CronRow(
            id=new_ids(1)[0], org=unit.org, name=name, schedule=wanted, asked=dict(asked), template=template,
            enabled=True, last_run_at=None, last_job_id=None, run_count=0, created_at=now,
        )  # fmt: skip
        return await store.put(conn, row)


async def list_(unit: Unit, *, limit: int, offset: int = 0) -> tuple[list[CronRow], int]:
    async with unit.once() as conn:
        return await store.list_(conn, org=unit.org, limit=limit, offset=offset)


async def delete(unit: Unit, name: str) -> CronRow:
    async with unit.once() as conn:
        row = await store.delete(conn, name, org=unit.org)
    if row is None:
        raise NotFound("cron", repr(name))
    return row


async def next_due(unit: Unit) -> tuple[timedelta | None, bool]:
    """How long until one is due; whether a tick need not wait any more."""
    async with unit.once() as conn:
        return await store.next_due(conn)


async def tick(unit: Unit, *, batch: int = 100) -> int:
    """Fire those that are due, each in its own transaction; how many."""
    async with unit.once() as conn:
        found = await store.find_due(conn, batch)
    return await each_alone(unit, Kind.CRON, found, partial(serve, unit))


async def skipped(unit: Unit, base: Snapshot) -> list[Skipped]:
    """Ticks that made no job, as far as this snapshot does not see them."""
    async with unit.once() as conn:
        return await store.skipped(conn, base, org=unit.org)


async def serve(unit: Unit, id_: UUID) -> bool:
    """Fire one; False if another process holds it."""
    async with unit.begin() as conn:
        held = await store.hold(conn, id_)
        if held is None:
            return False
        acting = unit.acting_for(held.row.org, actor=ACTOR)
        firing = schedule.fire(held.row.schedule, held.now, live=held.live)
        if firing.replaces and held.row.last_job_id is not None:
            await jobs.cancel(conn, [held.row.last_job_id], org=acting.org, actor=ACTOR, reason=REPLACED)
        await conn.execute("savepoint windlass_tick")
        try:
            job = (await pushes.include(conn, acting, _specs(held, len(firing.ticks))))[-1:]
        except Duplicate as duplicate:  # the job is to be unique, and is there
            await conn.execute("rollback to savepoint windlass_tick")
            job = []
            firing = replace(firing, skipped_at=firing.ticks[-1], reason=str(duplicate))
        except Invalid as error:
            await conn.execute("rollback to savepoint windlass_tick")
            _log.error("cron %s is switched off: %s", held.row.name, error)
            await store.switch_off(conn, id_)
            return True
        await store.move(conn, id_, firing, job_id=job[0].job.id if job else None)
    if firing.reason:
        _log.info("cron %s made no job for %s: %s", held.row.name, firing.skipped_at, firing.reason)
    for topic in ("settle", "cancel") if firing.replaces else ():
        unit.poke(topic)
    unit.poke(held.row.template.spec.queue)
    return True


def _specs(held: HeldCron, count: int) -> list[JobSpec]:
    return [held.row.template.job(held.now)] * count
