"""Schedules of workflows and of plain SQL, and the tokens of workflows' webhook URLs.

Lock order: workflow, schedule, run.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import asyncpg

from windlass.core.cron.schedule import CatchUp, Firing, Overlap, Schedule
from windlass.core.json_value import decode
from windlass.store.postgres.pool import Connection
from windlass.store.postgres.queries import column, columns, statements

_SQL = statements("schedules")
FIRST_SQL = ("", UUID(int=0))

# id, workflow_id, cron, timezone, input (JSON), overlap, catch_up, next_run_at
NewSchedule = tuple[UUID, UUID, str, str, str, str, str, datetime | None]


@dataclass(frozen=True, slots=True)
class LockedSchedule:
    """A locked schedule with its workflow."""

    id: UUID
    org: str
    workflow_id: UUID
    workflow: str
    enabled: bool  # the workflow
    schedule: Schedule
    input: Any
    paused: bool
    now: datetime


@dataclass(frozen=True, slots=True)
class ScheduleRow:
    """A schedule as it is displayed."""

    workflow: str
    id: UUID
    cron: str
    timezone: str
    input: Any
    overlap: Overlap
    catch_up: CatchUp
    next_run_at: datetime | None
    buffered_at: datetime | None
    last_run_at: datetime | None
    last_run_id: UUID | None
    skipped_at: datetime | None
    skipped_reason: str | None
    paused: bool
    paused_reason: str | None
    enabled: bool
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class DueSchedule:
    id: UUID
    type: str
    schedule: str
    timezone: str
    now: datetime


@dataclass(frozen=True, slots=True)
class JobScheduleRow:
    """A schedule created by plain SQL, as it is displayed."""

    id: UUID
    type: str
    payload: Any
    schedule: str
    timezone: str
    next_run_at: datetime
    last_run_at: datetime | None
    enabled: bool


class NextDue(NamedTuple):
    job: timedelta | None  # until a schedule enqueues a job
    run: timedelta | None  # until a schedule starts a run
    waits: bool  # a tick waits for a run to end
    ready: bool  # the run that such a tick waited for has ended
    cron: timedelta | None = None  # until a schedule of the Open Job Spec is due
    cron_ready: bool = False  # the job that one of their ticks waited for has ended


class Address(NamedTuple):
    workflow_id: UUID
    org: str
    name: str
    enabled: bool
    version_id: int
    now: datetime


async def find_due(conn: Connection, batch: int) -> list[UUID]:
    return column(await conn.fetch(_SQL["find_due"], batch))


async def lock_due(conn: Connection, id_: UUID) -> LockedSchedule | None:
    """Lock a due schedule; return None if it is no longer due or another session has locked it."""
    return _locked(await conn.fetchrow(_SQL["lock_due"], id_))


async def lock_named(conn: Connection, name: str, *, org: str) -> LockedSchedule | None:
    return _locked(await conn.fetchrow(_SQL["lock_named"], org, name))


async def live_runs(conn: Connection, workflow_id: UUID) -> list[UUID]:
    return column(await conn.fetch(_SQL["live_runs"], workflow_id))


async def move(conn: Connection, id_: UUID, firing: Firing, *, run_id: UUID | None) -> None:
    after = (firing.next_run_at, firing.buffered_at, firing.skipped_at, firing.reason, run_id)
    await conn.execute(_SQL["move"], id_, *after)


async def set_next(conn: Connection, id_: UUID, next_run_at: datetime | None) -> None:
    await conn.execute(_SQL["set_next"], id_, next_run_at)


async def disable(conn: Connection, workflow_id: UUID) -> None:
    await conn.execute(_SQL["disable"], workflow_id)


async def pause(conn: Connection, id_: UUID, reason: str | None) -> None:
    await conn.execute(_SQL["pause"], id_, reason)


async def resume(conn: Connection, id_: UUID, next_run_at: datetime | None) -> None:
    await conn.execute(_SQL["resume"], id_, next_run_at)


async def put(conn: Connection, rows: Sequence[NewSchedule], *, org: str) -> None:
    await conn.execute(_SQL["put"], *columns(rows), org)


async def set_events(conn: Connection, rows: Sequence[tuple[UUID, str | None]]) -> None:
    """Set the events that start runs of workflows, given as (workflow, event)."""
    await conn.execute(_SQL["set_events"], *map(list, zip(*rows, strict=True)))


async def remove(conn: Connection, workflow_ids: Iterable[UUID]) -> None:
    await conn.execute(_SQL["remove"], list(workflow_ids))


async def missing(conn: Connection, *, schedules: Iterable[UUID], tokens: Iterable[UUID]) -> set[UUID]:
    """Return the workflows that should have a schedule or a token but have none."""
    return set(column(await conn.fetch(_SQL["missing"], list(schedules), list(tokens))))


async def next_due(conn: Connection) -> NextDue:
    row = await conn.fetchrow(_SQL["next_due"])
    assert row is not None
    return NextDue(*row)


async def list_(conn: Connection, *, org: str, after: str, limit: int) -> list[ScheduleRow]:
    return [_row(row) for row in await conn.fetch(_SQL["list"], org, after, limit)]


async def get(conn: Connection, name: str, *, org: str) -> ScheduleRow | None:
    row = await conn.fetchrow(_SQL["get"], org, name)
    return _row(row) if row else None


async def add_tokens(conn: Connection, hashes: Sequence[tuple[UUID, bytes]]) -> set[UUID]:
    """Store tokens for workflows without one; return those workflows."""
    return set(column(await conn.fetch(_SQL["add_tokens"], *columns(hashes))))


async def remove_tokens(conn: Connection, workflow_ids: Iterable[UUID]) -> None:
    await conn.execute(_SQL["remove_tokens"], list(workflow_ids))


async def rotate(conn: Connection, workflow_id: UUID, token_hash: bytes) -> None:
    await conn.execute(_SQL["rotate"], workflow_id, token_hash)


async def of_token(conn: Connection, token_hash: bytes) -> Address | None:
    row = await conn.fetchrow(_SQL["of_token"], token_hash)
    return Address(*row) if row else None


# Schedules of plain SQL: rows of the public table


async def find_due_sql(conn: Connection, *, batch: int) -> list[UUID]:
    return column(await conn.fetch(_SQL["find_due_sql"], batch))


async def lock_due_sql(conn: Connection, ids: Sequence[UUID]) -> list[DueSchedule]:
    """Lock and return the given schedules that are due and not locked by another session."""
    return [DueSchedule(*row) for row in await conn.fetch(_SQL["lock_due_sql"], ids)]


async def fire_sql(conn: Connection, next_times: Mapping[UUID, datetime | None], *, actor: str) -> list[UUID]:
    """Enqueue the jobs of schedules and set their next times; None disables a schedule instead. Return the new jobs."""
    rows = await conn.fetch(_SQL["fire_sql"], list(next_times), list(next_times.values()), actor)
    return column(rows)


async def list_sql(
    conn: Connection, *, org: str, limit: int, after: tuple[str, UUID] = FIRST_SQL
) -> list[JobScheduleRow]:
    rows = await conn.fetch(_SQL["list_sql"], limit, *after, org)
    return [JobScheduleRow(**{**row, "payload": decode(row["payload"])}) for row in rows]


def _locked(row: asyncpg.Record | None) -> LockedSchedule | None:
    if row is None:
        return None
    schedule = Schedule(
        cron=row["cron"],
        timezone=row["timezone"],
        overlap=Overlap(row["overlap"]),
        catch_up=CatchUp(row["catch_up"]),
        next_run_at=row["next_run_at"],
        buffered_at=row["buffered_at"],
    )
    whose = (row["id"], row["org"], row["workflow_id"], row["name"], row["enabled"])
    return LockedSchedule(*whose, schedule, decode(row["input"]), row["paused"], row["now"])


def _row(row: asyncpg.Record) -> ScheduleRow:
    fields = dict(row)
    words = {"overlap": Overlap(row["overlap"]), "catch_up": CatchUp(row["catch_up"])}
    return ScheduleRow(**{**fields, **words, "input": decode(row["input"])})
