"""Job types: the schemas that workers publish for the payloads of their handlers."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from windlass.core.jobs.spec import check_range
from windlass.core.json_value import encode
from windlass.engine.database import Database, Tenant
from windlass.engine.known_types import TOPIC
from windlass.errors import NotFound
from windlass.schemas.common import PAGE_LIMIT, Page
from windlass.schemas.job_types import JobType, JobTypeDetail, JobTypeVersion
from windlass.store import job_schemas as store
from windlass.store.job_schemas import HandlerSchema, PublishedSchema
from windlass.store.workers import ALIVE_WITHIN

__all__ = ["HandlerSchema"]


async def publish(db: Database, worker: str, schemas: Sequence[HandlerSchema], *, version: str | None) -> None:
    """Record the schemas of a registered worker, in place of those that it has published before."""
    async with db.once() as conn:
        await store.publish(conn, worker=worker, schemas=schemas, version=version)
    db.poke(TOPIC)


async def list_(db: Tenant, *, after: str = "", limit: int = 100) -> Page[JobType]:
    """Return the types that workers serve, or have served, by name."""
    encode(after, field="after")
    check_range(limit, "limit", most=PAGE_LIMIT)
    rows = await _published(db, after=after, limit=limit)
    types = [JobType(**_summary(list(group))) for _, group in groupby(rows, key=lambda row: row.type)]
    return Page(types, types[-1].type if len(types) == limit else None)


async def get(db: Tenant, type_: str) -> JobTypeDetail:
    encode(type_, field="type")
    rows = await _published(db, limit=1, type_=type_)
    if not rows:
        raise NotFound("job type", ascii(type_[:100]), hint="a type is known once a worker that serves it has started")
    return JobTypeDetail(**_summary(rows), history=[_version(db, row) for row in rows])


async def _published(db: Tenant, *, after: str = "", limit: int, type_: str | None = None) -> list[PublishedSchema]:
    # As the engine: which workers serve a type is not visible to the org that submits its jobs.
    async with db.database.once() as conn:
        return await store.published(conn, org=db.org, after=after, limit=limit, type_=type_, alive_within=ALIVE_WITHIN)


def _summary(rows: Sequence[PublishedSchema]) -> dict[str, Any]:
    live = [row for row in rows if row.workers]
    current = max(live, key=lambda row: row.first_seen_at) if live else rows[0]
    return {
        "type": current.type,
        "schema": current.schema,
        "digest": current.digest,
        "drift": len(live) > 1,
        "workers": sum(len(row.workers) for row in live),
        "versions": len(rows),
        "first_seen_at": min(row.first_seen_at for row in rows),
        "last_seen_at": max(row.last_seen_at for row in rows),
    }


def _version(db: Tenant, row: PublishedSchema) -> JobTypeVersion:
    return JobTypeVersion(
        digest=row.digest,
        schema=row.schema,
        code_version=row.version,
        workers=len(row.workers),
        worker_ids=row.workers if db.acts_for_all else [],
        first_seen_at=row.first_seen_at,
        last_seen_at=row.last_seen_at,
    )
