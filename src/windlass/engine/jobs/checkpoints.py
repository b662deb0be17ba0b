"""Data that outlives an attempt: a worker's saved state, and the results of a handler's finished steps.

It is kept for all attempts, also after a reopen. A job that succeeded and is repeated (its run is retried from an
earlier step), or one that got another payload, starts without it.
"""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from windlass.core.jobs.job import TERMINAL
from windlass.core.json_value import PAYLOAD_LIMIT, RESULT_LIMIT, encode
from windlass.engine.database import Database
from windlass.engine.jobs import control as jobs
from windlass.errors import Conflict, Invalid, LeaseLost, NotFound
from windlass.store.ojs import checkpoints as store
from windlass.store.ojs.checkpoints import Checkpoint
from windlass.store.postgres.pool import UNSTORABLE

__all__ = ["Checkpoint", "get", "of_jobs", "remove", "save", "save_step", "steps"]


async def save(db: Database, job: UUID, state: Any, *, worker: str | None = None) -> Checkpoint:
    """Replace the saved state of a live job. If `worker` is given, it must hold the job."""
    text = encode(state, field="state", limit=PAYLOAD_LIMIT)
    async with db.begin() as conn:
        try:
            saved = await store.save(conn, job, text, org=db.org, worker=worker)
        except UNSTORABLE as error:
            raise Invalid(f"Postgres cannot store this: {error}", field="state") from None
    if saved is None:
        found = await jobs.get(db, job)
        if worker is not None and found.status not in TERMINAL:
            raise LeaseLost(job)
        raise Conflict(f"job {job} is {found.status}: only the checkpoint of a live job can be saved")
    return Checkpoint(state, *saved)


async def get(db: Database, job: UUID) -> Checkpoint:
    """Return the latest checkpoint, also of a job that ended."""
    await jobs.get(db, job)
    async with db.once() as conn:
        found = await store.get(conn, job)
    if found is None:
        raise NotFound("checkpoint of job", job)
    return found


async def of_jobs(db: Database, wanted: Sequence[UUID]) -> dict[UUID, Checkpoint]:
    """Return the checkpoints of the jobs that a worker claimed."""
    async with db.once() as conn:
        return await store.of_jobs(conn, wanted)


async def remove(db: Database, job: UUID) -> None:
    """Delete checkpoint and steps, if any: the next attempt starts without them."""
    await jobs.get(db, job)
    async with db.once() as conn:
        await store.remove(conn, job)


async def steps(db: Database, job: UUID) -> dict[str, Any]:
    """Return the results of the steps that earlier attempts finished."""
    async with db.once() as conn:
        return await store.steps(conn, job)


async def save_step(db: Database, job: UUID, *, fence: int, name: str, result: Any) -> None:
    """Record a finished step; raise `LeaseLost` if the job is no longer held under this fence."""
    text = encode(result, field="result", limit=RESULT_LIMIT)
    async with db.once() as conn:
        if not await store.save_step(conn, job, fence, name, text):
            raise LeaseLost(job)
