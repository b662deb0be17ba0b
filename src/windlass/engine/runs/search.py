"""Finds runs by a filter, and cancels or retries all that match, in bounded batches, newest first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

from windlass.core import ids
from windlass.core.jobs.spec import check_range
from windlass.core.json_value import encode
from windlass.core.runs.event import CancelRequested, RetryRequested
from windlass.core.runs.run import LIVE, RUN_EDGES, Reason, RunMove, RunState
from windlass.engine.database import MOST_COUNTED, Tenant
from windlass.engine.definitions import find_live
from windlass.engine.orgs import audit
from windlass.engine.runs import control
from windlass.engine.runs.settle import Wakeups, settle
from windlass.errors import Invalid
from windlass.schemas.common import BATCH_LIMIT, PAGE_LIMIT
from windlass.store import runs as store
from windlass.store.postgres.pool import Connection
from windlass.store.runs import OLDEST, RunFilter, RunRow

APART = timedelta(hours=1)  # tolerated difference between the clocks that make ids and the clock that sets created_at
FIRST, LAST = datetime(1970, 1, 2, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)
MAX_TEXT = 1024
INDEXED = 200  # characters of a label that are indexed


@dataclass(frozen=True, slots=True)
class RunPage:
    """A page of runs, newest first. Pass `next` as `before` for the next page; None means the end."""

    runs: list[RunRow]
    next: UUID | None


@dataclass(frozen=True, slots=True)
class RunQuery:
    """A filter for runs: all conditions must hold. The range of creation times includes its start, not its end."""

    workflow: str | None = None
    states: Sequence[str] | None = None
    labels: Mapping[str, str] | None = None
    before: UUID | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    text: str | None = None  # a prefix of the id, of the workflow's name, or of a label's key or value
    retrying: bool = False  # has a step that waits for its next attempt
    workflow_id: UUID | None = None  # instead of the name; the workflow may be deleted


async def list_(
    db: Tenant,
    *,
    workflow: str | None = None,
    states: Sequence[str] | None = None,
    labels: Mapping[str, str] | None = None,
    before: UUID | None = None,
    created_after: datetime | None = None,
    created_before: datetime | None = None,
    text: str | None = None,
    retrying: bool = False,
    limit: int = 50,
) -> RunPage:
    query = RunQuery(workflow, states, labels, before, created_after, created_before, text, retrying)
    return await find(db, query, limit=limit)


async def find(db: Tenant, query: RunQuery, *, limit: int = 50) -> RunPage:
    check_range(limit, "limit", most=PAGE_LIMIT)
    async with db.search("filter by workflow, state, a label or the time of creation too") as conn:
        rows = await store.list_(conn, await narrowed(conn, db, query, limit=limit))
    return RunPage(rows, rows[-1].id if len(rows) == limit else None)


async def narrowed(conn: Connection, db: Tenant, query: RunQuery, *, limit: int) -> RunFilter:
    """Validate a query and return it as a filter for the store."""
    for state in query.states or ():
        if state not in set(RunState):
            raise Invalid(f"state is {state!r}: one of {', '.join(RunState)}", field="state")
    encode(query.text, field="text", limit=MAX_TEXT)
    labels = encode(dict(query.labels), field="labels") if query.labels else None
    live = await find_live(conn, query.workflow, org=db.org) if query.workflow is not None else None
    first, last = (_aware(moment) for moment in (query.created_after, query.created_before))
    ends = [id_ for id_ in (query.before, ids.earliest(last + APART) if last else None) if id_ is not None]
    return RunFilter(
        org=db.org,
        workflow_id=live.workflow_id if live else query.workflow_id,
        states=query.states,
        labels=labels,
        before=min(ends) if ends else None,
        since=ids.earliest(first - APART) if first else OLDEST,
        created_after=first,
        created_before=last,
        about=query.text or None,
        ids=ids.beginning_with(query.text) if query.text else None,
        retrying=query.retrying,
        label=next(((key[:INDEXED], value[:INDEXED]) for key, value in (query.labels or {}).items()), None),
        limit=limit,
    )


@dataclass(frozen=True, slots=True)
class RunBatch:
    """The changed runs and the number of older ones left. Pass `next` as `before` for the next batch; None: the end."""

    runs: list[UUID]
    left: int  # counted up to MOST_COUNTED
    next: UUID | None


async def matching(db: Tenant, query: RunQuery, move: RunMove) -> int:
    """Return how many runs all batches together would change, counted up to MOST_COUNTED."""
    return len(await _find(db, query, move, MOST_COUNTED))


async def cancel(
    db: Tenant, query: RunQuery, *, limit: int = 100, reason: str | None = None, compensate: bool = False
) -> RunBatch:
    """Cancel a batch of matching runs, all or none. A run that has ended meanwhile is left unchanged."""
    encode(reason, field="reason", limit=control.MAX_REASON)
    why = reason or "the run was cancelled"
    batch = await _batch(db, query, RunMove.CANCEL, limit)
    wakeups = Wakeups()
    async with db.begin() as conn:
        locked = [run for run in await store.lock(conn, batch) if run.state in LIVE]
        if locked:
            events = {run.id: [CancelRequested(Reason("cancelled", why), compensate)] for run in locked}
            wakeups = await settle(conn, db, locked, events, actor=db.actor)
        await audit.record(conn, db, "run.cancel", filter=audit.described(query), count=len(locked), reason=reason)
    wakeups.poke(db)
    return await _batch_done(db, query, RunMove.CANCEL, batch, [run.id for run in locked])


async def retry(db: Tenant, query: RunQuery, *, limit: int = 100) -> RunBatch:
    """Retry a batch of matching runs, all or none. Child runs are left out: their parents restart them."""
    batch = await _batch(db, query, RunMove.RETRY, limit)
    wakeups = Wakeups()
    async with db.begin() as conn:
        places = await control.Places.of(conn, db, batch)
        locked = [run for run in await store.lock(conn, batch) if (RunState(run.state), RunMove.RETRY) in RUN_EDGES]
        if locked:  # another session may have retried them first
            locked = await control.start_round(conn, db, locked, "retried", control.FAILED_AGAIN)
            events = {run.id: [RetryRequested(held=not places.take(run.workflow_id))] for run in locked}
            wakeups = await settle(conn, db, locked, events, actor=db.actor)
        await audit.record(conn, db, "run.retry", filter=audit.described(query), count=len(locked))
    wakeups.poke(db)
    return await _batch_done(db, query, RunMove.RETRY, batch, [run.id for run in locked])


async def _batch(db: Tenant, query: RunQuery, move: RunMove, limit: int) -> list[UUID]:
    check_range(limit, "limit", most=BATCH_LIMIT)
    return await _find(db, query, move, limit)


async def _find(db: Tenant, query: RunQuery, move: RunMove, limit: int) -> list[UUID]:
    allowed = [state.value for state, known in RUN_EDGES if known is move]
    for state in query.states or ():
        if state not in allowed:
            raise Invalid(f"state is {state!r}: only {' and '.join(allowed)} runs can be", field="status")
    async with db.begin() as conn:
        narrow = await narrowed(conn, db, replace(query, states=query.states or allowed), limit=limit)
        return await store.find(conn, narrow)


async def _batch_done(
    db: Tenant, query: RunQuery, move: RunMove, batch: Sequence[UUID], done: Sequence[UUID]
) -> RunBatch:
    if not batch:
        return RunBatch([], 0, None)
    left = await matching(db, replace(query, before=batch[-1]), move)
    return RunBatch(sorted(done, reverse=True), left, batch[-1] if left else None)


def _aware(moment: datetime | None) -> datetime | None:
    """Return the time in UTC, clamped so that adding or subtracting `APART` cannot overflow."""
    if moment is None:
        return None
    if moment.utcoffset() is None:
        raise Invalid(f"{moment.isoformat()} needs a time zone, for example a Z", field="created")
    try:
        return min(max(moment, FIRST), LAST).astimezone(UTC)
    except OverflowError:
        raise Invalid(f"{moment.isoformat()} is outside the range of timestamps", field="created") from None
