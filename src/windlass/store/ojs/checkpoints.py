"""Checkpoints of jobs: a worker's saved state, and the results of a handler's finished steps."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from windlass.core.json_value import decode
from windlass.store.postgres.pool import Connection
from windlass.store.postgres.queries import statements

_SQL = statements("checkpoints")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    state: Any
    sequence: int
    saved_at: datetime


async def save(
    conn: Connection, job: UUID, state: str, *, org: str, worker: str | None = None
) -> tuple[int, datetime] | None:
    """Save a checkpoint; return its sequence and time, or None if there is no such live job or this worker does not
    hold it."""
    row = await conn.fetchrow(_SQL["save"], job, org, state, worker)
    return (row[0], row[1]) if row else None


async def get(conn: Connection, job: UUID) -> Checkpoint | None:
    row = await conn.fetchrow(_SQL["get"], job)
    return Checkpoint(decode(row[0]), row[1], row[2]) if row else None


async def of_jobs(conn: Connection, jobs: Sequence[UUID]) -> dict[UUID, Checkpoint]:
    rows = await conn.fetch(_SQL["of_jobs"], list(jobs))
    return {row[0]: Checkpoint(decode(row[1]), row[2], row[3]) for row in rows}


async def remove(conn: Connection, job: UUID) -> None:
    await conn.execute(_SQL["remove"], job)


async def steps(conn: Connection, job: UUID) -> dict[str, Any]:
    return {row[0]: decode(row[1]) for row in await conn.fetch(_SQL["steps"], job)}


async def save_step(conn: Connection, job: UUID, fence: int, name: str, result: str) -> bool:
    """Save a step's result; return False if this attempt no longer holds the job."""
    return await conn.fetchval(_SQL["save_step"], job, fence, name, result) is True
