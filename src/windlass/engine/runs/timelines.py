"""Loads the timeline of a run: what its steps did when."""

from uuid import UUID

from windlass.core.explain.snapshot import RunSnapshot, round_of
from windlass.core.explain.timeline import Span, during, is_several, timeline
from windlass.engine.database import Database
from windlass.engine.runs import inspect
from windlass.store import timelines as store

MOST_MOVES = 20_000  # of the jobs of one run; later ones are not drawn


async def of_run(db: Database, id_: UUID, *, attempt: int | None = None) -> tuple[RunSnapshot, list[Span]]:
    """Return the timeline of all rounds of a run, or of one."""
    account = await inspect.account(db, id_)
    asked = None if attempt is None else round_of(account.rounds, attempt)
    several = [n for n, step in enumerate(account.steps) if is_several(step.step)]
    plain = [n for n in range(len(account.steps)) if n not in several]
    async with db.begin() as conn:
        moves = await store.moves(conn, id_, plain, limit=MOST_MOVES) if plain else []
        if asked is None or len(account.rounds) == 1:
            return account, timeline(account, moves)
        together = await store.together(conn, id_, several, asked) if several else []
    return account, during(account, asked, moves, together)
