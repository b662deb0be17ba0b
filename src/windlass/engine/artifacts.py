"""Artifacts: files that handlers write to the object store, for later steps and for users.

The row is written before the object and completed after it: an object without a row cannot exist, so all objects are
deleted with their job. Only the current claim of a job may add artifacts to it.
"""

import logging
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from uuid import UUID

from windlass.core.artifacts import (
    BEGINNING,
    MAX_BYTES,
    MAX_PER_ATTEMPT,
    Artifact,
    Place,
    Reference,
    check_media_type,
    is_name,
    object_key,
)
from windlass.core.jobs.job import Claimed
from windlass.core.jobs.spec import check_range
from windlass.effects.artifacts import Source
from windlass.engine.database import Database, Tenant
from windlass.engine.jobs import control as jobs
from windlass.engine.runs import control as runs
from windlass.errors import Invalid, LeaseLost, NotFound
from windlass.schemas.common import PAGE_LIMIT
from windlass.store.outputs import artifacts as store
from windlass.store.outputs.artifacts import Removable

AGAIN_AFTER = timedelta(minutes=10)  # delay before the deletion of an object is retried
MOST_FAILURES = 3  # consecutive: then the store is considered unavailable, and the rest is postponed
_log = logging.getLogger("windlass.artifacts")


async def upload(db: Database, key: str, chunks: AsyncIterator[bytes], *, most: int = MAX_BYTES) -> int:
    """Write the object of a reserved artifact and return its size."""
    source = Source(chunks, most)
    await source.write(db.objects(), key)
    return source.size


async def reserve(db: Database, job: Claimed, reference: Reference, *, media_type: str) -> str:
    """Record an artifact that is about to be written, and return its key in the object store."""
    key = object_key(reference, job.number, job.claim_no)
    async with db.once() as conn:
        held, made = await store.reserve(
            conn,
            job.id,
            job.claim_no,
            reference,
            attempt=job.number,
            key=key,
            media_type=check_media_type(media_type),
            most=MAX_PER_ATTEMPT,
        )
    if not held:
        raise LeaseLost(job.id)
    if not made:
        raise Invalid(
            f"this attempt has {MAX_PER_ATTEMPT} artifacts, which is the limit: put several files into one",
            field="name",
        )
    return key


async def complete(db: Database, job: Claimed, reference: Reference, size: int) -> None:
    async with db.once() as conn:
        if not await store.complete(conn, job.id, job.claim_no, reference.name, size):
            raise LeaseLost(job.id)


async def find(db: Tenant, reference: Reference, *, attempt: int | None = None, only_result: bool = False) -> Artifact:
    """Return an artifact of an attempt: by default the one that succeeded or, unless `only_result`, else the latest."""
    artifact = None
    if is_name(reference.name):  # Postgres may reject other strings
        async with db.once() as conn:
            artifact = await store.find(conn, reference, org=db.org, attempt=attempt, only_result=only_result)
    if artifact is None:
        raise NotFound("artifact", ascii(str(reference))[1:-1])
    return artifact


async def of_run(
    db: Tenant, run: UUID, *, step: str | None = None, after: Place = BEGINNING, limit: int = 100
) -> list[Artifact]:
    """List the artifacts of a run, or of one of its steps, from all attempts."""
    check_range(limit, "limit", most=PAGE_LIMIT)
    async with db.begin() as conn:
        _, workflow = await runs.load(conn, db, run)
        if step is not None:
            runs.step_number(workflow, step)
        return await store.list_(conn, run, org=db.org, step=step, after=after, limit=limit)


async def of_step(
    db: Tenant, run: UUID, step: str, name: str, *, index: int = 0, attempt: int | None = None
) -> Artifact:
    """Return an artifact of a step: of the given attempt; by default of the one that succeeded, else of the latest."""
    async with db.begin() as conn:
        _, workflow = await runs.load(conn, db, run)
        runs.step_number(workflow, step)
    return await find(db, Reference(run, step, index, name), attempt=attempt)


async def list_of_job(
    db: Tenant, job: UUID, *, after: Place = BEGINNING, limit: int = 100
) -> tuple[UUID, list[Artifact]]:
    """Return the run of a job (or the job's own id if it is not a step) and its artifacts from all attempts."""
    check_range(limit, "limit", most=PAGE_LIMIT)
    row = await jobs.get(db, job)
    async with db.once() as conn:
        return row.run_id or row.id, await store.list_of_job(conn, job, org=db.org, after=after, limit=limit)


async def find_of_job(db: Tenant, job: UUID, name: str, *, attempt: int | None = None) -> Artifact:
    """Return an artifact of a job: of the given attempt; by default of the one that succeeded, else of the latest."""
    await jobs.get(db, job)
    artifact = None
    if is_name(name):
        async with db.once() as conn:
            artifact = await store.find_of_job(conn, job, name, org=db.org, attempt=attempt)
    if artifact is None:
        raise NotFound("artifact", ascii(name)[1:-1])
    return artifact


async def read(db: Database, artifact: Artifact, *, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
    """Yield the content of an artifact, or a part of it."""
    async for chunk in db.objects().stream(artifact.key, start=start, end=end):
        yield chunk


async def list_(
    db: Tenant, run: UUID, *, step: str | None = None, after: Place = BEGINNING, limit: int = 100
) -> list[Artifact]:
    """List the artifacts of a run, or of a job that is not a step of one, from all attempts."""
    async with db.once() as conn:
        return await store.list_(conn, run, org=db.org, step=step, after=after, limit=limit)


async def remove_objects(db: Database, *, batch: int = 500) -> int:
    """Delete a batch of objects whose jobs were deleted, then their rows; return the size of the batch.

    A deletion that fails is retried later and does not delay the other objects.
    """
    async with db.once() as conn:
        rows = await store.removable(conn, limit=batch)
    if not rows:
        return 0
    failed = await _delete(db, rows)
    done = [row for row in rows if row not in failed]
    async with db.begin() as conn:
        if done:
            await store.forget(conn, done)
        if failed:
            await store.postpone(conn, list(failed), delay=AGAIN_AFTER)
    return len(rows)


async def _delete(db: Database, rows: Sequence[Removable]) -> dict[Removable, Exception]:
    """Delete the objects; return those that could not be deleted, with the error."""
    try:
        await db.objects().delete([row.key for row in rows])
        return {}
    except Exception as error:
        _log.warning("artifacts of deleted jobs are deleted one by one: %s", error)
    failed: dict[Removable, Exception] = {}
    in_a_row = 0
    for n, row in enumerate(rows):
        try:
            await db.objects().delete([row.key])
            in_a_row = 0
        except Exception as error:
            failed[row] = error
            in_a_row += 1
            if in_a_row == MOST_FAILURES:
                failed |= dict.fromkeys(rows[n + 1 :], error)
                break
    if failed:
        reason = next(iter(failed.values()))
        _log.warning("%d artifacts could not be deleted, retrying in %s: %s", len(failed), AGAIN_AFTER, reason)
    return failed
