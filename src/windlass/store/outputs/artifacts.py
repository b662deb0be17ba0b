"""Statements on the artifacts of attempts. Their content is in the object store."""

from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from windlass.core.artifacts import Artifact, Place, Reference
from windlass.store.postgres.pool import Connection
from windlass.store.postgres.queries import columns, statements

_SQL = statements("artifacts")


class Removable(NamedTuple):
    job_id: UUID
    fence: int
    name: str
    key: str


class StepArtifact(NamedTuple):
    """The name of an artifact of a step of a run, and the instance that wrote it."""

    run_id: UUID
    step: str
    name: str
    item: int


async def reserve(
    conn: Connection,
    job: UUID,
    fence: int,
    reference: Reference,
    *,
    attempt: int,
    key: str,
    media_type: str,
    most: int,
) -> tuple[bool, bool]:
    """Record an artifact before it is written; return whether the attempt holds its job and is within the limit."""
    run, step, item, name = reference
    row = await conn.fetchrow(_SQL["reserve"], job, fence, name, run, step, item, attempt, key, media_type, most)
    assert row is not None
    return row[0], row[1]


async def complete(conn: Connection, job: UUID, fence: int, name: str, size: int) -> bool:
    """Record that an artifact was written; return False if the attempt no longer holds its job."""
    return await conn.fetchval(_SQL["complete"], job, fence, name, size) is True


async def list_(conn: Connection, run: UUID, *, org: str, step: str | None, after: Place, limit: int) -> list[Artifact]:
    return [Artifact(*row) for row in await conn.fetch(_SQL["list"], run, org, step, *after, limit)]


async def find(
    conn: Connection, reference: Reference, *, org: str, attempt: int | None = None, only_result: bool
) -> Artifact | None:
    run, step, item, name = reference
    row = await conn.fetchrow(_SQL["find"], run, org, step, item, name, attempt, only_result)
    return Artifact(*row) if row else None


async def list_of_job(conn: Connection, job: UUID, *, org: str, after: Place, limit: int) -> list[Artifact]:
    rows = await conn.fetch(_SQL["list_of_job"], job, org, after.name, after.fence, limit)
    return [Artifact(*row) for row in rows]


async def find_of_job(conn: Connection, job: UUID, name: str, *, org: str, attempt: int | None) -> Artifact | None:
    row = await conn.fetchrow(_SQL["find_of_job"], job, org, name, attempt)
    return Artifact(*row) if row else None


async def of_steps(conn: Connection, requested: Sequence[tuple[UUID, str, str]], *, most: int) -> list[StepArtifact]:
    """Return which instances have the artifacts that are given as (run, step, name), up to `most` for each of them."""
    return list(map(StepArtifact._make, await conn.fetch(_SQL["of_steps"], *columns(requested), most)))


async def removable(conn: Connection, *, limit: int) -> list[Removable]:
    return list(map(Removable._make, await conn.fetch(_SQL["removable"], limit)))


async def forget(conn: Connection, rows: Sequence[Removable]) -> None:
    await conn.execute(_SQL["forget"], *columns(row[:3] for row in rows))


async def postpone(conn: Connection, rows: Sequence[Removable], *, delay: timedelta) -> None:
    await conn.execute(_SQL["postpone"], *columns(row[:3] for row in rows), delay)
