"""Helpers to submit, claim and finish jobs."""

from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from windlass.core.jobs.job import Claimed, JobMove, Report, Setback, Success
from windlass.core.jobs.spec import JobSpec
from windlass.core.orgs import stored
from windlass.engine.database import Tenant
from windlass.engine.jobs import control as jobs
from windlass.engine.workers import turn
from windlass.engine.workers.turn import Turn

LEASE = timedelta(seconds=30)
SPEC = JobSpec(type="content.thumbnail.v1", payload={"content_id": "c_123"})


async def submit(db: Tenant, **fields: Any) -> UUID:
    return (await jobs.submit(db, [replace(SPEC, **fields)]))[0]


async def take(
    db: Tenant, count: int = 1, *, reports: list[Report] | None = None, worker_lease: int | None = None
) -> list[Claimed]:
    queues = [stored(db.org, name) for name in ("default", "sql", "other")]
    lanes = [(replace(lane, seq=0), count) for lane in await turn.look(db, queues)]
    request = Turn(worker="w1", lease=LEASE, worker_lease=worker_lease, reports=reports or [], lanes=lanes, count=count)
    return (await turn.turn(db, request))[0]


class Holder:
    """The worker `w1`, with one lease of the worker, or with one lease for each job."""

    def __init__(self, db: Tenant, *, has_lease: bool = True) -> None:
        self.db = db
        self.has_lease = has_lease
        self.lease: int | None = None

    async def take(self, count: int = 1) -> list[Claimed]:
        if self.has_lease and self.lease is None:
            self.lease = await turn.open_lease(self.db, "w1", lease=LEASE)
        await self.extend()
        return await take(self.db, count, worker_lease=self.lease)

    async def extend(self, *held: Claimed) -> None:
        """Send heartbeats for all jobs that it holds."""
        if self.lease is not None:
            await turn.extend_lease(self.db, self.lease, "w1", lease=LEASE)
        elif held:
            extended = await turn.heartbeat(self.db, [job.fence for job in held], worker="w1", lease=LEASE)
            assert extended == [(*job.fence, False, True) for job in held]


async def finish(db: Tenant, id_: UUID, status: str) -> None:
    """Claim the only due job and end it with this status."""
    if status == "cancelled":
        await jobs.cancel(db, id_)
        return
    [job] = await take(db)
    assert job.id == id_
    ends: dict[str, Report] = {
        "succeeded": Success(job, '"done"'),
        "failed": Setback(job, JobMove.FAIL, {"type": "ValueError", "message": "boom"}, timedelta()),
    }
    await turn.turn(db, Turn(worker="w1", lease=LEASE, reports=[ends[status]]))


async def words(db: Tenant, id_: UUID) -> list[str]:
    return [event.event_type for event in await jobs.events(db, id_)]
