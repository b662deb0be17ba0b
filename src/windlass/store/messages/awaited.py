"""Runs that handlers wait for."""

from uuid import UUID

from windlass.store.postgres.pool import Connection
from windlass.store.postgres.queries import statements

_SQL = statements("awaited")


async def depth(conn: Connection, id_: UUID, *, org: str) -> int:
    """Return how deep a run is below others; 0 if there is no such run."""
    return int(await conn.fetchval(_SQL["depth"], id_, org) or 0)


async def begin(conn: Connection, id_: UUID, job: UUID, *, org: str) -> str | None:
    """Note that the handler of a job waits for a run; return the run's state, or None if there is no such run."""
    state: str | None = await conn.fetchval(_SQL["await"], id_, org, job)
    return state
