"""What job events need beside their lines: a start position, the clients' ids, and when attempts began."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

from windlass.core.events.cursor import Cursor, Snapshot
from windlass.engine.database import Database
from windlass.engine.events.stream import Line
from windlass.store import events
from windlass.store.events import NamedJob

__all__ = ["Began", "NamedJob", "began", "named", "recent"]

RECENT = 2000  # lines that a reader without a cursor is shown
FAILURES = frozenset({"failed", "retried"})
ENDS = frozenset({"succeeded", "failed", "retried", "cancelled"})
Began = dict[tuple[UUID, int | None], datetime]  # by job and attempt number


async def recent(db: Database) -> Cursor:
    """Return a cursor before the most recent events."""
    async with db.once() as conn:
        return Cursor(Snapshot(await events.recent(conn, RECENT)))


async def named(db: Database, lines: Sequence[Line]) -> Mapping[UUID, NamedJob]:
    """Return the clients' ids and the errors of the lines' jobs, where they are steps of runs or failed."""
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
