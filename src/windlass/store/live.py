"""Reads the event trails of runs and of jobs as one stream."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import Any
from uuid import UUID

import asyncpg

from windlass.core.events.cursor import Cursor, Snapshot, interleaved
from windlass.core.json_value import decode
from windlass.store.postgres.pool import Connection
from windlass.store.postgres.queries import statements

_SQL = statements("live")


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


async def here(conn: Connection) -> Snapshot:
    return Snapshot.parse(await conn.fetchval(_SQL["here"]))


async def since(conn: Connection, at: Cursor, *, limit: int) -> Read:
    """Return the events after a cursor; for a cursor within a batch, the rest of that batch."""
    ceiling = None if at.before is None else str(at.upto.xmax)
    rows = await conn.fetch(_SQL["since"], *_arguments(at.base), limit, ceiling)
    if at.before is not None:
        return Read(_merged(rows), at.upto, Cursor(at.upto), more=True)
    now, fence = Snapshot.parse(rows[0]["snapshot"]), rows[0]["fence"]
    upto = now if fence is None else now.below(int(fence) + 1)
    return Read(_merged(rows), upto, Cursor(upto), more=fence is not None)


async def since_of_run(conn: Connection, run: UUID, at: Cursor, *, limit: int) -> Read:
    """Return the events of one run after a cursor; here a batch is split into pages."""
    place = (0, 0) if at.before is None else (at.run_line, at.job_line)
    rows = await conn.fetch(_SQL["since_of_run"], *_arguments(at.base), run, *place, limit)
    if not rows:
        return Read([], at.upto, at, more=False)
    upto = Snapshot.parse(rows[0]["snapshot"]) if at.before is None else at.upto
    lines = _merged(rows)
    found = [[line.id for line in lines if line.of_job is of_job] for of_job in (False, True)]
    if any(len(ids) == limit for ids in found):
        last = (max(ids, default=before) for ids, before in zip(found, place, strict=True))
        return Read(lines, upto, Cursor(upto, at.base, *last), more=True, state=rows[0]["state"])
    state, letters = rows[0]["state"], rows[0]["whole"]
    return Read(lines, upto, Cursor(upto), more=at.before is not None, state=state, letters=letters)


def _arguments(base: Snapshot) -> tuple[str, list[str]]:
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
        queue=row["queue"],
        run_id=row["run_id"],
        org=row["org"],
        version_id=row["version_id"],
        workflow=row["workflow"],
        state=row["state"],
        letters=row["letters"],
        fan=decode(row["fan"]),
    )
