"""Unique keys of the jobs of compositions.

They are reserved for all jobs when a composition is created: a job that begins later must find its key free, and has
no row that could hold the key until then.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from uuid import UUID

from windlass.core.jobs.spec import OnConflict, Unique
from windlass.engine.database import Database
from windlass.engine.jobs.submit import REPLACED
from windlass.errors import Duplicate
from windlass.store import claims, jobs
from windlass.store.claims import Kept
from windlass.store.ojs import compositions
from windlass.store.ojs.compositions import ReservedKey
from windlass.store.postgres.pool import Connection


async def take(conn: Connection, db: Database, members: Sequence[tuple[UUID, int, Unique]]) -> bool:
    """Reserve the keys of these steps, or raise; return whether other jobs were cancelled for them.

    `ignore` is treated like `reject`: a workflow cannot have a job that is not its own.
    """
    if not members:
        return False
    rows = [ReservedKey(f"{db.org}/{unique.key}", run, step) for run, step, unique in members]
    wanted = [(row.key, unique) for row, (_, _, unique) in zip(rows, members, strict=True)]
    there = await _look(conn, rows, wanted)
    replaced: list[UUID] = []
    for key, unique in wanted:
        kept = there.get(key)
        if kept is None:
            continue
        if kept.id is None or unique.on_conflict is not OnConflict.REPLACE:
            raise _duplicate(kept)
        replaced.append(kept.id)
    if replaced:
        await jobs.cancel(conn, replaced, org=db.org, actor=db.actor, reason=REPLACED)
    await compositions.reserve_keys(conn, rows)
    return bool(replaced)


async def take_again(conn: Connection, steps: Sequence[tuple[UUID, UUID, int]]) -> None:
    """Reserve the keys of steps (old run, new run, step) that another composition repeats, or raise."""
    rows = await compositions.keys(conn, steps)
    if not rows:
        return
    there = await _look(conn, rows, [(row.key, Unique(key=row.key)) for row in rows])
    if there:
        raise _duplicate(next(iter(there.values())))
    await compositions.reserve_keys(conn, rows)


def poke(db: Database) -> None:
    """Poke after jobs were cancelled: their workers stop them, and their runs go on."""
    db.poke("cancel")
    db.poke("settle")


async def _look(
    conn: Connection, rows: Sequence[ReservedKey], wanted: Sequence[tuple[str, Unique]]
) -> Mapping[str, Kept]:
    twice = [key for key, count in Counter(row.key for row in rows).items() if count > 1]
    if twice:
        raise Duplicate("two jobs of this workflow have the same unique key", existing=None)
    await claims.lock_keys(conn, [row.key for row in rows])
    return await claims.find_unique(conn, wanted)


def _duplicate(kept: Kept) -> Duplicate:
    if kept.id is None:
        return Duplicate(f"a step of workflow {kept.workflow} that waits has the same unique key", existing=None)
    return Duplicate(f"job {kept.id} has the same unique key", existing=kept.id)
