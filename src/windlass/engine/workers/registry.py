"""Workers for operators: list, inspect, direct, forget."""

from dataclasses import replace
from datetime import timedelta

from windlass.core.json_value import encode
from windlass.engine.database import Tenant
from windlass.engine.orgs import audit
from windlass.errors import Conflict, NotFound
from windlass.store import jobs, workers
from windlass.store.jobs import Job
from windlass.store.workers import ALIVE_WITHIN, WorkerRow

__all__ = ["ALIVE_WITHIN", "WorkerRow"]
MOST_HELD = 1000


async def list_(db: Tenant, *, alive_within: timedelta = ALIVE_WITHIN) -> list[WorkerRow]:
    """Return the workers of the org, latest heartbeat first."""
    async with db.begin() as conn:
        rows = await workers.list_(conn, org=db.org, alive_within=alive_within)
    return [_shown(db, row) for row in rows]


async def get(db: Tenant, id_: str, *, alive_within: timedelta = ALIVE_WITHIN) -> tuple[WorkerRow, list[Job]]:
    """Return a worker and the first MOST_HELD jobs it holds."""
    encode(id_, field="id")
    async with db.begin() as conn:
        rows = await workers.list_(conn, org=db.org, alive_within=alive_within, id_=db.stored(id_))
        if not rows:
            raise NotFound("worker", ascii(id_[:100]))
        return _shown(db, rows[0]), await jobs.list_held(conn, db.stored(id_), org=db.org, limit=MOST_HELD)


async def direct(db: Tenant, id_: str, directive: str | None) -> None:
    """Set the directive that a worker receives with its next heartbeat: `quiet`, `terminate` or None."""
    encode(id_, field="id")
    async with db.begin() as conn:
        if not await workers.direct(conn, db.stored(id_), directive, org=db.org):
            raise NotFound("worker", ascii(id_[:100]))
        await audit.record(conn, db, "worker.direct", id_, directive=directive)


async def forget(db: Tenant, id_: str) -> None:
    """Remove a silent worker from the list; its jobs return to their queues when their leases expire."""
    worker, _ = await get(db, id_)
    if worker.alive:
        raise Conflict(
            f"worker {id_} was seen {worker.silence.total_seconds():.0f} s ago: only silent workers are forgotten"
        )
    async with db.begin() as conn:
        await workers.remove(conn, db.stored(id_), org=db.org)
        await audit.record(conn, db, "worker.forget", id_)


def _shown(db: Tenant, row: WorkerRow) -> WorkerRow:
    return replace(row, id=db.shown(row.id), queues=[db.shown(queue) for queue in row.queues])
