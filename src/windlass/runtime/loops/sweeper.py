"""Applies events that did not come through a worker's report: job completions written by plain SQL, and notices of
other runs. Also starts runs that wait for their workflow's concurrency limit, and retries what is in quarantine."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from uuid import UUID

from windlass.engine import quarantine
from windlass.engine.database import Database
from windlass.engine.quarantine import Kind, Retry
from windlass.engine.runs import sweep
from windlass.engine.schedules import ojs as ojs_schedules
from windlass.engine.schedules import sql as sql_schedules
from windlass.engine.schedules import workflow as workflow_schedules
from windlass.runtime.loops.loop import Duties, run_periodically


@dataclass(frozen=True, kw_only=True)
class SweeperOptions:
    every: timedelta = timedelta(milliseconds=500)
    batch: int = 500


class Sweeper:
    def __init__(self, db: Database, options: SweeperOptions | None = None) -> None:
        self.options = options or SweeperOptions()
        self._db = db
        self._duties = Duties(db, "sweeper")
        self._held = sweep.HeldRuns(db, batch=self.options.batch)
        self._wake = asyncio.Event()

    async def tick(self) -> int:
        """Run one sweep; return how many runs were started, settled or retried."""
        batch = self.options.batch
        started = await self._duties.run("begin", self._held.start, 0)
        settled = await self._duties.run("settle", lambda: sweep.sweep_runs(self._db, batch=batch), 0)
        retried = await self._duties.run("retry", lambda: quarantine.retry_due(self._db, retries(self._db)), 0)
        return started + settled + retried

    async def run(self, stop: asyncio.Event) -> None:
        async def round_() -> timedelta | None:
            return timedelta() if await self.tick() else None

        with self._db.subscribe(self._woken):
            await run_periodically(round_, every=self.options.every, stop=stop, wake=self._wake)

    def _woken(self, topic: str) -> None:
        if topic in ("settle", ""):
            self._wake.set()


def retries(db: Database) -> dict[Kind, Retry]:
    """Return the retry function of each kind of quarantined object."""

    async def schedule(id_: UUID) -> bool:
        await sql_schedules.fire(db, [id_])
        return True

    return {
        Kind.RUN: _by_id(partial(sweep.retry, db)),
        Kind.WORKFLOW: _by_id(partial(sweep.start_held_of, db)),
        Kind.TRIGGER: _by_id(partial(workflow_schedules.serve, db)),
        Kind.CRON: _by_id(partial(ojs_schedules.serve, db)),
        Kind.SCHEDULE: _by_id(schedule),
    }


def _by_id(process: Callable[[UUID], Awaitable[bool]]) -> Retry:
    async def retry(key: str) -> bool:
        return await process(UUID(key))

    return retry
