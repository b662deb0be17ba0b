"""The scheduler loop: fires the three kinds of schedules (workflow, OJS cron, plain SQL) when they are due.

It waits until the next due time, at most a second, because rows may be changed by plain SQL.
"""

import asyncio
from dataclasses import dataclass
from datetime import timedelta

from windlass.engine.database import Database
from windlass.engine.schedules import ojs as ojs_schedules
from windlass.engine.schedules import sql as sql_schedules
from windlass.engine.schedules import workflow as workflow_schedules
from windlass.engine.schedules.workflow import NextDue
from windlass.runtime.loops.loop import Duties, run_periodically

UNKNOWN_CRONS: tuple[timedelta | None, bool] = (timedelta(), True)
UNKNOWN = NextDue(job=timedelta(), run=timedelta(), waits=False, ready=True)


@dataclass(frozen=True, kw_only=True)
class SchedulerOptions:
    every: timedelta = timedelta(seconds=1)
    again: timedelta = timedelta(milliseconds=50)  # when another session holds what is due
    batch: int = 100


class Scheduler:
    def __init__(self, db: Database, options: SchedulerOptions | None = None) -> None:
        self.options = options or SchedulerOptions()
        self._db = db
        self._duties = Duties(db, "scheduler")
        self._wake = asyncio.Event()
        self._waits = False  # a schedule's tick waits for a run to end

    async def tick(self) -> timedelta:
        """Fire the schedules that are due; return the wait until the next. Two queries if nothing is due."""
        # If the query for due times fails, treat everything as due.
        due = await self._duties.run("look", lambda: workflow_schedules.next_due(self._db), UNKNOWN)
        self._waits = due.waits
        waits = [wait for wait in (due.job, due.run) if wait is not None]
        cron, ready = await self._duties.run("look_at_crons", lambda: ojs_schedules.next_due(self._db), UNKNOWN_CRONS)
        if cron is not None:
            waits.append(cron)
        if not (due.ready or ready) and (not waits or min(waits) > timedelta()):
            return min(waits, default=self.options.every)
        served, batch = 0, self.options.batch
        if ready or (cron is not None and cron <= timedelta()):
            served += await self._duties.run("crons", lambda: ojs_schedules.tick(self._db, batch=batch), 0)
        if due.job is not None and due.job <= timedelta():
            served += await self._duties.run("schedules", lambda: sql_schedules.tick(self._db, batch=batch), 0)
        if due.ready or (due.run is not None and due.run <= timedelta()):
            served += await self._duties.run("triggers", lambda: workflow_schedules.tick(self._db, batch=batch), 0)
        return timedelta() if served else self.options.again

    async def run(self, stop: asyncio.Event) -> None:
        with self._db.subscribe(self._woken):
            await run_periodically(self.tick, every=self.options.every, stop=stop, wake=self._wake)

    def _woken(self, topic: str) -> None:
        if topic == "run" and self._waits:
            self._wake.set()
