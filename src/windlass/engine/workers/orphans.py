"""Recovers jobs that are leased to a worker which does not know of them.

A claim can be committed although the worker never gets the result: the connection is lost after the commit, or one row
of the batch cannot be decoded. Without this, those jobs would wait until their leases expire, and each would be charged
a loss.

Call it only for a worker without a claim under way (its result may still arrive) whose id no other process uses.
"""

import logging
from collections.abc import Container
from datetime import timedelta

from windlass.core.jobs.job import Claimed, Fence
from windlass.core.json_value import plain
from windlass.engine import quarantine
from windlass.engine.database import Database
from windlass.engine.quarantine import Kind
from windlass.engine.workers import first_claims
from windlass.errors import Unavailable
from windlass.store import orphans

_log = logging.getLogger("windlass.work")
PAUSE = timedelta(minutes=5)  # before a job that could not be read is tried again


async def adopt(db: Database, *, worker: str, held: Container[Fence]) -> list[Claimed]:
    """Return the jobs that `worker` should start. Each is read by itself: one that cannot be read is handed back."""
    async with db.once() as conn:
        fences = await orphans.find(conn, worker=worker)
    adopted = []
    for fence in fences:
        if fence in held:
            continue
        try:
            job = await _read(db, fence, worker)
        except Unavailable:
            raise  # those read so far are found again
        except Exception as error:
            await _put_back(db, fence, worker, error)
        else:
            adopted += [] if job is None else [job]
    return adopted


async def _read(db: Database, fence: Fence, worker: str) -> Claimed | None:
    """Read a job as a turn does: with its run's definition, and with its composition started if it is the first job."""
    async with db.begin() as conn:
        job = await orphans.read(conn, fence, worker=worker)
        if job is not None and job.version_id is not None:
            known = await db.definitions.readable(conn, {job.version_id})
            await first_claims.tell(conn, [job], known, actor=worker)
        return job


async def _put_back(db: Database, fence: Fence, worker: str, error: Exception) -> None:
    """Postpone a job and set it aside, where operators see it."""
    reason = plain(f"this worker cannot read it: {type(error).__name__}: {error}")[:1000]
    try:
        async with db.once() as conn:
            await orphans.put_back(conn, fence, worker=worker, pause=PAUSE, reason=reason)
    except Unavailable:
        raise
    except Exception:
        _log.exception("job %s could not be handed back: it waits for the end of its lease", fence[0])
    await quarantine.set_aside(db, Kind.JOB, fence[0], error)
