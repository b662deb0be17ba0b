"""The event trails of jobs and of runs, read as one stream or by job, and the log lines of handlers."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, NamedTuple
from uuid import UUID

import asyncpg

from windlass.core.events.cursor import Cursor, Snapshot, interleaved
from windlass.core.jobs.job import Fence
from windlass.core.json_value import decode, decode_objects
from windlass.core.orgs import shown
from windlass.store.postgres.pool import Connection
from windlass.store.postgres.queries import column, columns, mapping, statements

_SQL = statements("events")

# job id, epoch, attempt, line number, time, level, message
NewLogLine = tuple[UUID, int, int, int, datetime, str, str]
LinePlace = tuple[int, int, int]  # epoch, attempt, line number


@dataclass(frozen=True, slots=True)
class Line:
    """An event of a run or job, and the state of its run when it was read."""

    xid: int
    id: int
    of_job: bool
    at: datetime
    word: str
    code: str | None
    reason: str | None
    data: dict[str, Any]
    actor: str | None
    attempt: int | None
    step: int | None
    item: int | None
    items: int | None  # of a fanned-out step
    job_id: UUID | None
    type: str | None
    queue: str | None
    run_id: UUID | None
    org: str
    version_id: int | None
    workflow: str | None
    state: str | None  # of the run
    letters: str | None  # of the step, or of all steps if the event is about the run
    fan: list[int] | None


@dataclass(frozen=True, slots=True)
class Read:
    """Events that `upto` sees, and possibly some that it does not; the cursor to continue from, and whether there may
    be more."""

    lines: list[Line]
    upto: Snapshot
    next: Cursor
    more: bool
    state: str | None = None  # of the requested run; None if no run was requested
    letters: str = ""


@dataclass(frozen=True, slots=True)
class Event:
    id: int
    event_type: str
    data: Any
    actor: str | None
    attempt: int | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class LogLine:
    attempt: int
    line: int
    at: datetime
    level: str
    message: str
    epoch: int = 0  # how often its job had been started over


class NamedJob(NamedTuple):
    alias: str | None  # the client's id
    errors: list[dict[str, Any]]


async def here(conn: Connection) -> Snapshot:
    return Snapshot.parse(await conn.fetchval(_SQL["here"]))


async def since(conn: Connection, at: Cursor, *, limit: int) -> Read:
    """Return the events after a cursor; for a cursor within a batch, the rest of that batch."""
    ceiling = None if at.before is None else str(at.upto.xmax)
    rows = await conn.fetch(_SQL["since"], *snapshot_arguments(at.base), limit, ceiling)
    if at.before is not None:
        return Read(_merged(rows), at.upto, Cursor(at.upto), more=True)
    now, fence = Snapshot.parse(rows[0]["snapshot"]), rows[0]["fence"]
    upto = now if fence is None else now.below(int(fence) + 1)
    return Read(_merged(rows), upto, Cursor(upto), more=fence is not None)


async def since_of_run(conn: Connection, run: UUID, at: Cursor, *, limit: int) -> Read:
    """Return the events of one run after a cursor; here a batch is split into pages."""
    place = (0, 0) if at.before is None else (at.run_line, at.job_line)
    rows = await conn.fetch(_SQL["since_of_run"], *snapshot_arguments(at.base), run, *place, limit)
    if not rows:
        return Read([], at.upto, at, more=False)
    upto = Snapshot.parse(rows[0]["snapshot"]) if at.before is None else at.upto
    lines = _merged(rows)
    ids_by_trail = [[line.id for line in lines if line.of_job is of_job] for of_job in (False, True)]
    if any(len(ids) == limit for ids in ids_by_trail):
        last = (max(ids, default=before) for ids, before in zip(ids_by_trail, place, strict=True))
        return Read(lines, upto, Cursor(upto, at.base, *last), more=True, state=rows[0]["state"])
    state, letters = rows[0]["state"], rows[0]["whole"]
    return Read(lines, upto, Cursor(upto), more=at.before is not None, state=state, letters=letters)


def snapshot_arguments(base: Snapshot) -> tuple[str, list[str]]:
    """Return a snapshot as the two arguments of statements that read what it does not see."""
    return str(base.xmax), [str(xid) for xid in sorted(base.under_way)]


def _merged(rows: Sequence[asyncpg.Record]) -> list[Line]:
    """Return the events of both trails: each ordered by id, which is the commit order where that matters, and the two
    interleaved by time."""
    lines = [_line(row) for row in rows if row["xid"] is not None]
    ours, theirs = (sorted((x for x in lines if x.of_job is of_job), key=attrgetter("id")) for of_job in (False, True))
    return list(interleaved(ours, theirs))


def _line(row: asyncpg.Record) -> Line:
    data = decode(row["data"])
    return Line(
        xid=int(row["xid"]),
        id=row["id"],
        of_job=row["of_job"],
        at=row["created_at"],
        word=row["word"],
        code=row["code"],
        reason=row["reason"],
        data=data if isinstance(data, dict) else {},
        actor=row["actor"],
        attempt=row["attempt"],
        step=row["step"],
        item=row["item"],
        items=row["items"],
        job_id=row["job_id"],
        type=row["type"],
        queue=row["queue"] and shown(row["org"], row["queue"]),
        run_id=row["run_id"],
        org=row["org"],
        version_id=row["version_id"],
        workflow=row["workflow"],
        state=row["state"],
        letters=row["letters"],
        fan=decode(row["fan"]),
    )


async def of_job(conn: Connection, job: UUID, *, after: int = 0, limit: int = 1000) -> list[Event]:
    return [_event(row) for row in await conn.fetch(_SQL["of_job"], job, limit, after)]


async def insert_log_lines(conn: Connection, lines: Sequence[NewLogLine]) -> None:
    await conn.execute(_SQL["insert_log_lines"], *columns(lines))


class HeldJob(NamedTuple):
    """A job that an attempt holds."""

    id: UUID
    claim_no: int
    epoch: int
    number: int  # of the attempt

    @property
    def fence(self) -> Fence:
        return self.id, self.claim_no


async def lock_held(
    conn: Connection, fences: Iterable[Fence], *, org: str, worker: str, label: str | None
) -> list[HeldJob]:
    """Lock the given jobs that a worker still holds."""
    arguments = *columns(sorted(set(fences))), org, worker, label
    return [HeldJob(*row) for row in await conn.fetch(_SQL["lock_held"], *arguments)]


async def last_lines(conn: Connection, attempts: Sequence[tuple[UUID, int, int, int]]) -> dict[UUID, int]:
    """Return the number of the last log line of attempts, given as (job id, epoch, attempt, line), after that line."""
    return mapping(await conn.fetch(_SQL["last_lines"], *columns(attempts)))


async def log_lines(
    conn: Connection, job: UUID, *, attempt: int | None = None, after: LinePlace = (-1, 0, 0), limit: int | None = None
) -> list[LogLine]:
    return [LogLine(*row) for row in await conn.fetch(_SQL["log_lines"], job, attempt, *after, limit)]


async def make_partition(conn: Connection, *, week: int) -> str | None:
    """Create the partition of this week (0) or of a later one; return its name, or None if it existed."""
    name: str | None = await conn.fetchval(_SQL["make_partition"], week)
    return name


async def old_partitions(conn: Connection, *, age: timedelta) -> list[str]:
    """Return the weekly partitions that may be dropped."""
    return column(await conn.fetch(_SQL["old_partitions"], age))


async def drop_partition(conn: Connection, name: str) -> None:
    """Drop a weekly partition. DETACH CONCURRENTLY is not possible with a default partition, so this locks the whole
    event trail."""
    await conn.execute(f'drop table workflow."{name}"')


async def recent(conn: Connection, lines: int) -> int:
    """Return the id of the transaction that wrote the event with `lines` newer ones; 0 if there is no such event."""
    return int(await conn.fetchval(_SQL["recent"], lines))


async def named(conn: Connection, jobs: Sequence[UUID]) -> dict[UUID, NamedJob]:
    """Return the client's ids and the errors of these jobs; jobs without either are omitted."""
    return {row[0]: NamedJob(row[1], decode_objects(row[2])) for row in await conn.fetch(_SQL["named"], list(jobs))}


async def began(conn: Connection, jobs: Sequence[UUID]) -> dict[tuple[UUID, int | None], datetime]:
    """Return the start times of attempts, by job and attempt number."""
    return {(row[0], row[1]): row[2] for row in await conn.fetch(_SQL["began"], list(jobs))}


def _event(row: asyncpg.Record) -> Event:
    return Event(row["id"], row["event_type"], decode(row["data"]), row["actor"], row["attempt"], row["created_at"])
