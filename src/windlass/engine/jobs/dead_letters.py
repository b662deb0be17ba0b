"""Dead letters: jobs that failed permanently and were not reopened. Groups them by error; retries or drops batches.

Steps of runs are included, but a step is retried by retrying its run, and is removed with its run.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from windlass.core.jobs.spec import check_pattern, check_range
from windlass.core.json_value import encode
from windlass.engine.database import MOST_COUNTED, Tenant
from windlass.engine.jobs.control import Page
from windlass.engine.orgs import audit
from windlass.engine.runs import control as runs
from windlass.errors import Conflict, Invalid, NotFound
from windlass.schemas.common import BATCH_LIMIT, PAGE_LIMIT
from windlass.store import dead_letters as store
from windlass.store import jobs
from windlass.store.dead_letters import Dead, Group, Kinds
from windlass.store.jobs import Job

__all__ = ["Group"]


@dataclass(frozen=True, slots=True)
class DeadLetterFilter:
    """A filter for dead letters: all conditions must hold. `error` is the common error of a group."""

    type: str | None = None  # a LIKE pattern
    queue: str | None = None
    error: str | None = None
    of_runs: bool | None = None
    before: int | None = None


@dataclass(frozen=True, slots=True)
class GroupPage:
    """A page of groups, latest failure first. Pass `next` as `before` for the next page; None means the end."""

    groups: list[Group]
    next: int | None


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The jobs and runs that were changed. Pass `next` as `before` for the next batch; None means the end."""

    jobs: list[UUID]
    runs: list[UUID]  # retried because of their steps
    left: int  # counted up to MOST_COUNTED
    next: int | None


async def groups(db: Tenant, filter_: DeadLetterFilter | None = None, *, limit: int = 50) -> GroupPage:
    check_range(limit, "limit", most=PAGE_LIMIT)
    kinds = _kinds(db, filter_ or DeadLetterFilter())
    async with db.search("filter by type too") as conn:
        rows = await store.groups(conn, kinds, limit=limit, cap=MOST_COUNTED)
    return GroupPage(rows, rows[-1].seq if len(rows) == limit else None)


async def list_(db: Tenant, filter_: DeadLetterFilter, *, limit: int = 50) -> Page:
    check_range(limit, "limit", most=PAGE_LIMIT)
    async with db.search("filter by type too") as conn:
        rows = await store.list_(conn, _kinds(db, filter_), limit=limit)
    return Page(rows, rows[-1].seq if len(rows) == limit else None)


async def list_by_queue(db: Tenant, *, queue: str | None, limit: int, offset: int) -> tuple[list[Job], int]:
    """Return a page of dead letters, latest first, and their total number: at most 10,000, and 0 for an empty page."""
    async with db.once() as conn:
        return await store.list_by_queue(conn, org=db.org, queue=queue, limit=limit, offset=offset)


async def check(db: Tenant, id_: UUID) -> None:
    """Raise `NotFound` if this job is not a dead letter."""
    async with db.once() as conn:
        if not await store.exists(conn, id_, org=db.org):
            raise NotFound("dead letter", id_)


async def matching(db: Tenant, filter_: DeadLetterFilter) -> int:
    """Return the number of matching jobs, counted up to MOST_COUNTED."""
    return len(await _find(db, filter_, MOST_COUNTED))


async def retry(db: Tenant, filter_: DeadLetterFilter, *, limit: int = 100) -> BatchResult:
    """Reopen a batch of jobs, all or none, and retry the runs of its steps, each in its own transaction.

    A run that cannot be retried (it is still live, or succeeded in spite of the failure) is left unchanged. The audit
    log has an entry with the number of the reopened jobs, and one for each run.
    """
    batch = await _batch(db, filter_, limit)
    async with db.begin() as conn:
        ids = [dead.id for dead in batch if dead.run_id is None]
        queues = await jobs.reopen(conn, ids, org=db.org, actor=db.actor) if ids else {}
        await audit.record(conn, db, "dead_letter.retry", filter=audit.described(filter_), count=len(queues))
    db.poke(*set(queues.values()))
    retried = []
    for id_ in dict.fromkeys(dead.run_id for dead in batch if dead.run_id is not None):
        try:
            await runs.retry(db, id_)
        except (Conflict, NotFound):
            continue
        retried.append(id_)
    return await _batch_result(db, filter_, batch, [id_ for id_ in ids if id_ in queues], retried)


async def drop(db: Tenant, filter_: DeadLetterFilter, *, limit: int = 100) -> BatchResult:
    """Mark a batch of jobs as deleted, all or none. Steps are kept: they are removed with their runs."""
    filter_ = droppable(filter_)
    batch = await _batch(db, filter_, limit)
    async with db.begin() as conn:
        gone = await jobs.soft_delete(conn, [dead.id for dead in batch], org=db.org) if batch else set()
        await audit.record(conn, db, "dead_letter.drop", filter=audit.described(filter_), count=len(gone))
    return await _batch_result(db, filter_, batch, [dead.id for dead in batch if dead.id in gone], [])


def droppable(filter_: DeadLetterFilter) -> DeadLetterFilter:
    if filter_.of_runs:
        raise Invalid("of_runs is true: steps are not dropped, they are deleted with their runs", field="of_runs")
    return replace(filter_, of_runs=False)


async def _batch(db: Tenant, filter_: DeadLetterFilter, limit: int) -> list[Dead]:
    check_range(limit, "limit", most=BATCH_LIMIT)
    return await _find(db, filter_, limit)


async def _find(db: Tenant, filter_: DeadLetterFilter, limit: int) -> list[Dead]:
    async with db.once() as conn:
        return await store.find(conn, _kinds(db, filter_), limit=limit)


async def _batch_result(
    db: Tenant, filter_: DeadLetterFilter, batch: Sequence[Dead], done: list[UUID], retried: list[UUID]
) -> BatchResult:
    if not batch:
        return BatchResult([], [], 0, None)
    left = await matching(db, replace(filter_, before=batch[-1].seq))
    return BatchResult(done, retried, left, batch[-1].seq if left else None)


def _kinds(db: Tenant, filter_: DeadLetterFilter) -> Kinds:
    for name, value in (("type", filter_.type), ("queue", filter_.queue), ("error", filter_.error)):
        encode(value, field=name)  # raise for a string that Postgres cannot store: it would match nothing
    check_pattern(filter_.type, "type")
    return Kinds(
        org=db.org,
        type=filter_.type,
        queue=filter_.queue,
        error=filter_.error,
        of_run=filter_.of_runs,
        before=filter_.before,
    )
