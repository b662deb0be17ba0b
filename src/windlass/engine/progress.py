"""How far jobs are, by their own words: the latest word counts, and stays when the job ends."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from windlass.core.document import encode, plain
from windlass.core.progress import MAX_DATA, MAX_MESSAGE
from windlass.engine import jobs
from windlass.engine.unit import Unit
from windlass.errors import Conflict
from windlass.store import progress as store
from windlass.store.progress import Progress, Said

__all__ = ["Progress", "Said", "find", "report", "say"]


async def report(unit: Unit, said: Sequence[Said]) -> None:
    """What attempts of our own workers say, one word a job; who lost the job to another is not heard."""
    async with unit.once() as conn:
        await store.report(conn, said)


async def say(unit: Unit, job: UUID, fraction: float, message: str | None = None, data: Any = None) -> Progress:
    """A worker of any language says how far a live job is."""
    text = None if message is None else plain(message[:MAX_MESSAGE])
    kept = None if data is None else encode(data, field="data", limit=MAX_DATA)
    async with unit.begin() as conn:
        at = await store.say(conn, job, fraction, text, kept, org=unit.org)
    if at is None:
        found = await jobs.get(unit, job)
        raise Conflict(f"job {job} is {found.status}: only a live job has progress to report")
    return Progress(fraction, text, data, at)


async def find(unit: Unit, job: UUID) -> Progress | None:
    """None: it has said nothing yet."""
    await jobs.get(unit, job)
    async with unit.once() as conn:
        return await store.get(conn, job)
