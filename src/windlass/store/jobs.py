"""Statements on the job table, in batches, except claims. The rules are in core and engine."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any, NamedTuple
from uuid import UUID

import asyncpg

from windlass.core.jobs.job import TERMINAL, Fence, Gap, JobState, Setback, Success
from windlass.core.json_value import decode, decode_object, decode_objects, encode
from windlass.core.orgs import DEFAULT_ORG, shown, stored
from windlass.store import archive
from windlass.store.postgres.pool import Connection
from windlass.store.postgres.queries import column, columns, mapping, statements, without_conflicts

_SQL = statements("jobs")
_job_id = attrgetter("job.id")  # of a report: rows are locked in this order, so that batches cannot deadlock
# With `on conflict` each insert is speculative and has two steps. Rows without keys cannot conflict.
_INSERT_WITHOUT_KEYS = without_conflicts(_SQL["insert"])

FAR = datetime.max.replace(tzinfo=UTC)  # Postgres's infinity, which the driver returns without a time zone


class Job(NamedTuple):
    """A job, as it is displayed. A tuple for speed: an HTTP worker fetches a thousand, and each field of a frozen
    dataclass costs a call."""

    id: UUID
    type: str
    status: JobState
    payload: Any
    result: Any
    queue: str
    priority: int
    attempt: int
    lost: int
    max_attempts: int
    claim_no: int  # of its latest claim: the fence
    run_at: datetime
    created_at: datetime
    updated_at: datetime
    leased_by: str | None
    lease_until: datetime | None
    last_error: str | None
    errors: list[dict[str, Any]]
    idempotency_key: str | None
    timeout: timedelta | None
    retry: dict[str, Any] | None
    tags: list[str]
    meta: dict[str, Any]
    seq: int
    epoch: int
    run_id: UUID | None  # set for a step job
    step: int | None
    item: int | None
    cancel_requested: bool
    version_id: int | None  # of the run's workflow
    envelope: dict[str, Any] | None  # attributes that an API (such as OJS) stores with the job
    expires_at: datetime | None  # the job fails if it has not started by then

    @property
    def client_id(self) -> str:
        """The id that the client chose for the job, or else its own id."""
        alias = (self.envelope or {}).get("alias")
        return alias if isinstance(alias, str) and alias else str(self.id)


class JobOptions(NamedTuple):
    """The columns of a new job that other jobs may share. Values of jsonb columns are JSON strings, and `queue` is the
    stored name."""

    type: str
    queue: str
    priority: int
    run_at: datetime | None
    delay: timedelta | None
    max_attempts: int
    timeout: timedelta | None
    retry: str | None
    idempotency_key: str | None  # prefixed with the org, like the other keys
    tags: str | None
    meta: str | None
    envelope: str | None
    expires_at: datetime | None
    unique_key: str | None
    visibility: timedelta | None
    rate_key: str | None


class NewJob(NamedTuple):
    """A row to insert. Jobs with equal options share the object, which makes a large batch cheaper."""

    id: UUID
    payload: str  # JSON
    options: JobOptions


class Inserted(NamedTuple):
    ids: set[UUID]
    created_at: datetime


ENVELOPE = JobOptions._fields.index("envelope")  # the options from this one on are parameters after org and actor
KEY = JobOptions._fields.index("idempotency_key")
# Columns that are sent as one value if it is the same in the whole batch.
SHARED = [JobOptions._fields.index(name) for name in ("type", "queue", "priority", "max_attempts", "retry")]


class HeldLease(NamedTuple):
    """A lease that a worker still holds."""

    job_id: UUID
    claim_no: int
    cancel_requested: bool  # the run was cancelled: the handler should stop
    extended: bool  # by this heartbeat, or with the lease of the worker

    @property
    def fence(self) -> Fence:
        return self.job_id, self.claim_no


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    org: str
    label: str | None = None
    statuses: Sequence[str] | None = None
    queue: str | None = None
    type: str | None = None  # a LIKE pattern
    tag: str | None = None
    run: UUID | None = None
    steps: bool = True  # False: without the jobs of steps of runs
    before: int | None = None
    limit: int = 50


async def insert(conn: Connection, rows: Sequence[NewJob], *, org: str, actor: str) -> Inserted:
    """Insert jobs, except those whose idempotency keys exist."""
    ids, payloads, options = zip(*rows, strict=True)
    arrays, (*shared, retry) = _option_columns(options)
    types, *common = arrays[:ENVELOPE]
    arguments = (ids, types, payloads, *common, org, actor, *shared, *arrays[ENVELOPE:], retry)
    statement = _SQL["insert"] if arrays[KEY] else _INSERT_WITHOUT_KEYS
    [(created_at, inserted)] = await conn.fetch(statement, *arguments)
    return Inserted(set(ids) if inserted is None else set(inserted), created_at)


def _option_columns(options: Sequence[JobOptions]) -> tuple[list[list[Any] | None], list[Any]]:
    """Return the options of jobs as columns, without those that are sent as one value; and these values."""
    first, count = options[0], len(options)
    if options.count(first) == count:
        arrays: list[list[Any] | None] = [None if value is None else [value] * count for value in first]
    else:
        arrays = columns(options)
    shared: list[Any] = []
    for n in SHARED:
        values = arrays[n]
        shared.append(values[0] if values is not None and values.count(values[0]) == count else None)
        if shared[-1] is not None:
            arrays[n] = None
    return arrays, shared


async def find_keys(conn: Connection, keys: Sequence[str]) -> dict[str, UUID]:
    return mapping(await conn.fetch(_SQL["find_keys"], list(keys)))


async def lock(conn: Connection, ids: Iterable[UUID]) -> None:
    """Lock jobs in the order of their ids, before several statements of one transaction update them.

    Each statement locks its own rows by id, but several together do not keep that order: transactions could deadlock.
    """
    await conn.execute(_SQL["lock"], list(ids))


async def succeed(
    conn: Connection, reports: Sequence[Success], *, worker: str, holders: Mapping[UUID, str] | None = None
) -> set[UUID]:
    """Record successes, fenced; return the ids of the recorded jobs.

    `holders` maps job ids to lease holders if not all jobs are leased by `worker`.
    """
    ids, fences, results = successes_by_id(reports)
    whose = [holders[id_] for id_ in ids] if holders else []
    return set(column(await conn.fetch(_SQL["succeed"], ids, fences, results, worker, whose)))


def successes_by_id(reports: Sequence[Success]) -> tuple[list[UUID], list[int], list[str]]:
    """Return the ids, fences and results as columns, in ascending id."""
    reports = sorted(reports, key=_job_id)
    return (
        [report.job.id for report in reports],
        [report.job.claim_no for report in reports],
        [report.result for report in reports],
    )


async def set_back(
    conn: Connection, reports: Sequence[Setback], *, worker: str, holders: Mapping[UUID, str] | None = None
) -> dict[UUID, str]:
    """Record failures, retries and releases, fenced; return the new states of the recorded jobs."""
    reports = sorted(reports, key=_job_id)
    rows = await conn.fetch(
        _SQL["set_back"],
        [report.job.id for report in reports],
        [report.job.claim_no for report in reports],
        [report.move.value for report in reports],
        [encode(report.error, field="error") if report.error else None for report in reports],
        [report.delay for report in reports],
        [report.result for report in reports],
        worker,
        [report.dead_letter or None for report in reports],
        [holders[report.job.id] for report in reports] if holders else [],
    )
    return mapping(rows)


async def heartbeat(conn: Connection, claims: Iterable[Fence], *, worker: str, lease: timedelta) -> list[HeldLease]:
    """Extend the leases of single jobs; return those that are still held."""
    return list(map(HeldLease._make, await conn.fetch(_SQL["heartbeat"], *_columns(claims), worker, lease)))


async def held(conn: Connection, claims: Iterable[Fence], *, worker: str) -> list[HeldLease]:
    return list(map(HeldLease._make, await conn.fetch(_SQL["held"], *_columns(claims), worker)))


async def find_ripe(conn: Connection, *, limit: int) -> list[UUID]:
    return column(await conn.fetch(_SQL["find_ripe"], limit))


async def find_unlogged(conn: Connection, *, limit: int) -> list[UUID]:
    return column(await conn.fetch(_SQL["find_unlogged"], limit))


async def log_created(conn: Connection, batch: int, *, only: Sequence[UUID] | None = None) -> list[UUID]:
    return column(await conn.fetch(_SQL["log_created"], batch, only))


async def find_expired(conn: Connection, *, limit: int) -> list[UUID]:
    return column(await conn.fetch(_SQL["find_expired"], limit))


async def become_due(conn: Connection, batch: int, *, only: Sequence[UUID] | None = None) -> list[str]:
    """Make scheduled jobs due; return their queues, one entry per job."""
    return column(await conn.fetch(_SQL["become_due"], batch, only))


async def release_expired(
    conn: Connection,
    batch: int,
    *,
    actor: str,
    gaps: Sequence[Gap] = (),
    answered_at: datetime | None = None,
    only: Sequence[UUID] | None = None,
) -> list[tuple[UUID, str]]:
    """Release jobs with expired leases; return their ids and new states."""
    since, until = [gap.since for gap in gaps], [gap.until for gap in gaps]
    rows = await conn.fetch(_SQL["release_expired"], batch, actor, since, until, answered_at, only)
    return [(row[0], row[1]) for row in rows]


async def cancel(conn: Connection, ids: Sequence[UUID], *, org: str, actor: str, reason: str | None) -> set[UUID]:
    return set(column(await conn.fetch(_SQL["cancel"], list(ids), org, actor, reason)))


async def reopen(conn: Connection, ids: Sequence[UUID], *, org: str, actor: str) -> dict[UUID, str]:
    """Reopen the given jobs that may be reopened; return their queues by id. Needs a transaction: archived jobs are
    restored and unique keys are locked first."""
    await archive.restore_jobs(conn, ids, org=org)
    await conn.execute(_SQL["lock_unique"], list(ids), org)
    return mapping(await conn.fetch(_SQL["reopen"], list(ids), org, actor))


async def unique_holder(conn: Connection, id_: UUID, *, org: str) -> UUID | None:
    holder: UUID | None = await conn.fetchval(_SQL["unique_holder"], id_, org)
    return holder


async def soft_delete(conn: Connection, ids: Sequence[UUID], *, org: str) -> set[UUID]:
    return set(column(await conn.fetch(_SQL["soft_delete"], list(ids), org)))


async def get(conn: Connection, id_: UUID, *, org: str) -> Job | None:
    row = await conn.fetchrow(_SQL["get"], id_, org)
    return job(row) if row else None


async def list_(conn: Connection, filter_: Filter) -> list[Job]:
    statuses = list(filter_.statuses) if filter_.statuses else None
    before = 2**62 if filter_.before is None else filter_.before
    queue = filter_.queue and stored(filter_.org, filter_.queue)
    arguments = (filter_.org, statuses, queue, filter_.type, before, filter_.limit, filter_.tag)
    if filter_.run is not None:
        rows = await conn.fetch(_SQL["list_of_run"], *arguments, filter_.run, filter_.label)
    elif filter_.org != DEFAULT_ORG:
        query = "list_of_org" if statuses is None or TERMINAL.intersection(statuses) else "list_live_of_org"
        rows = await conn.fetch(_SQL[query], *arguments, filter_.steps, filter_.label)
    elif filter_.label is not None:
        rows = await conn.fetch(_SQL["list_of_label"], *arguments, filter_.steps, filter_.label)
    else:
        rows = await conn.fetch(_SQL["list"], *arguments, filter_.steps)
    return [job(row) for row in rows]


async def list_held(conn: Connection, worker: str, *, org: str, limit: int) -> list[Job]:
    return [job(row) for row in await conn.fetch(_SQL["list_held"], worker, org, limit)]


async def prune(conn: Connection, *, age: timedelta, batch: int) -> int:
    count: int = await conn.fetchval(_SQL["prune"], age, batch)
    return count


async def depth(conn: Connection, *, cap: int) -> list[tuple[str, str, int]]:
    return [(row[0], row[1], row[2]) for row in await conn.fetch(_SQL["depth"], cap)]


async def live(conn: Connection) -> list[tuple[str, str]]:
    return [(row[0], row[1]) for row in await conn.fetch(_SQL["live"])]


def _columns(claims: Iterable[Fence]) -> tuple[list[UUID], list[int]]:
    claims = sorted(claims)
    return [id_ for id_, _ in claims], [claim_no for _, claim_no in claims]


def job(row: asyncpg.Record) -> Job:
    return Job(
        id=row["id"],
        type=row["type"],
        status=JobState(row["status"]),
        payload=decode(row["payload"]),
        result=decode(row["result"]),
        queue=shown(row["org"], row["queue"]),
        priority=row["priority"],
        attempt=row["attempt"],
        lost=row["lost"],
        max_attempts=row["max_attempts"],
        claim_no=row["claim_no"],
        run_at=row["run_at"] if row["run_at"].tzinfo else FAR,
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        leased_by=row["leased_by"] and shown(row["org"], row["leased_by"]),
        lease_until=row.get("worker_until") or row["lease_until"],
        last_error=row["last_error"],
        errors=decode_objects(row["errors"]),
        idempotency_key=row["idempotency_key"],
        timeout=row["timeout"],
        retry=decode_object(row["retry"]),
        tags=list(row["tags"] or ()),
        meta=decode_object(row["meta"]) or {},
        seq=row["seq"],
        epoch=row["epoch"],
        run_id=row["run_id"],
        step=row["step"],
        item=row["item"],
        cancel_requested=row["cancel_requested"],
        version_id=row["version_id"],
        envelope=decode_object(row["envelope"]),
        expires_at=row["expires_at"],
    )
