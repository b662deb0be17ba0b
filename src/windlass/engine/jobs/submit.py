"""Submits jobs: with the defaults of their handler, a unique key, a rate limit or an id chosen by the client.

Unique keys are locked until the end of the transaction, so exactly one of any number of concurrent producers wins.
"""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from windlass.core.jobs.job import JobState
from windlass.core.jobs.retry import Retry
from windlass.core.jobs.spec import DEFAULT_PRIORITY, JobSpec, OnConflict
from windlass.core.orgs import LABEL
from windlass.effects.handlers import Handlers
from windlass.engine.database import Tenant
from windlass.engine.jobs.new_jobs import insert, labelled, new_rows
from windlass.engine.orgs import quota
from windlass.errors import Conflict, Duplicate, Invalid
from windlass.schemas.common import CREATE_LIMIT
from windlass.store import claims
from windlass.store import jobs as store
from windlass.store.claims import KeyOwner
from windlass.store.jobs import FAR, Job, NewJob
from windlass.store.postgres.pool import Connection

REPLACING = (OnConflict.REPLACE, OnConflict.REPLACE_EXCEPT_SCHEDULE)
REPLACED = "a job with the same unique key replaced it"


@dataclass(frozen=True, slots=True)
class Pushed:
    """A job as recorded. `existed`: it is an earlier job with the same unique key."""

    job: Job
    existed: bool = False


def job_spec(
    handlers: Handlers,
    type: str,  # noqa: A002 - the domain's word
    payload: Any = None,
    *,
    queue: str | None = None,
    priority: int = DEFAULT_PRIORITY,
    run_at: datetime | None = None,
    delay: timedelta | float | None = None,
    max_attempts: int | None = None,
    retry: Retry | None = None,
    timeout: timedelta | float | None = None,
    idempotency_key: str | None = None,
    tags: Sequence[str] = (),
    meta: Mapping[str, Any] | None = None,
) -> JobSpec:
    """Return the spec of a job, with the defaults that the handler of its type declares."""
    handler = handlers.find(type) if isinstance(type, str) else None
    if queue is None:
        queue = handler.queue if handler else "default"
    if max_attempts is None:
        max_attempts = handler.max_attempts if handler else 3
    return JobSpec(
        type=type,
        payload={} if payload is None else payload,
        queue=queue,
        priority=priority,
        run_at=run_at,
        delay=as_timedelta(delay, "delay"),
        max_attempts=max_attempts,
        retry=retry,
        timeout=as_timedelta(timeout),
        idempotency_key=idempotency_key,
        tags=tags,
        meta=meta,
    )


def complete(
    handlers: Handlers, jobs: Iterable[JobSpec | Mapping[str, Any]]
) -> tuple[Sequence[JobSpec], Sequence[Any]]:
    """Return the specs and the payloads of jobs. Consecutive jobs that differ only in their payloads share a spec."""
    specs: list[JobSpec] = []
    payloads: list[Any] = []
    shared: Mapping[str, Any] | None = None
    for job in jobs:
        if isinstance(job, JobSpec):
            specs.append(job)
            payloads.append(job.payload)
            continue
        options = {**job}
        payload = options.pop("payload", None)
        if shared is None or not _is_equal(options, shared):
            shared, spec = options, job_spec(handlers, **options)
        specs.append(spec)
        payloads.append({} if payload is None else payload)
    return specs, payloads


def _is_equal(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    try:
        return bool(one == other)
    except Exception:  # the `__eq__` of a value may raise: then the options count as different
        return False


def as_timedelta(value: timedelta | float | None, field: str = "timeout") -> timedelta | None:
    """Convert a duration, given as a timedelta or in seconds, to a timedelta."""
    if value is None or isinstance(value, timedelta):
        return value
    with contextlib.suppress(TypeError, OverflowError, ValueError):
        return timedelta(seconds=value)
    raise Invalid(f"{field} is {value!r}: it must be a timedelta or a number of seconds", field=field)


async def push(db: Tenant, specs: Sequence[JobSpec]) -> list[Pushed]:
    """Record jobs, all or none."""
    if len(specs) > CREATE_LIMIT:
        raise Invalid(f"{len(specs)} jobs in one call, the limit is {CREATE_LIMIT}: push in batches", field="jobs")
    specs = labelled(db, specs)
    rows = new_rows(db, specs)
    if not rows:
        return []
    if not quota.is_unlimited(db, db.org):
        await quota.admit(db, len(rows))
    plain = not any(spec.unique or spec.limit for spec in specs)
    async with db.once() if plain else db.begin() as conn:
        pushed = await (_insert(conn, db, rows, specs) if plain else _push(conn, db, rows, specs))
    if any(each.existed and db.label not in (None, each.job.meta.get(LABEL)) for each in pushed):
        raise Conflict("a job of another tenant has this unique key")
    db.poke(*{db.stored(each.job.queue) for each in pushed if not each.existed})
    if any(spec.unique and spec.unique.on_conflict in REPLACING for spec in specs):
        db.poke("cancel", "settle")
    return pushed


async def include(conn: Connection, db: Tenant, specs: Sequence[JobSpec]) -> list[Pushed]:
    """Record jobs in the caller's transaction; the caller pokes their queues after the commit."""
    if not specs:
        return []
    specs = labelled(db, specs)
    rows = new_rows(db, specs)
    await quota.admit(db, len(rows), conn)
    return await _push(conn, db, rows, specs)


async def _push(conn: Connection, db: Tenant, rows: Sequence[NewJob], specs: Sequence[JobSpec]) -> list[Pushed]:
    # Unique keys before the rows of rate limits, as compositions do: the other order would deadlock with them.
    existing, specs = await _resolve_conflicts(conn, db, specs)
    if limits := [(f"{db.org}/{spec.limit.key}", spec.limit) for spec in specs if spec.limit]:
        await claims.put_rate_limits(conn, limits)
    taken: dict[str, int] = {}  # index of the first job of this batch with each unique key
    new: list[int] = []
    for n, spec in enumerate(specs):
        if spec.unique and spec.unique.key in taken and spec.unique.on_conflict is not OnConflict.IGNORE:
            raise Duplicate(f"job {n + 1} of this batch has the unique key of an earlier one", existing=None)
        if n not in existing and not (spec.unique and spec.unique.key in taken):
            new.append(n)
        if spec.unique:
            taken.setdefault(spec.unique.key, n)
    rows = [_timed(rows[n], specs[n]) for n in new]
    born = await _insert(conn, db, rows, [specs[n] for n in new]) if new else []
    made = dict(zip(new, born, strict=True))
    known = await claims.read(conn, list(existing.values())) if existing else {}
    pushed: list[Pushed] = []
    for n, spec in enumerate(specs):
        if n in made:
            pushed.append(made[n])
        elif n in existing:
            pushed.append(Pushed(known[existing[n]], True))
        else:
            assert spec.unique is not None
            pushed.append(replace(pushed[taken[spec.unique.key]], existed=True))
    return pushed


async def _resolve_conflicts(
    conn: Connection, db: Tenant, specs: Sequence[JobSpec]
) -> tuple[dict[int, UUID], list[JobSpec]]:
    """Lock the unique keys and resolve conflicts; return the existing jobs to keep, by index, and the updated specs."""
    keys = [(f"{db.org}/{spec.unique.key}", spec.unique) for spec in specs if spec.unique]
    if not keys:
        return {}, list(specs)
    await claims.lock_keys(conn, [key for key, _ in keys])
    owners = await claims.find_unique(conn, keys)
    existing: dict[int, UUID] = {}
    after = list(specs)
    for n, spec in enumerate(specs):
        owner = owners.get(f"{db.org}/{spec.unique.key}") if spec.unique else None
        if owner is None or spec.unique is None:
            continue
        if owner.id is None:  # there is no job yet to return or to cancel
            raise Duplicate(f"a waiting step of workflow {owner.workflow} has the same unique key", existing=None)
        match spec.unique.on_conflict:
            case OnConflict.IGNORE:
                existing[n] = owner.id
            case OnConflict.REJECT:
                raise Duplicate(f"job {owner.id} has the same unique key", existing=owner.id)
            case OnConflict.REPLACE | OnConflict.REPLACE_EXCEPT_SCHEDULE:
                await store.cancel(conn, [owner.id], org=db.org, actor=db.actor, reason=REPLACED)
                after[n] = _replacing(owner, spec)
    return existing, after


def _replacing(owner: KeyOwner, spec: JobSpec) -> JobSpec:
    if spec.unique and spec.unique.on_conflict is OnConflict.REPLACE_EXCEPT_SCHEDULE and owner.status == "pending":
        return replace(spec, run_at=owner.run_at, delay=None)
    return spec


def _timed(row: NewJob, spec: JobSpec) -> NewJob:
    """Return the row with the start time of the spec, which may be that of the job it replaces."""
    options = row.options._replace(run_at=FAR if spec.held else spec.run_at, delay=spec.delay)
    return row._replace(options=options)


async def _insert(conn: Connection, db: Tenant, rows: Sequence[NewJob], specs: Sequence[JobSpec]) -> list[Pushed]:
    _, created_at = await insert(conn, db, rows)
    return [Pushed(_job(row, spec, created_at)) for row, spec in zip(rows, specs, strict=True)]


def _job(row: NewJob, spec: JobSpec, created_at: datetime) -> Job:
    """Return the job as it was written, without reading it back."""
    run_at = row.options.run_at or (created_at + spec.delay if spec.delay else created_at)
    meta: Mapping[str, object] = spec.meta or {}
    return Job(
        id=row.id, type=spec.type, status=JobState.PENDING, payload=spec.payload, result=None, queue=spec.queue,
        priority=spec.priority, attempt=0, lost=0, max_attempts=spec.max_attempts, claim_no=0, run_at=run_at,
        created_at=created_at, updated_at=created_at, leased_by=None, lease_until=None, last_error=None, errors=[],
        idempotency_key=row.options.idempotency_key, timeout=spec.timeout,
        retry=spec.retry.to_json() if spec.retry else None, tags=list(spec.tags), meta=dict(meta), seq=0,
        epoch=0, run_id=None, version_id=None, step=None, item=None, cancel_requested=False,
        envelope=dict(spec.envelope) if spec.envelope else None, expires_at=spec.expires_at,
    )  # fmt: skip
