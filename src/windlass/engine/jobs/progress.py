"""The progress that jobs report: only the latest report is kept, also after the job ends."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from windlass.core.jobs.job import MAX_DATA, MAX_MESSAGE
from windlass.core.json_value import encode, plain
from windlass.engine.database import Database
from windlass.engine.jobs import control as jobs
from windlass.errors import Conflict
from windlass.store.ojs import progress as store
from windlass.store.ojs.progress import Progress, Said

__all__ = ["Progress", "Said", "find", "report", "say"]


async def report(db: Database, said: Sequence[Said]) -> None:
    """Record the progress of our own workers' attempts, one report per job; stale claims are ignored."""
    async with db.once() as conn:
        await store.report(conn, said)


async def say(db: Database, job: UUID, fraction: float, message: str | None = None, data: Any = None) -> Progress:
    """Record the progress of a live job, reported by a worker in any language."""
    text = None if message is None else plain(message[:MAX_MESSAGE])
    kept = None if data is None else encode(data, field="data", limit=MAX_DATA)
    async with db.begin() as conn:
        at = await store.say(conn, job, fraction, text, kept, org=db.org)
    if at is None:
        found = await jobs.get(db, job)
        raise Conflict(f"job {job} is {found.status}: only a live job has progress to report")
    return Progress(fraction, text, data, at)


async def find(db: Database, job: UUID) -> Progress | None:
    """Return a job's progress; None: it has reported none."""
    await jobs.get(db, job)
    async with db.once() as conn:
        return await store.get(conn, job)
