"""Job types: publishes the schemas of workers for the payloads of their handlers, and checks payloads against them.

A payload is checked when its job is submitted, if live workers serve its type and all of them have a schema: it is
accepted if one of the schemas accepts it. The check reports mistakes to producers early; it is not what protects a
handler. So if it cannot be done, for example because a schema takes too long, the job is accepted: its worker converts
the payload, or fails the job.
"""

import asyncio
import functools
import json
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from windlass.core.jobs import payloads
from windlass.core.jobs.payloads import Path
from windlass.core.jobs.spec import check_range
from windlass.core.json_value import encode
from windlass.core.orgs import DEFAULT_ORG
from windlass.engine.database import Database, Tenant
from windlass.engine.jobs.schemas import MAX_DOCUMENT
from windlass.engine.known_types import TOPIC
from windlass.errors import Invalid, NotFound, Unavailable
from windlass.schemas.common import PAGE_LIMIT, Page
from windlass.schemas.job_types import JobType, JobTypeDetail, JobTypeVersion
from windlass.store import job_schemas as store
from windlass.store.job_schemas import HandlerSchema, PublishedSchema
from windlass.store.jobs import NewJob
from windlass.store.workers import ALIVE_WITHIN

__all__ = ["HandlerSchema"]
UNTYPED = "any"  # the digest of a handler that accepts any payload
MOST_PROBLEMS = 3  # in an error message
_log = logging.getLogger("windlass.jobs")


async def publish(db: Database, worker: str, schemas: Sequence[HandlerSchema], *, version: str | None) -> None:
    """Record the schemas of a registered worker, replacing those that it published before."""
    async with db.once() as conn:
        await store.publish(conn, worker=worker, schemas=[_bounded(schema) for schema in schemas], version=version)
    db.poke(TOPIC)


def _bounded(row: HandlerSchema) -> HandlerSchema:
    """Return the row without a schema, as untyped, if its schema is too large."""
    is_large = row.schema is not None and len(row.schema) > MAX_DOCUMENT
    return HandlerSchema(row.type, UNTYPED, None) if is_large else row


async def list_(db: Tenant, *, after: str = "", limit: int = 100) -> Page[JobType]:
    """Return a page of the types that workers serve or have served, by name."""
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
    # As the engine: an org that submits jobs of a type cannot see the workers that serve it.
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


# Checks


@dataclass(frozen=True, slots=True)
class PayloadMisfit:
    """A payload that no schema of its type accepts: its index, and its problems with their paths."""

    index: int
    problems: Sequence[tuple[Path, str]]


async def check(db: Tenant, rows: Sequence[NewJob], *, wait: bool, listed: bool) -> None:
    """Raise `Invalid` for the first job whose payload no schema of its type accepts; `wait` as for `first_misfit`.

    `listed`: the error names the index of the job.
    """
    misfit = await first_misfit(db, [row.options.type for row in rows], lambda n: rows[n].payload, wait=wait)
    if misfit is None:
        return
    named = [(".".join(map(str, ("payload", *path))), message) for path, message in misfit.problems]
    problems = "; ".join(f"{path}: {message}" for path, message in named[:MOST_PROBLEMS])
    message, field = f"{problems} (for the schema: windlass types show {rows[misfit.index].options.type})", named[0][0]
    if listed:
        message, field = f"jobs[{misfit.index}]: {message}", f"jobs.{misfit.index}.{field}"
    raise Invalid(message, field=field)


async def first_misfit(
    db: Tenant, types: Sequence[str], text: Callable[[int], str], *, wait: bool = True
) -> PayloadMisfit | None:
    """Return the first payload that no schema of its type accepts. `text` returns the payload of an index as JSON.

    Without `wait` only the cached schemas are used: the caller holds a connection, and the pool may have no other free.
    """
    known = db.known_types
    if not known.is_fresh:
        reading = _reading(db)
        if wait:
            await asyncio.shield(reading)
    if not known.digests:
        return None
    misfits = []
    for type_ in dict.fromkeys(types):
        schemas = known.schemas_of({DEFAULT_ORG, db.org}, type_)
        if schemas:
            chosen = {n: text(n) for n, other in enumerate(types) if other == type_}
            misfits += await _refused(db, type_, schemas, chosen)
    return min(misfits, key=lambda misfit: misfit.index, default=None)


async def _refused(db: Tenant, type_: str, schemas: Sequence[str], texts: dict[int, str]) -> list[PayloadMisfit]:
    """Return the first of these payloads of a type that none of the schemas accepts, if there is one."""
    left = list(texts)
    try:
        for schema in schemas:
            refused = await db.schema_validator.misfits(schema, [_subject(schema, texts[n]) for n in left])
            left = [left[n] for n in refused]
            if not left:
                return []
        problems = await _problems(db, schemas[-1], json.loads(texts[left[0]]))
    except Exception as error:  # of any kind: the worker checks the payload anyway, so the job is accepted
        if db.known_types.may_warn(type_, time.monotonic()):
            reason = f"{type(error).__name__}: {error}"
            _log.warning("payloads of %s are not validated at submission: %s", type_, reason)
        return []
    return [PayloadMisfit(left[0], problems)] if problems else []


def _subject(schema: str, text: str) -> str:
    """Return the value that the schema describes, as JSON: for an array it may differ from the payload."""
    return json.dumps(payloads.subject(_document(schema), json.loads(text))) if text.startswith("[") else text


async def _problems(db: Tenant, schema: str, payload: Any) -> list[tuple[Path, str]]:
    document = _document(schema)
    problems = await db.schema_validator.problems(schema, payloads.subject(document, payload))
    return [(payloads.place(document, payload, path), message) for path, message in problems]


@functools.lru_cache(maxsize=256)
def _document(schema: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(schema)
    return document


def _reading(db: Tenant) -> "asyncio.Task[None]":
    """Return the task that reads the schemas of live workers; concurrent submits share it."""
    known = db.known_types
    if known.reading is None or known.reading.done():
        known.reading = asyncio.create_task(_read(db.database))
    return known.reading


async def _read(db: Database) -> None:
    known, started, changes = db.known_types, time.monotonic(), db.known_types.changes
    try:
        async with db.begin() as conn:
            live = await store.live(conn, alive_within=ALIVE_WITHIN)
            missing = {row.digest for row in live} - known.schemas.keys()
            texts = await store.texts(conn, sorted(missing)) if missing else {}
    except Unavailable:
        return  # the submit itself reports it
    known.keep([((row.org, row.type), row.digest) for row in live], texts)
    if known.changes == changes:
        known.read_at = started
