"""Duties that keep the inbox honest: time passes, holders fall silent, old rows go."""

from dataclasses import dataclass
from datetime import timedelta

from windlass.engine.unit import Unit
from windlass.store import crons, events, jobs, rates, runs, terms, workers

OPEN_LEASE = timedelta(hours=1)  # for clients of plain SQL that claim without `lease_until`


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


async def take_term(unit: Unit, *, duty: str, holder: str, term: timedelta) -> bool:
    async with unit.once() as conn:
        return await terms.take(conn, duty=duty, holder=holder, term=term)


async def resign_term(unit: Unit, *, duty: str, holder: str) -> None:
    async with unit.once() as conn:
        await terms.resign(conn, duty=duty, holder=holder)


async def release_expired(unit: Unit, *, batch: int = 500) -> Swept:
    """Give work back whose holder fell silent."""
    async with unit.once() as conn:
        freed = await jobs.release_expired(conn, batch, actor="upkeep")
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
        old_runs = await runs.prune(conn, age=age, batch=batch)
    async with unit.once() as conn:
        await crons.prune_skipped(conn, age=age, batch=batch)
    return max(old_jobs, old_runs)


async def date_open_leases(unit: Unit) -> None:
    """Give an end to leases that plain SQL took without one."""
    async with unit.once() as conn:
        await jobs.date_open_leases(conn, OPEN_LEASE)


async def tend(unit: Unit, *, age: timedelta) -> None:
    """Make partitions of the trail ahead, drop old ones; forget workers that are long gone and limits nobody uses."""
    async with unit.begin() as conn:
        await conn.execute("set local lock_timeout = '2s'")
        await events.make_partitions(conn)
    async with unit.begin() as conn:  # apart: together they would lock the other way round than writers do
        await conn.execute("set local lock_timeout = '2s'")
        await events.drop_partitions(conn, age=age)
        await workers.forget(conn, silent_for=timedelta(days=1))
    async with unit.once() as conn:
        await rates.forget_waiting(conn)
    async with unit.once() as conn:
        await rates.prune(conn, age=age)
