"""Read-only queries for the timeline of a run: the state changes of its jobs."""

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from windlass.core.explain.snapshot import Round
from windlass.core.explain.timeline import Move, Span, SpanKind
from windlass.store.postgres.pool import Connection
from windlass.store.postgres.queries import sql

_MOVES = sql("timelines", "moves")
_TOGETHER = sql("timelines", "together")


async def moves(conn: Connection, run: UUID, steps: Sequence[int], *, limit: int) -> list[Move]:
    rows = await conn.fetch(_MOVES, run, list(steps), limit)
    return [
        Move(step, word, attempt, at, reason, None if delay is None else timedelta(seconds=delay))
        for step, word, attempt, at, reason, delay in rows
    ]


async def together(conn: Connection, run: UUID, steps: Sequence[int], round_: Round) -> list[Span]:
    """Return one span per step in a round: for all instances of a step, and for its child runs (of any step, not only
    of `steps`)."""
    rows = await conn.fetch(_TOGETHER, run, list(steps), round_.began_at, round_.left_at, round_.number - 1)
    return [Span(step, SpanKind.RUNNING, None, began, ended, failed) for step, began, ended, failed in rows]
