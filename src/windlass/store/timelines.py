"""When the jobs of a run did what. Only reads."""

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from windlass.core.timeline import Move
from windlass.store.pool import Connection
from windlass.store.queries import sql

_MOVES = sql("timelines", "moves")


async def moves(conn: Connection, run: UUID, steps: Sequence[int], *, limit: int) -> list[Move]:
    rows = await conn.fetch(_MOVES, run, list(steps), limit)
    return [
        Move(step, word, attempt, at, reason, None if delay is None else timedelta(seconds=delay))
        for step, word, attempt, at, reason, delay in rows
    ]
