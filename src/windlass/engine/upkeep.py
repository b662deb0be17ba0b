"""Duties of the inbox that nobody asks for: jobs become due, expired leases are released, old rows are removed."""

from dataclasses import dataclass
from datetime import timedelta

from windlass.core.continuity import Continuity
from windlass.engine.unit import Unit
from windlass.store import events, jobs, runs, terms, workers
from windlass.store.terms import TermAnswer

__all__ = ["Swept", "TermAnswer", "become_due", "prune", "release_expired", "resign_term", "take_term", "tend"]


@dataclass(frozen=True, slots=True)
class Swept:
    released: int = 0
    failed: int = 0
    pruned: int = 0


async def become_due(unit: Unit, *, batch: int = 1000) -> int:
    """Put rows whose time has come into line and wake their queues."""
    async with unit.once() as conn:
        queues = await jobs.become_due(conn, batch)
    for queue in set(queues):
        unit.poke(queue)
    return len(queues)


async def take_term(unit: Unit, *, duty: str, holder: str, term: timedelta) -> TermAnswer:
    async with unit.once() as conn:
        return await terms.take(conn, duty=duty, holder=holder, term=term)


async def resign_term(unit: Unit, *, duty: str, holder: str) -> None:
    async with unit.once() as conn:
        await terms.resign(conn, duty=duty, holder=holder)


async def release_expired(unit: Unit, *, batch: int = 500, continuity: Continuity | None = None) -> Swept:
    """Release jobs whose holder fell silent, but those that had no chance to be heard in a gap of `continuity`."""
    gaps = continuity.gaps if continuity is not None else ()
    answered_at = continuity.answered_at if continuity is not None else None
    async with unit.once() as conn:
        freed = await jobs.release_expired(conn, batch, actor="upkeep", gaps=gaps, answered_at=answered_at)
    if freed:
        unit.poke("")
        unit.poke("settle")
    ended = sum(status != "pending" for _, status in freed)
    return Swept(released=len(freed) - ended, failed=ended)


async def prune(unit: Unit, *, age: timedelta, batch: int = 500) -> int:
    """Remove a batch of jobs, and one of runs, that ended longer than `age` ago; the larger number."""
    async with unit.once() as conn:
        old_jobs = await jobs.prune(conn, age=age, batch=batch)
    async with unit.once() as conn:
        return max(old_jobs, await runs.prune(conn, age=age, batch=batch))


async def tend(unit: Unit, *, age: timedelta) -> None:
    """Partitions of the trail made ahead and dropped when old; workers long gone forgotten."""
    async with unit.begin() as conn:
        await conn.execute("set local lock_timeout = '2s'")
        await events.make_partitions(conn)
    async with unit.begin() as conn:  # apart: together they would lock the other way round than writers do
        await conn.execute("set local lock_timeout = '2s'")
        await events.drop_partitions(conn, age=age)
        await workers.forget(conn, silent_for=timedelta(days=1))
