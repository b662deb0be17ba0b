"""What runs have to hear that no worker of ours told them: ends recorded by plain SQL, other runs, time that passed."""

from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import timedelta
from uuid import UUID

from windlass.core.event import Begun, CancelAsked, Ended, Event, Expired
from windlass.core.reason import Reason
from windlass.core.run import Letter, RunState
from windlass.core.step import HookAction
from windlass.engine.settle import ended_as, settle
from windlass.engine.unit import Unit
from windlass.errors import Unavailable
from windlass.store import runs, steps, timers
from windlass.store.pool import Connection
from windlass.store.runs import Held
from windlass.store.steps import EndedJob

LIVE = frozenset({RunState.PENDING, RunState.RUNNING})
ACTOR = "engine"
UNCALLED = Reason("timeout", "nobody called back in time")
Listen = Callable[[Connection, list[Held]], Awaitable[dict[UUID, list[Event]]]]


async def settle_strays(unit: Unit, *, batch: int = 500) -> int:
    """Tell runs what they have not heard; how many were told."""
    async with unit.once() as conn:
        found = await runs.find_unsettled(conn, batch)

    async def listen(conn: Connection, held: list[Held]) -> dict[UUID, list[Event]]:
        news: dict[UUID, list[Event]] = defaultdict(list)
        for id_, event in await untold(conn, held, batch=batch):
            news[id_].append(event)
        return news

    return await _tell(unit, found, listen)


async def untold(conn: Connection, held: Sequence[Held], *, batch: int = 500) -> list[tuple[UUID, Event]]:
    """What these runs, which are locked, have not heard: ends that somebody else recorded, and notices."""
    return _ends(await steps.take_ended(conn, [run.id for run in held], batch=batch * 10)) + await heard(conn, held)


async def heard(conn: Connection, held: Sequence[Held]) -> list[tuple[UUID, Event]]:
    """What other runs left for these, which are locked."""
    known = {run.id: run for run in held}
    found: list[tuple[UUID, Event]] = []
    for notice in await runs.take_notices(conn, list(known)):
        if notice.word == "cancel" and known[notice.run_id].state in LIVE:
            reason = Reason("cancelled", notice.reason or "the run above was cancelled")
            found.append((notice.run_id, CancelAsked(reason)))
        elif notice.word == "ended" and notice.step is not None:
            letter = Letter(notice.letter or Letter.FAILED)
            why = None if letter is Letter.SUCCEEDED else Reason("child", notice.reason or "the run below it failed")
            found.append((notice.run_id, Ended(notice.step, letter, why)))
    return found


async def begin_held(unit: Unit, *, batch: int = 500) -> int:
    """Begin runs that wait for a place; how many."""
    async with unit.once() as conn:
        found = await runs.find_held(conn, batch)
    return sum([await _begin_held(unit, workflow, batch) for workflow in found])


async def wake(unit: Unit, *, batch: int = 1000) -> int:
    """End the sleeps and the waits whose time has come; of how many runs."""
    async with unit.once() as conn:
        found = await timers.find_due(conn, batch)

    async def listen(conn: Connection, held: list[Held]) -> dict[UUID, list[Event]]:
        news: dict[UUID, list[Event]] = defaultdict(list)
        known = await unit.definitions.of(conn, {run.version_id for run in held})
        plans = {run.id: known[run.version_id].plan for run in held}
        for id_, step in await timers.take_due(conn, [run.id for run in held]):
            waited = isinstance(plans[id_].steps[step].action, HookAction)
            news[id_].append(Ended(step, Letter.TIMED_OUT, UNCALLED) if waited else Ended(step, Letter.SUCCEEDED))
        return news

    return await _tell(unit, found, listen)


async def expire(unit: Unit, *, batch: int = 500) -> int:
    """End runs whose time is over; how many."""
    async with unit.once() as conn:
        found = await runs.find_expired(conn, batch)

    async def listen(_: Connection, held: list[Held]) -> dict[UUID, list[Event]]:
        return {run.id: [Expired()] for run in held if run.state in LIVE and run.expires_at <= run.now}

    return await _tell(unit, found, listen, reason="the run's time was over")


async def next_due(unit: Unit) -> tuple[timedelta | None, timedelta | None, timedelta | None]:
    """How long until a job comes into line, a sleep ends, a run runs out of time; None: never."""
    async with unit.once() as conn:
        return await timers.next_due(conn)


async def _tell(unit: Unit, found: Sequence[UUID], listen: Listen, *, reason: str = "the run was cancelled") -> int:
    """Tell these runs, or, if one of them cannot be settled, all but that one: its defect is raised in the end."""
    try:
        return await _tell_together(unit, found, listen, reason=reason) if found else 0
    except Unavailable:
        raise
    except Exception:
        if len(found) == 1:
            raise
    told, defects = 0, []
    for half in (found[: len(found) // 2], found[len(found) // 2 :]):
        try:
            told += await _tell(unit, half, listen, reason=reason)
        except Exception as error:
            defects.append(error)
    if defects:
        raise defects[0]
    return told


async def _tell_together(unit: Unit, found: Sequence[UUID], listen: Listen, *, reason: str) -> int:
    """Lock those of the runs that nobody else works on, hear their news, settle."""
    async with unit.begin() as conn:
        held = await runs.lock(conn, found, wait=False)
        news = await listen(conn, held) if held else {}
        if not news:
            return 0
        stirred = await settle(conn, unit, held, news, actor=ACTOR, reason=reason)
    stirred.poke(unit)
    return len(news)


async def _begin_held(unit: Unit, workflow: UUID, batch: int) -> int:
    async with unit.begin() as conn:
        version = await runs.hold_workflow(conn, workflow)
        limit = (await unit.definitions.of(conn, [version]))[version].concurrency
        room = batch if limit is None else min(batch, limit - await runs.running(conn, workflow))
        first = await runs.first_held(conn, workflow, room) if room > 0 else []
        held = [run for run in await runs.lock(conn, first) if run.state == RunState.PENDING] if first else []
        if not held:
            return 0
        stirred = await settle(conn, unit, held, {run.id: [Begun()] for run in held}, actor=ACTOR)
    stirred.poke(unit)
    return len(held)


def _ends(jobs: Iterable[EndedJob]) -> list[tuple[UUID, Event]]:
    """Instances that ended alike are counted together."""
    counts: Counter[tuple[UUID, int, Letter]] = Counter()
    reasons: dict[tuple[UUID, int, Letter], Reason] = {}
    for job in jobs:
        key = job.run_id, job.step, ended_as(job.status, job.error_type)
        counts[key] += 1
        if job.deleted:
            reasons[key] = Reason("deleted", "its job was deleted")
        elif job.status != "succeeded":
            reasons[key] = Reason(job.status, job.error or f"its job was {job.status}")
    return [(key[0], Ended(key[1], key[2], reasons.get(key), count)) for key, count in counts.items()]
