"""Streams of handlers: chunks are appended under the fence of a claim and read after a position."""

from collections.abc import Sequence
from uuid import UUID

from windlass.core.jobs.job import TERMINAL, JobState
from windlass.core.jobs.streams import NewChunk, Position, StreamChunk, StreamPage
from windlass.core.json_value import decode
from windlass.store.postgres.pool import Connection
from windlass.store.postgres.queries import columns, statements

_SQL = statements("streams")


async def append(conn: Connection, chunks: Sequence[NewChunk]) -> None:
    await conn.execute(_SQL["append"], *columns(chunks))


async def read(conn: Connection, places: Sequence[tuple[UUID, Position]], *, limit: int) -> list[StreamPage]:
    """Return the next chunks of each stream. A job that was deleted counts as cancelled."""
    jobs, positions = [job for job, _ in places], [position for _, position in places]
    rows = await conn.fetch(_SQL["read"], jobs, *columns(positions), limit)
    chunks: list[list[StreamChunk]] = [[] for _ in places]
    states = [JobState.CANCELLED] * len(places)
    for row in rows:
        n = row[0] - 1
        if row[1] is not None:
            states[n] = JobState(row[1])
        if row[2] is not None:
            chunks[n].append(StreamChunk(Position(row[2], row[3]), row[4], row[5], decode(row[6])))
    return [
        StreamPage(page, state if state in TERMINAL and len(page) < limit else None)
        for page, state in zip(chunks, states, strict=True)
    ]
