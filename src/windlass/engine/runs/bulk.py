"""Cancels and retries many runs that match a filter, in bounded batches, newest first."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from windlass.core.jobs.spec import check_range
from windlass.core.json_value import encode
from windlass.core.runs.event import CancelAsked, RetryAsked
from windlass.core.runs.reason import Reason
from windlass.core.runs.run import LIVE, RUN_EDGES, RunMove, RunState
from windlass.engine.database import MOST_COUNTED, Database
from windlass.engine.runs import control as runs
from windlass.engine.runs.control import MAX_REASON, Wanted
from windlass.engine.runs.settle import Wakeups, settle
from windlass.errors import Invalid
from windlass.store import runs as store

BATCH_LIMIT = 1000


@dataclass(frozen=True, slots=True)
class Steered:
    """The runs changed, and how many older ones are left. Pass `next` as `before` for the next batch; None: the end."""

    runs: list[UUID]
    left: int  # counted up to MOST_COUNTED
    next: UUID | None


async def matching(db: Database, wanted: Wanted, move: RunMove) -> int:
    """Return how many runs all batches together would reach, counted up to MOST_COUNTED."""
    return len(await _find(db, wanted, move, MOST_COUNTED))


async def cancel(db: Database, wanted: Wanted, *, limit: int = 100, reason: str | None = None) -> Steered:
    """Stop runs, all of the batch or none. A run that ended meanwhile is left unchanged."""
    encode(reason, field="reason", limit=MAX_REASON)
    why = reason or "the run was cancelled"
    found = await _batch(db, wanted, RunMove.CANCEL, limit)
    wakeups = Wakeups()
    async with db.begin() as conn:
        held = [run for run in await store.lock(conn, found) if run.state in LIVE]
        if held:
            news = {run.id: [CancelAsked(Reason("cancelled", why))] for run in held}
            wakeups = await settle(conn, db, held, news, actor=db.actor, reason=why)
    wakeups.poke(db)
    return await _steered(db, wanted, RunMove.CANCEL, found, [run.id for run in held])


async def retry(db: Database, wanted: Wanted, *, limit: int = 100) -> Steered:
    """Retry runs, all of the batch or none. Child runs are left to their parents, which start them anew."""
    found = await _batch(db, wanted, RunMove.RETRY, limit)
    wakeups = Wakeups()
    async with db.begin() as conn:
        held = [run for run in await store.lock(conn, found) if (RunState(run.state), RunMove.RETRY) in RUN_EDGES]
        if held:  # another session may have retried them first
            held = await runs.go_on(conn, db, held, "retried", runs.FAILED_AGAIN)
            news = {run.id: [RetryAsked()] for run in held}
            wakeups = await settle(conn, db, held, news, actor=db.actor)
    wakeups.poke(db)
    return await _steered(db, wanted, RunMove.RETRY, found, [run.id for run in held])


async def _batch(db: Database, wanted: Wanted, move: RunMove, limit: int) -> list[UUID]:
    check_range(limit, "limit", most=BATCH_LIMIT)
    return await _find(db, wanted, move, limit)


async def _find(db: Database, wanted: Wanted, move: RunMove, limit: int) -> list[UUID]:
    allowed = [state.value for state, known in RUN_EDGES if known is move]
    for state in wanted.states or ():
        if state not in allowed:
            raise Invalid(f"state is {state!r}: only {' and '.join(allowed)} runs can be", field="status")
    async with db.begin() as conn:
        asked = await runs.narrowed(conn, db, replace(wanted, states=wanted.states or allowed), limit=limit)
        return await store.find(conn, asked)


async def _steered(db: Database, wanted: Wanted, move: RunMove, found: Sequence[UUID], done: Sequence[UUID]) -> Steered:
    if not found:
        return Steered([], 0, None)
    left = await matching(db, replace(wanted, before=found[-1]), move)
    return Steered(sorted(done, reverse=True), left, found[-1] if left else None)
