"""The worker's side of the inbox: one turn = report what ended, take what is next, in one transaction."""

import logging
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from windlass.core.event import Ended
from windlass.core.job import Claimed, Fence, JobMove, Report, Setback, Success
from windlass.core.reason import Reason
from windlass.core.run import Letter
from windlass.engine import first_claims
from windlass.engine.faults import point
from windlass.engine.settle import Stirred, ended_as, settle
from windlass.engine.unit import Unit
from windlass.errors import Invalid
from windlass.store import events, jobs, runs, workers
from windlass.store.events import Line
from windlass.store.jobs import HeldLease, Lane
from windlass.store.pool import UNSTORABLE, Connection
from windlass.store.runs import Held
from windlass.store.workers import Registered

__all__ = [
    "HeldLease",
    "Lane",
    "Line",
    "Turn",
    "heartbeat",
    "held",
    "look",
    "record",
    "register",
    "registry",
    "seen",
    "turn",
]

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
    holders: Mapping[UUID, str] | None = None  # of the jobs reported on, where they are not all `worker`'s

    @property
    def runs(self) -> list[UUID]:
        """The runs that this may advance."""
        return sorted({report.job.run_id for report in self.reports if report.job.run_id is not None})

    @property
    def is_single(self) -> bool:
        """One statement says it all."""
        kinds = {type(report) for report in self.reports}
        return len(kinds) + bool(self.lines) + bool(self.lanes and self.count) <= 1


async def turn(unit: Unit, wish: Turn) -> tuple[list[Claimed], set[UUID]]:
    """Record reports, advance their runs and claim, all or nothing; returns the jobs claimed and the ids recorded.

    A report that the database cannot store must not sink the others: the batch is split until it stands alone,
    and is then recorded as a failure that says so.
    """
    touched = wish.runs
    try:
        async with unit.once() if wish.is_single and not touched else unit.begin() as conn:
            recorded, stirred = await _record(conn, unit, wish, touched)
            claimed = await jobs.claim(conn, wish.lanes, count=wish.count, worker=wish.worker, lease=wish.lease)
            known = await unit.definitions.of(conn, {job.version_id for job in claimed if job.version_id is not None})
            if known:
                await first_claims.tell(conn, claimed, known, actor=wish.worker)
            point("turn.claimed")
    except (*UNSTORABLE, Invalid) as error:
        if not wish.reports and not wish.lines:
            raise
        return [], await _record_apart(unit, wish, error)
    point("turn.committed")
    stirred.poke(unit, claimed=[job.id for job in claimed])
    return claimed, recorded


async def look(unit: Unit, queues: Sequence[str]) -> list[Lane]:
    async with unit.once() as conn:
        return await jobs.find_lanes(conn, queues)


async def heartbeat(unit: Unit, claims: Iterable[Fence], *, worker: str, lease: timedelta) -> list[HeldLease]:
    """Extend leases; what is not in the answer is no longer held."""
    async with unit.once() as conn:
        return await jobs.heartbeat(conn, claims, worker=worker, lease=lease)


async def held(unit: Unit, claims: Iterable[Fence], *, worker: str) -> list[HeldLease]:
    """Return which of these leases are still held, without extending them."""
    async with unit.once() as conn:
        return await jobs.held(conn, claims, worker=worker)


async def register(
    unit: Unit, *, id_: str, host: str, pid: int, queues: Sequence[str], types: Sequence[str], concurrency: int
) -> Registered | None:
    """Register a worker; return the process that had its id before."""
    async with unit.once() as conn:
        return await workers.register(
            conn, id_=id_, host=host, pid=pid, queues=queues, types=types, concurrency=concurrency
        )


async def seen(unit: Unit, *, id_: str, state: str, active: int) -> Registered | None:
    """Record a sign of life; return the worker's row, with what an operator wants of it."""
    async with unit.once() as conn:
        return await workers.seen(conn, id_=id_, state=state, active=active)


async def registry(unit: Unit) -> dict[str, tuple[str, bool]]:
    """type -> (runtime, enabled), for the types somebody registered."""
    async with unit.once() as conn:
        return {name: (runtime, enabled) for name, runtime, enabled in await workers.registry(conn)}


async def _record(conn: Connection, unit: Unit, wish: Turn, touched: Sequence[UUID]) -> tuple[set[UUID], Stirred]:
    """Lock order: runs first, then jobs."""
    held_runs = await runs.lock(conn, touched) if touched else []
    point("settle.locked")
    return await record(conn, unit, wish, held_runs)


async def record(conn: Connection, unit: Unit, wish: Turn, held_runs: Sequence[Held]) -> tuple[set[UUID], Stirred]:
    """Write reports down and advance their runs, which are locked: what was recorded, and who should look."""
    if wish.lines:
        await events.insert_lines(conn, wish.lines)
    states = await _finish(conn, wish)
    point("settle.recorded")
    if held_runs:
        news = _news(wish.reports, states, {run.id for run in held_runs})
        return set(states), await settle(conn, unit, held_runs, news, actor=wish.worker)
    return set(states), Stirred()


async def _finish(conn: Connection, wish: Turn) -> dict[UUID, str]:
    """What became of the jobs whose report was recorded."""
    successes = [report for report in wish.reports if isinstance(report, Success)]
    setbacks = [report for report in wish.reports if isinstance(report, Setback)]
    states: dict[UUID, str] = {}
    if successes and setbacks:
        await jobs.lock(conn, (report.job.id for report in wish.reports))
    if successes:
        states |= dict.fromkeys(
            await jobs.succeed(conn, successes, worker=wish.worker, holders=wish.holders), "succeeded"
        )
    if setbacks:
        states |= await jobs.set_back(conn, setbacks, worker=wish.worker, holders=wish.holders)
    return states


def _news(reports: Sequence[Report], states: Mapping[UUID, str], known: Container[UUID]) -> dict[UUID, list[Ended]]:
    """What the runs hear: each step that ended, instances counted together."""
    counts: Counter[tuple[UUID, int, Letter]] = Counter()
    reasons: dict[tuple[UUID, int, Letter], Reason] = {}
    latest = {report.job.id: report for report in sorted(reports, key=lambda report: report.job.claim_no)}
    for report in latest.values():  # of two claims of a job the fence knows the last
        job, state = report.job, states.get(report.job.id, "pending")
        if job.run_id is None or job.step is None or state == "pending" or job.run_id not in known:
            continue
        error = report.error if isinstance(report, Setback) else None
        key = job.run_id, job.step, ended_as(state, error.get("type") if error else None)
        counts[key] += 1
        if error:
            reasons[key] = Reason("failed", str(error.get("message")))
    news: dict[UUID, list[Ended]] = defaultdict(list)
    for key, count in counts.items():
        run, step, letter = key
        news[run].append(Ended(step, letter, reasons.get(key), count))
    return news


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
    plain = Turn(worker=wish.worker, lease=wish.lease, reports=[Setback(job, JobMove.FAIL, told, timedelta())])
    async with unit.begin() as conn:
        recorded, stirred = await _record(conn, unit, plain, plain.runs)
    stirred.poke(unit)
    return recorded
