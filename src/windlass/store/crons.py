"""Schedules that enqueue jobs of the Open Job Spec."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg

from windlass.core.cron.schedule import CatchUp, Firing, Overlap, Schedule
from windlass.core.cron.syntax import OJS
from windlass.core.events.cursor import Snapshot
from windlass.core.jobs.spec import JobTemplate
from windlass.core.json_value import decode, encode
from windlass.store.events import snapshot_arguments
from windlass.store.postgres.pool import Connection
from windlass.store.postgres.queries import column, statements

_SQL = statements("crons")


@dataclass(frozen=True, slots=True, kw_only=True)
class CronRow:
    id: UUID
    org: str
    name: str
    schedule: Schedule
    asked: dict[str, Any]
    template: JobTemplate
    enabled: bool
    last_run_at: datetime | None
    last_job_id: UUID | None
    run_count: int
    created_at: datetime


@dataclass(frozen=True, slots=True)
class LockedCron:
    """A locked schedule. `live`: the job of its last tick has not ended."""

    row: CronRow
    now: datetime
    live: bool


@dataclass(frozen=True, slots=True)
class Skipped:
    """A tick that created no job."""

    xid: int
    id: int
    org: str
    name: str
    tick: datetime
    reason: str
    at: datetime


async def put(conn: Connection, row: CronRow) -> tuple[CronRow, bool]:
    """Create or replace a schedule; return it, and whether it is new."""
    schedule = row.schedule
    key = (row.id, row.org, row.name, schedule.cron, schedule.timezone, schedule.overlap.value)
    documents = (encode(row.asked, field="job_template"), encode(row.template.to_json(), field="job_template"))
    record = await conn.fetchrow(_SQL["put"], *key, *documents, schedule.next_run_at)
    assert record is not None
    return _row(record), record["is_new"]


async def list_(conn: Connection, *, org: str, limit: int, offset: int) -> tuple[list[CronRow], int]:
    rows = await conn.fetch(_SQL["list"], org, limit, offset)
    return [_row(row) for row in rows], rows[0]["total"] if rows else 0


async def delete(conn: Connection, name: str, *, org: str) -> CronRow | None:
    row = await conn.fetchrow(_SQL["delete"], org, name)
    return _row(row) if row else None


async def find_due(conn: Connection, batch: int) -> list[UUID]:
    return column(await conn.fetch(_SQL["find_due"], batch))


async def lock(conn: Connection, id_: UUID) -> LockedCron | None:
    row = await conn.fetchrow(_SQL["lock"], id_)
    return LockedCron(_row(row), row["now"], row["live"]) if row else None


async def move(conn: Connection, id_: UUID, firing: Firing, *, job_id: UUID | None) -> None:
    skipped = firing.skipped_at if firing.reason else None
    await conn.execute(_SQL["move"], id_, firing.next_run_at, firing.buffered_at, job_id, skipped, firing.reason)


async def disable(conn: Connection, id_: UUID) -> None:
    await conn.execute(_SQL["disable"], id_)


async def skipped(conn: Connection, base: Snapshot) -> list[Skipped]:
    """Return the skipped ticks of all orgs that a snapshot does not see."""
    rows = await conn.fetch(_SQL["skipped"], *snapshot_arguments(base))
    return [Skipped(int(row[0]), *tuple(row)[1:]) for row in rows]


async def prune_skipped(conn: Connection, *, age: timedelta, batch: int) -> None:
    await conn.execute(_SQL["prune_skipped"], age, batch)


def _row(row: asyncpg.Record) -> CronRow:
    return CronRow(
        id=row["id"],
        org=row["org"],
        name=row["name"],
        schedule=Schedule(
            cron=row["expression"],
            timezone=row["timezone"],
            overlap=Overlap(row["overlap"]),
            catch_up=CatchUp.ONE,
            next_run_at=row["next_run_at"],
            buffered_at=row["buffered_at"],
            dialect=OJS,
        ),
        asked=decode(row["asked"]),
        template=JobTemplate.from_json(decode(row["template"])),
        enabled=row["enabled"],
        last_run_at=row["last_run_at"],
        last_job_id=row["last_job_id"],
        run_count=row["run_count"],
        created_at=row["created_at"],
    )
