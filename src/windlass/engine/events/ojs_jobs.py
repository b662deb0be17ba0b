"""What a reader of job events needs beside the lines: where to begin, and when attempts began."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

from windlass.core.events.cursor import Cursor, Snapshot
from windlass.engine.database import Database
from windlass.engine.events.stream import Line
from windlass.store import events
from windlass.store.events import NamedJob

__all__ = ["Began", "NamedJob", "began", "named", "recent"]

RECENT = 2000  # lines that somebody without a place is shown
FAILURES = frozenset({"failed", "retried"})
ENDS = frozenset({"succeeded", "failed", "retried", "cancelled"})
Began = dict[tuple[UUID, int | None], datetime]  # by job and number of the attempt


async def recent(db: Database) -> Cursor:
    """A place a while ago: what happened lately is still to come."""
    async with db.once() as conn:
        return Cursor(Snapshot(await events.recent(conn, RECENT)))


async def named(db: Database, lines: Sequence[Line]) -> Mapping[UUID, NamedJob]:
    """What clients call the jobs of these lines, and their errors: of jobs of workflows, and of those that failed."""
    wanted = {
        line.job_id
        for line in lines
        if line.of_job and line.job_id is not None and (line.run_id is not None or line.word in FAILURES)
    }
    if not wanted:
        return {}
    async with db.once() as conn:
        return await events.named(conn, list(wanted))


async def began(db: Database, lines: Sequence[Line]) -> Began:
    ids = {line.job_id for line in lines if line.of_job and line.word in ENDS and line.job_id is not None}
    if not ids:
        return {}
    async with db.once() as conn:
        return await events.began(conn, list(ids))
