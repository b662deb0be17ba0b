"""Schedules that enqueue jobs of the Open Job Spec.

One tick enqueues one job, however many schedulers run: a schedule is fired with its row locked.
"""

import logging
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import UUID

from windlass.core.cron import schedule
from windlass.core.cron.schedule import Overlap, Schedule
from windlass.core.cron.syntax import OJS
from windlass.core.events.cursor import Snapshot
from windlass.core.jobs.spec import JobTemplate, check
from windlass.core.orgs import stored
from windlass.engine.database import Database, Tenant, new_ids
from windlass.engine.jobs import submit
from windlass.engine.orgs import audit, quota
from windlass.engine.quarantine import Kind, each_alone
from windlass.errors import Duplicate, Invalid, NotFound, QuotaExceeded
from windlass.store import crons as store
from windlass.store import jobs, runs
from windlass.store.crons import CronRow, Skipped
from windlass.store.postgres.pool import savepoint

__all__ = ["CronRow", "Skipped"]
ACTOR = "scheduler"
REPLACED = "the next tick of its schedule replaced it"
_log = logging.getLogger("windlass.crons")


async def put(
    db: Tenant,
    name: str,
    *,
    expression: str,
    timezone: str,
    overlap: Overlap,
    asked: Mapping[str, Any],
    template: JobTemplate,
) -> tuple[CronRow, bool]:
    """Create or replace the schedule of this name; return it, and whether it is new."""
    check(template.spec)
    new = Schedule(cron=expression, timezone=timezone, overlap=overlap, dialect=OJS)
    async with db.begin() as conn:
        quota.check_schedule(db, await quota.limits_of(conn, db), f"cron {name!r} is a schedule")
        now = await runs.now(conn)
        new = replace(new, next_run_at=schedule.following(new, now))
        row = CronRow(
            id=new_ids(1)[0], org=db.org, name=name, schedule=new, asked=dict(asked), template=template,
            enabled=True, last_run_at=None, last_job_id=None, run_count=0, created_at=now,
        )  # fmt: skip
        stored, is_new = await store.put(conn, row)
        await audit.record(conn, db, "cron.create" if is_new else "cron.change", name, cron=expression)
        return stored, is_new


async def list_(db: Tenant, *, limit: int, offset: int = 0) -> tuple[list[CronRow], int]:
    async with db.once() as conn:
        return await store.list_(conn, org=db.org, limit=limit, offset=offset)


async def delete(db: Tenant, name: str) -> CronRow:
    async with db.begin() as conn:
        row = await store.delete(conn, name, org=db.org)
        if row is None:
            raise NotFound("cron", repr(name))
        await audit.record(conn, db, "cron.delete", name)
    return row


async def tick(db: Database, *, batch: int = 100) -> int:
    """Fire the schedules that are due, each in its own transaction; return their number."""
    async with db.once() as conn:
        due = await store.find_due(conn, batch)
    return await each_alone(db, Kind.CRON, due, partial(serve, db))


async def skipped(db: Database, base: Snapshot) -> list[Skipped]:
    """Return the ticks without a job, of all orgs, that this snapshot does not see."""
    async with db.once() as conn:
        return await store.skipped(conn, base)


async def serve(db: Database, id_: UUID) -> bool:
    """Fire a schedule; return False if another process holds it."""
    async with db.begin() as conn:
        locked = await store.lock(conn, id_)
        if locked is None:
            return False
        acting = db.tenant(locked.row.org, actor=ACTOR)
        firing = schedule.fire(locked.row.schedule, locked.now, live=locked.live)
        if firing.replaces and locked.row.last_job_id is not None:
            await jobs.cancel(conn, [locked.row.last_job_id], org=acting.org, actor=ACTOR, reason=REPLACED)
        try:
            async with savepoint(conn):
                specs = [locked.row.template.job(locked.now)] * len(firing.ticks)
                job = (await submit.include(conn, acting, specs))[-1:]
        except (Duplicate, QuotaExceeded) as refusal:  # its job is unique and exists, or the plan does not allow it
            job = []
            firing = replace(firing, skipped_at=firing.ticks[-1], reason=str(refusal))
        except Invalid as error:
            _log.error("cron %s is disabled: %s", locked.row.name, error)
            await store.disable(conn, id_)
            return True
        await store.move(conn, id_, firing, job_id=job[0].job.id if job else None)
    if firing.reason:
        _log.info("cron %s enqueued no job for %s: %s", locked.row.name, firing.skipped_at, firing.reason)
    if firing.replaces:
        db.poke("cancel", "settle")
    db.poke(stored(locked.row.org, locked.row.template.spec.queue))
    return True
