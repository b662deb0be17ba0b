"""JSON Schemas for the arguments of job types, registered by clients or published by workers for their handlers."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import asyncpg

from windlass.core.jobs.spec import SchemaMode
from windlass.core.json_value import decode, decode_object
from windlass.store.postgres.pool import Connection
from windlass.store.postgres.queries import mapping, statements

_SQL = statements("job_schemas")
_TYPES = statements("job_types")


@dataclass(frozen=True, slots=True)
class JobSchema:
    type: str
    version: str
    uri: str | None
    document: Any
    mode: SchemaMode
    created_at: datetime


async def insert(
    conn: Connection, *, org: str, type_: str, version: str, uri: str | None, document: str, mode: SchemaMode
) -> datetime | None:
    """Insert a schema; return its creation time, or None if the version exists already."""
    at: datetime | None = await conn.fetchval(_SQL["insert"], org, type_, version, uri, document, mode.value)
    return at


async def of_type(conn: Connection, *, org: str, type_: str) -> list[JobSchema]:
    return _read(await conn.fetch(_SQL["of_type"], org, type_))


async def list_(conn: Connection, *, org: str, limit: int) -> list[JobSchema]:
    return _read(await conn.fetch(_SQL["list"], org, limit))


async def remove(conn: Connection, *, org: str, type_: str, version: str) -> bool:
    return await conn.fetchval(_SQL["remove"], org, type_, version) is True


def _read(rows: Sequence[asyncpg.Record]) -> list[JobSchema]:
    return [
        JobSchema(
            row["type"], row["version"], row["uri"], decode(row["document"]), SchemaMode(row["mode"]), row["created_at"]
        )
        for row in rows
    ]


# Schemas of handlers


class HandlerSchema(NamedTuple):
    """The schema that a worker publishes for a type."""

    type: str
    digest: str
    schema: str | None  # as JSON; None: the handler takes any values


@dataclass(frozen=True, slots=True)
class PublishedSchema:
    """A schema that workers have published for a type."""

    type: str
    digest: str
    schema: dict[str, Any] | None
    version: str | None  # of the code
    first_seen_at: datetime
    last_seen_at: datetime
    workers: list[str]  # live ones


class LiveSchema(NamedTuple):
    """A schema that a live worker serves."""

    org: str
    type: str
    digest: str


class Drift(NamedTuple):
    """A type with several schemas; `workers` names the workers that serve each digest."""

    type: str
    digests: list[str]
    workers: list[str]


async def publish(conn: Connection, *, worker: str, schemas: Sequence[HandlerSchema], version: str | None) -> None:
    """Replace the types that a worker serves, with their schemas."""
    types, digests, texts = ([row[n] for row in schemas] for n in range(3))
    await conn.execute(_TYPES["publish"], worker, types, digests, texts, version)


async def live(conn: Connection, *, alive_within: timedelta) -> list[LiveSchema]:
    return [LiveSchema(*row) for row in await conn.fetch(_TYPES["live"], alive_within)]


async def texts(conn: Connection, digests: Sequence[str]) -> dict[str, str | None]:
    """Return schemas as JSON, by digest; None for a handler that takes any values."""
    return mapping(await conn.fetch(_TYPES["schemas"], list(digests)))


async def published(
    conn: Connection, *, org: str, after: str, limit: int, type_: str | None, alive_within: timedelta
) -> list[PublishedSchema]:
    """List the schemas of a page of types, or of one type."""
    rows = await conn.fetch(_TYPES["list"], org, after, limit, type_, alive_within)
    return [PublishedSchema(**{**row, "schema": decode_object(row["schema"])}) for row in rows]


async def drifting(conn: Connection, *, alive_within: timedelta) -> list[Drift]:
    return [Drift(*row) for row in await conn.fetch(_TYPES["drifting"], alive_within)]


async def tend(conn: Connection, *, most_of_type: int, most_of_org: int) -> None:
    """Record when schemas were served last, and remove the oldest ones."""
    await conn.execute(_TYPES["touch"])
    await conn.execute(_TYPES["trim"], most_of_type, most_of_org)
