"""The worker's side of the inbox: one turn = report what ended, take what is next, in one transaction."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from windlass.core.job import Claimed, JobMove, Report, Setback, Success
from windlass.engine.unit import Unit
from windlass.errors import Invalid
from windlass.store import events, jobs, workers
from windlass.store.events import Line
from windlass.store.jobs import Lane
from windlass.store.pool import UNSTORABLE, Connection

__all__ = ["Lane", "Line", "Turn", "heartbeat", "held", "look", "register", "registry", "seen", "turn"]

_log = logging.getLogger("windlass.work")


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What a worker brings to a turn and wants from it."""

    worker: str
    lease: timedelta
    reports: Sequence[Report] = ()
    lines: Sequence[Line] = ()
    lanes: Sequence[tuple[Lane, int]] = ()
    count: int = 0

    @property
    def statements(self) -> int:
        kinds = {type(report) for report in self.reports}
        return len(kinds) + bool(self.lines) + bool(self.lanes and self.count)


async def turn(unit: Unit, wish: Turn) -> tuple[list[Claimed], set[UUID]]:
    """Record reports and claim, all or nothing; returns the jobs claimed and the ids whose report was recorded.

    A report that the database cannot store must not sink the others: the batch is split until it stands alone,
    and is then recorded as a failure that says so.
    """
    try:
        async with unit.begin() if wish.statements > 1 else unit.once() as conn:
            recorded = await _record(conn, wish)
            claimed = await jobs.claim(conn, wish.lanes, count=wish.count, worker=wish.worker, lease=wish.lease)
            return claimed, recorded
    except (*UNSTORABLE, Invalid) as error:
        if not wish.reports and not wish.lines:
            raise
        return [], await _record_apart(unit, wish, error)


async def look(unit: Unit, queues: Sequence[str]) -> list[Lane]:
    async with unit.once() as conn:
        return await jobs.find_lanes(conn, queues)


async def heartbeat(unit: Unit, held_: Sequence[Claimed], *, worker: str, lease: timedelta) -> set[UUID]:
    """Extend the leases; what is not in the answer is no longer ours."""
    async with unit.once() as conn:
        return await jobs.heartbeat(conn, held_, worker=worker, lease=lease)


async def held(unit: Unit, held_: Sequence[Claimed], *, worker: str) -> set[UUID]:
    async with unit.once() as conn:
        return await jobs.held(conn, held_, worker=worker)


async def register(
    unit: Unit, *, id_: str, host: str, pid: int, queues: Sequence[str], types: Sequence[str], concurrency: int
) -> None:
    async with unit.once() as conn:
        await workers.register(conn, id_=id_, host=host, pid=pid, queues=queues, types=types, concurrency=concurrency)


async def seen(unit: Unit, *, id_: str, state: str, active: int) -> None:
    async with unit.once() as conn:
        await workers.seen(conn, id_=id_, state=state, active=active)


async def registry(unit: Unit) -> dict[str, tuple[str, bool]]:
    """type -> (runtime, enabled), for the types somebody registered."""
    async with unit.once() as conn:
        return {name: (runtime, enabled) for name, runtime, enabled in await workers.registry(conn)}


async def _record(conn: Connection, wish: Turn) -> set[UUID]:
    successes = [report for report in wish.reports if isinstance(report, Success)]
    setbacks = [report for report in wish.reports if isinstance(report, Setback)]
    recorded: set[UUID] = set()
    if wish.lines:
        await events.insert_lines(conn, wish.lines)
    if successes and setbacks:
        await jobs.lock(conn, (report.job.id for report in wish.reports))
    if successes:
        recorded |= await jobs.succeed(conn, successes, worker=wish.worker)
    if setbacks:
        recorded |= await jobs.set_back(conn, setbacks, worker=wish.worker)
    return recorded


async def _record_apart(unit: Unit, wish: Turn, error: Exception) -> set[UUID]:
    reports, lines = list(wish.reports), list(wish.lines)
    if len(reports) + len(lines) == 1:
        return await _record_poisoned(unit, wish, error)
    halves = [
        (reports[: len(reports) // 2], lines[: len(lines) // 2]),
        (reports[len(reports) // 2 :], lines[len(lines) // 2 :]),
    ]
    if len(reports) == 1 or len(lines) == 1:  # halving would go on for ever with one of each
        halves = [(reports, []), ([], lines)]
    recorded: set[UUID] = set()
    for some_reports, some_lines in halves:
        if some_reports or some_lines:
            part = Turn(worker=wish.worker, lease=wish.lease, reports=some_reports, lines=some_lines)
            recorded |= (await turn(unit, part))[1]
    return recorded


async def _record_poisoned(unit: Unit, wish: Turn, error: Exception) -> set[UUID]:
    if wish.lines:
        _log.error("a log line was dropped: %s", error)
        return set()
    job = wish.reports[0].job
    told = {"type": type(error).__name__, "message": f"the outcome could not be stored: {str(error)!a}"}
    _log.error("job %s: %s", job.id, told["message"])
    async with unit.once() as conn:
        return await jobs.set_back(conn, [Setback(job, JobMove.FAIL, told, timedelta())], worker=wish.worker)
