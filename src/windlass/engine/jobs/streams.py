"""Writes the chunks that handlers stream, and reads them for subscribers."""

import logging
from collections.abc import Sequence
from uuid import UUID

from windlass.core.jobs.streams import NewChunk, Position, StreamPage
from windlass.core.json_value import plain
from windlass.engine.database import Database
from windlass.engine.quarantine import split_batch
from windlass.store.outputs import streams

PAGE = 500  # chunks of each stream per read
_log = logging.getLogger("windlass.streams")


async def append(db: Database, chunks: Sequence[NewChunk]) -> None:
    """Store the chunks whose claims still hold their jobs. A chunk that cannot be stored is logged and dropped."""

    async def together(some: Sequence[NewChunk]) -> None:
        async with db.once() as conn:
            await streams.append(conn, some)

    async def alone(chunk: NewChunk, error: Exception) -> None:
        _log.error("chunk %d of job %s was dropped: %s", chunk.number, chunk.job, plain(str(error)))

    await split_batch(chunks, together, alone)


async def read(db: Database, places: Sequence[tuple[UUID, Position]]) -> list[StreamPage]:
    """Return the next chunks of each of these streams, in one query."""
    async with db.once() as conn:
        return await streams.read(conn, places, limit=PAGE)
