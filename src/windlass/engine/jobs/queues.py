"""Queues for operators: depth, throughput, pause and resume.

A queue needs no declaration: one without jobs is empty, not unknown.
"""

from dataclasses import dataclass
from datetime import timedelta

from windlass.core.jobs.spec import check_name
from windlass.core.json_value import encode
from windlass.engine.database import MOST_COUNTED, PAGE_LIMIT, Database
from windlass.errors import Invalid
from windlass.store import queues as store
from windlass.store.queues import QueueRow

__all__ = ["Queue", "QueuePage", "QueueRow", "ends", "get", "list_", "pause", "resume"]
LINES = 10_000  # of the event trail, for rates
RATE_WITHIN = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Queue:
    row: QueueRow
    rate: float  # ended jobs per second, over the last minute or the last lines of the event trail


@dataclass(frozen=True, slots=True)
class QueuePage:
    """A page of queues by name. Pass `next` as `after` for the next page; None means the end."""

    queues: list[Queue]
    next: str | None


async def list_(db: Database, *, after: str = "", limit: int = 100) -> QueuePage:
    """Return the queues that have jobs or settings."""
    encode(after, field="after")
    if not 1 <= limit <= PAGE_LIMIT:
        raise Invalid(f"limit is {limit}: it must lie between 1 and {PAGE_LIMIT}", field="limit")
    async with db.begin() as conn:
        rows = await store.list_(conn, after=after, limit=limit, cap=MOST_COUNTED)
        rates = await store.rates(conn, lines=LINES, within=RATE_WITHIN)
    found = [Queue(row, rates.get(row.name, 0.0)) for row in rows]
    return QueuePage(found, rows[-1].name if len(rows) == limit else None)


async def get(db: Database, name: str) -> Queue:
    _check(name)
    async with db.begin() as conn:
        rows = await store.list_(conn, after="", limit=1, cap=MOST_COUNTED, name=name)
        rates = await store.rates(conn, lines=LINES, within=RATE_WITHIN)
    row = rows[0] if rows else QueueRow(name, 0, 0, 0, False, None, False, None, None)
    return Queue(row, rates.get(name, 0.0))


async def ends(db: Database) -> tuple[int, int]:
    """Return how many jobs of all queues succeeded and failed in the last minute."""
    async with db.once() as conn:
        return await store.ends(conn, lines=LINES)


async def pause(db: Database, name: str) -> None:
    """Pause a queue: our workers claim nothing from it until it is resumed; they finish the jobs they hold."""
    _check(name)
    async with db.once() as conn:
        await store.pause(conn, name)


async def resume(db: Database, name: str) -> None:
    _check(name)
    async with db.once() as conn:
        await store.resume(conn, name)
    db.poke(name)


def _check(name: str) -> None:
    check_name(name, "queue", "name a queue, for example default")
    encode(name, field="queue")
