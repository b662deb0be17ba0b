"""Operations on jobs for producers and operators: submit, inspect, list, cancel, reopen, delete."""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from windlass.core.jobs.job import JobState
from windlass.core.jobs.spec import JobSpec, check_pattern, check_range
from windlass.core.json_value import encode, masked
from windlass.core.orgs import LABEL
from windlass.core.workflows.step_payload import HTTP_TYPE
from windlass.engine.database import Database, Tenant
from windlass.engine.jobs import types
from windlass.engine.jobs.new_jobs import insert, labelled, new_rows
from windlass.engine.orgs import audit, quota
from windlass.errors import Conflict, Duplicate, Invalid, NotFound, QuotaExceeded
from windlass.schemas.common import CREATE_LIMIT, PAGE_LIMIT
from windlass.store import checkpoints, claims
from windlass.store import events as event_store
from windlass.store import jobs as store
from windlass.store.claims import JobDetails
from windlass.store.events import Event, LinePlace, LogLine
from windlass.store.jobs import Filter, Job, NewJob
from windlass.store.postgres.pool import Connection, translated

__all__ = ["Event", "Job", "JobDetails", "LinePlace", "LogLine"]
MOST_LISTED = 100  # ids in an entry of the audit log
MAX_REASON = 8192
BEGINNING: LinePlace = (-1, 0, 0)


@dataclass(frozen=True, slots=True)
class Page:
    """A page of jobs, newest first. Pass `next` as `before` for the next page; None means the end."""

    jobs: list[Job]
    next: int | None


class Recorded(NamedTuple):
    ids: list[UUID]  # one for each job, in the same order
    new: AbstractSet[UUID]  # the ids that were inserted; the keys of the other jobs existed already


async def submit(
    db: Tenant,
    specs: Sequence[JobSpec],
    payloads: Sequence[Any] | None = None,
    *,
    connection: Connection | None = None,
) -> list[UUID]:
    """Record jobs, all or none, and return their ids; for a key that exists, the id of the job that has it.

    `payloads` replace those of the specs, so that many jobs can share a spec, which is then validated once. With
    `connection` the jobs become part of the caller's transaction.
    """
    return (await record(db, specs, payloads, connection=connection)).ids


async def record(
    db: Tenant,
    specs: Sequence[JobSpec],
    payloads: Sequence[Any] | None = None,
    *,
    connection: Connection | None = None,
    listed: bool = False,
) -> Recorded:
    """Record jobs; return their ids and which of them are new. `payloads` and `connection` as for `submit`.

    `listed`: errors name the job's index in the list.
    """
    if len(specs) > CREATE_LIMIT:
        raise Invalid(f"{len(specs)} jobs in one call, the limit is {CREATE_LIMIT}: submit in batches", field="jobs")
    specs = labelled(db, specs)
    rows = new_rows(db, specs, payloads, listed=listed)
    if not rows:
        return Recorded([], set())
    await types.check(db, rows, wait=connection is None, listed=listed or len(rows) > 1)
    if connection is not None:
        with translated():
            await _admit(db, rows, connection)
            return await _insert(connection, db, rows)
    if not quota.is_unlimited(db, db.org):
        await _admit(db, rows)
    # One statement, unless the labels of existing jobs have to be checked: then a refusal must roll back the insert.
    async with db.once() if db.label is None else db.begin() as conn:
        recorded = await _insert(conn, db, rows)
        # A single statement has committed by now: to poke before the connection is released saves 0.1 ms. Behind a
        # pooler the commit is still to come, but there are no notifications there, and a worker of this process polls.
        for queue in {row.options.queue for row in rows}:
            db.poke(queue)
    return recorded


async def _admit(db: Tenant, rows: Sequence[NewJob], connection: Connection | None = None) -> None:
    """Count the jobs against the plan. Jobs whose idempotency keys exist already are not new and are never refused."""
    try:
        await quota.admit(db, len(rows), connection)
    except QuotaExceeded:
        keys = [key for row in rows if (key := row.options.idempotency_key) is not None]
        if not keys:
            raise
        if connection is not None:
            known = await store.find_keys(connection, keys)
        else:
            async with db.once() as conn:
                known = await store.find_keys(conn, keys)
        await quota.admit(db, sum(row.options.idempotency_key not in known for row in rows), connection)


async def get(db: Tenant, id_: UUID) -> Job:
    """Return a job for display: secret headers of requests and responses are masked."""
    async with db.once() as conn:
        return _shown(await _known(conn, db, id_))


async def steps(db: Database, jobs: Iterable[Job]) -> dict[UUID, str]:
    """Return the step names of the jobs that are steps of runs, if their version can be read and has the step."""
    places = [(job.id, job.version_id, job.step) for job in jobs]
    versions = {version for _, version, _ in places if version is not None}
    if not versions:
        return {}
    async with db.once() as conn:
        known = await db.definitions.readable(conn, versions)
    return {
        id_: known[version].steps[step].name
        for id_, version, step in places
        if version is not None and step is not None and version in known and step < len(known[version].steps)
    }


async def list_(
    db: Tenant,
    *,
    statuses: Sequence[str] | None = None,
    queue: str | None = None,
    type_: str | None = None,
    tag: str | None = None,
    run: UUID | None = None,
    steps: bool = True,
    before: int | None = None,
    limit: int = 50,
) -> Page:
    """Return a page of jobs, newest first; without `steps`, only jobs that are not steps of runs."""
    check_range(limit, "limit", most=PAGE_LIMIT)
    if run is not None and not steps:
        raise Invalid("steps is false, but run selects the steps of a run: leave one of them out", field="steps")
    for status in statuses or ():
        if status not in set(JobState):
            raise Invalid(f"status is {status!r}: one of {', '.join(JobState)}", field="status")
    for name, value in (("queue", queue), ("type", type_), ("tag", tag)):
        encode(value, field=name)  # raise for a string that Postgres cannot store: it would match nothing
    check_pattern(type_, "type")
    if before is not None and not 0 <= before < 2**63:
        raise Invalid(f"before is {before}: pass the `next` of the previous page", field="before")
    filter_ = Filter(
        org=db.org,
        label=db.label,
        statuses=statuses,
        queue=queue,
        type=type_,
        tag=tag,
        run=run,
        steps=steps,
        before=before,
        limit=limit,
    )
    async with db.search("filter by type and status too, or continue from a page's `next`") as conn:
        jobs = [_shown(job) for job in await store.list_(conn, filter_)]
    return Page(jobs, jobs[-1].seq if len(jobs) == limit else None)


async def details(db: Tenant, id_: UUID) -> JobDetails:
    """Return a job with the times of its attempts."""
    async with db.once() as conn:
        job = await claims.details(conn, id_, org=db.org)
    if job is None:
        raise NotFound("job", id_)
    check_label(db, job.job)
    return job


async def activate(db: Tenant, id_: UUID) -> None:
    """Release a job that was submitted on hold."""
    async with db.begin() as conn:
        await _check_labels(conn, db, [id_])
        queue = await claims.activate(conn, id_, org=db.org)
        if queue is None:
            await _known(conn, db, id_)
            raise Conflict(f"job {id_} is not held back: only jobs that are held back can be activated")
    db.poke(queue)


def check_label(db: Tenant, job: Job) -> None:
    """Raise `NotFound` for a job with another label, as if it did not exist."""
    if db.label is not None and job.meta.get(LABEL) != db.label:
        raise NotFound("job", job.id)


async def cancel(db: Tenant, id_: UUID, *, reason: str | None = None) -> None:
    """Cancel a live job at once and notify the worker that holds it."""
    encode(reason, field="reason", limit=MAX_REASON)
    async with db.begin() as conn:
        await _check_labels(conn, db, [id_])
        if not await store.cancel(conn, [id_], org=db.org, actor=db.actor, reason=reason):
            await _refuse(conn, db, id_, "cancelled", "only pending and leased jobs can be")
        await audit.record(conn, db, "job.cancel", str(id_), reason=reason)
    db.poke("cancel", "settle")


async def reopen(db: Tenant, id_: UUID, *, fresh: bool = False) -> None:
    """Return a failed or cancelled job to its queue with its attempts reset; `fresh` also deletes its checkpoints."""
    async with db.begin() as conn:
        await _check_labels(conn, db, [id_])
        queues = await store.reopen(conn, [id_], org=db.org, actor=db.actor)
        if not queues:
            await _refuse(conn, db, id_, "retried", "only failed and cancelled jobs can be")
        if fresh:
            await checkpoints.remove(conn, id_)
        await audit.record(conn, db, "job.retry", str(id_))
    db.poke(queues[id_])


async def cancel_many(db: Tenant, ids: Sequence[UUID], *, reason: str | None = None) -> set[UUID]:
    """Cancel the live ones among these jobs, in one statement; return their ids."""
    async with db.begin() as conn:
        await _check_labels(conn, db, ids)
        ended = await store.cancel(conn, ids, org=db.org, actor=db.actor, reason=reason)
        await audit.record(conn, db, "job.cancel", count=len(ended), jobs=_listed(ended), reason=reason)
    db.poke("cancel", "settle")
    return ended


async def reopen_many(db: Tenant, ids: Sequence[UUID]) -> set[UUID]:
    """Reopen the failed and cancelled ones among these jobs, except steps of runs; return their ids."""
    async with db.begin() as conn:
        await _check_labels(conn, db, ids)
        queues = await store.reopen(conn, ids, org=db.org, actor=db.actor)
        await audit.record(conn, db, "job.retry", count=len(queues), jobs=_listed(queues))
    db.poke(*set(queues.values()))
    return set(queues)


async def delete(db: Tenant, id_: UUID) -> None:
    """Mark a job as deleted; a pending job is no longer claimed."""
    async with db.begin() as conn:
        await _check_labels(conn, db, [id_])
        if not await store.soft_delete(conn, [id_], org=db.org):
            raise NotFound("job", id_)
        await audit.record(conn, db, "job.delete", str(id_))
    db.poke("settle")


def _listed(ids: Iterable[UUID]) -> list[str]:
    """Return the first MOST_LISTED of these ids, sorted, for the audit log."""
    return [str(id_) for id_ in sorted(ids)[:MOST_LISTED]]


async def events(db: Tenant, id_: UUID, *, after: int = 0, limit: int = PAGE_LIMIT) -> list[Event]:
    """Return the events of a job after the event with the id `after`, oldest first."""
    check_range(limit, "limit", most=PAGE_LIMIT)
    async with db.begin() as conn:
        await _known(conn, db, id_)
        return await event_store.of_job(conn, id_, after=after, limit=limit)


async def logs(
    db: Tenant, id_: UUID, *, attempt: int | None = None, after: LinePlace = BEGINNING, limit: int | None = None
) -> list[LogLine]:
    """Return the lines that the handler logged after a position; all of them unless there is a limit."""
    async with db.begin() as conn:
        await _known(conn, db, id_)
        return await event_store.log_lines(conn, id_, attempt=attempt, after=after, limit=limit)


async def depth(db: Database, *, cap: int = 100_000) -> list[tuple[str, str, int]]:
    """Return (queue, type, number of due jobs), counted up to `cap` in each lane."""
    async with db.once() as conn:
        return await store.depth(conn, cap=cap)


async def live(db: Database) -> list[tuple[str, str]]:
    """Return (queue, type) of all jobs that are due or running."""
    async with db.once() as conn:
        return await store.live(conn)


async def _insert(conn: Connection, db: Tenant, rows: Sequence[store.NewJob]) -> Recorded:
    new, _ = await insert(conn, db, rows)
    if len(new) == len(rows):
        return Recorded([row.id for row in rows], new)
    keys = [key for row in rows if row.id not in new and (key := row.options.idempotency_key) is not None]
    known = await store.find_keys(conn, keys) if keys else {}
    # A job that the insert conflicted with may be removed before the lookup.
    if gone := [key for key in keys if key not in known]:
        raise Conflict(f"the job with key {gone[0]!r} was removed concurrently: submit again")
    if db.label is not None and known and await claims.unlabelled(conn, list(known.values()), db.label):
        raise Conflict(f"an idempotency key belongs to a job outside the tenant {db.label}: choose another")
    return Recorded([row.id if row.id in new else known[row.options.idempotency_key or ""] for row in rows], new)


def _shown(job: Job) -> Job:
    if job.type != HTTP_TYPE:
        return job
    return job._replace(payload=masked(job.payload), result=masked(job.result))


async def _known(conn: Connection, db: Tenant, id_: UUID) -> Job:
    job = await store.get(conn, id_, org=db.org)
    if job is None:
        raise NotFound("job", id_)
    check_label(db, job)
    return job


async def _check_labels(conn: Connection, db: Tenant, ids: Sequence[UUID]) -> None:
    """Raise `NotFound` if one of these jobs has another label, as if it did not exist."""
    if db.label is not None and (others := await claims.unlabelled(conn, ids, db.label)):
        raise NotFound("job", min(others))


async def _refuse(conn: Connection, db: Tenant, id_: UUID, word: str, rule: str) -> None:
    job = await _known(conn, db, id_)
    over = job.status in (JobState.FAILED, JobState.CANCELLED)
    if word == "retried" and over and (holder := await store.unique_holder(conn, id_, org=db.org)) is not None:
        raise Duplicate(
            f"job {id_} cannot be retried: job {holder} is live and has the same unique key; wait for it or cancel it",
            existing=holder,
        )
    if job.run_id is not None and word == "retried":
        raise Conflict(
            f"job {id_} is a step of run {job.run_id}: once it has ended, use windlass runs retry {job.run_id}"
        )
    raise Conflict(f"job {id_} is {job.status} and cannot be {word}: {rule}")
