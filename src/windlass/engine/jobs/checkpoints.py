"""What must outlive an attempt: the state that a worker saves, and the results of a handler's finished steps.

Saved is saved for all attempts, also for those after a person started the job over. A job that succeeded and is done
again (its run is retried from an earlier step), or one that got another payload, starts from nothing.
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
    """Keep the state of a live job in place of what was kept before. Who says which worker it is must hold the job."""
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
    """The latest; also of a job that ended."""
    await jobs.get(db, job)
    async with db.once() as conn:
        found = await store.get(conn, job)
    if found is None:
        raise NotFound("checkpoint of job", job)
    return found


async def of_jobs(db: Database, wanted: Sequence[UUID]) -> dict[UUID, Checkpoint]:
    """For workers: what was saved of the jobs they were given."""
    async with db.once() as conn:
        return await store.of_jobs(conn, wanted)


async def remove(db: Database, job: UUID) -> None:
    """Forget it, steps too: the next attempt starts from nothing. Nothing to forget is as good."""
    await jobs.get(db, job)
    async with db.once() as conn:
        await store.remove(conn, job)


async def steps(db: Database, job: UUID) -> dict[str, Any]:
    """The results of the steps that earlier attempts finished."""
    async with db.once() as conn:
        return await store.steps(conn, job)


async def save_step(db: Database, job: UUID, *, fence: int, name: str, result: Any) -> None:
    """Record a finished step; refused once the job is in other hands."""
    text = encode(result, field="result", limit=RESULT_LIMIT)
    async with db.once() as conn:
        if not await store.save_step(conn, job, fence, name, text):
            raise LeaseLost(job)
