"""Requests to start runs, from SQL clients (`windlass.start`) and from events."""

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from windlass.store.postgres.pool import Connection
from windlass.store.postgres.queries import statements

_SQL = statements("start_requests")


class FoundRequest(NamedTuple):
    id: UUID
    org: str
    workflow: str
    sender: str


class StartRequest(NamedTuple):
    id: UUID  # of the run
    org: str
    workflow: str
    sender: str
    input: str  # JSON
    idempotency_key: str | None
    headers: str | None  # JSON: name, key and id of the event that starts the run


async def find(conn: Connection, batch: int) -> list[FoundRequest]:
    return list(map(FoundRequest._make, await conn.fetch(_SQL["find"], batch)))


async def take(conn: Connection, ids: Sequence[UUID]) -> list[StartRequest]:
    """Delete and return the given requests that no other session has locked, oldest first."""
    return list(map(StartRequest._make, await conn.fetch(_SQL["take"], list(ids))))
