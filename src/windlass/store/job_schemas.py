"""JSON Schemas for the arguments of job types."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import asyncpg

from windlass.core.jobs.spec import SchemaMode
from windlass.core.json_value import decode
from windlass.store.postgres.pool import Connection
from windlass.store.postgres.queries import statements

_SQL = statements("job_schemas")


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
